"""Schedules: saved with everything checked and the next due time computed, enabled, disabled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, func, select, text

from dispatcher.actions import saving
from dispatcher.actions.launch_workflow import PROMPTS as WORKFLOW_PROMPTS
from dispatcher.db import tables as t
from dispatcher.db.schedule_rows import TARGETS
from dispatcher.domain import launch_checks as check
from dispatcher.domain import prompts as prompting
from dispatcher.domain.schedule import (
    MOST_MISSED,
    ScheduleError,
    Timing,
    next_after,
    preview,
    read_timing,
)
from dispatcher.domain.schedule import check as check_timing
from dispatcher.errors import InvalidRequest, NotFound

_TIMING: Final = ("rule_kind", "rule", "time_zone", "starts", "ends")
_DEFAULTS: Final[Mapping[str, Any]] = {
    "prompts": {},
    "time_zone": "UTC",
    "starts": None,
    "ends": None,
    "enabled": True,
}


def _moment_problem(value: object) -> str | None:
    return None if value is None or isinstance(value, datetime) else "a time is required"


def _mapping_problem(value: object) -> str | None:
    return None if isinstance(value, Mapping) else "a mapping is required"


SCHEDULE: Final = saving.Subject(
    table=t.schedule,
    word="schedule",
    rules={
        "name": saving.name_problem,
        "description": saving.text_problem,
        "launches": lambda v: check.word_problem(v, tuple(TARGETS)),
        "template_id": saving.id_problem,
        "prompts": _mapping_problem,
        "rule_kind": lambda v: check.word_problem(v, ("cron", "ical")),
        "rule": saving.text_problem,
        "time_zone": saving.text_problem,
        "starts": _moment_problem,
        "ends": _moment_problem,
        "enabled": check.flag_problem,
        "misfire": lambda v: check.word_problem(v, ("skip", "once", "all")),
        "misfire_limit": lambda v: check.number_problem(v, 1, MOST_MISSED),
    },
    required=("name", "launches", "template_id", "rule_kind", "rule"),
    fixed=("launches", "template_id"),
)
#: What is written beside what a caller gives.
_ROW: Final = replace(
    SCHEDULE,
    rules={
        **SCHEDULE.rules,
        "organization_id": saving.id_problem,
        "next_run": _moment_problem,
        "disabled_reason": saving.text_problem,
    },
    required=(),
)


def create_schedule(connection: Connection, values: Mapping[str, Any]) -> int:
    """Make a schedule, in the organization of what it launches; its id.

    Args:
        values: columns of ``schedule``; ``starts`` and ``ends`` with a zone.

    Raises:
        InvalidRequest: by field: a rule that cannot be evaluated or is never due, a target that
            does not exist, prompts that it does not ask for.
    """
    _refuse(saving.check(connection, SCHEDULE, values, new=True))
    wanted = {**_DEFAULTS, **values}
    target = _target(connection, wanted)
    _refuse(_prompt_problems(connection, wanted, target))
    timing = _timing(wanted, given=values.get("time_zone"))
    row = {
        **values,
        "organization_id": target["organization_id"],
        "time_zone": timing.zone,
        "next_run": _next_run(connection, timing, wanted["enabled"]),
    }
    return saving.create(connection, _ROW, row)


def change_schedule(connection: Connection, schedule_id: int, values: Mapping[str, Any]) -> None:
    """Change a schedule. When it is due is computed anew if that may have changed: what was missed
    before is not made up for then.

    Raises:
        NotFound: there is none.
        InvalidRequest: see :func:`create_schedule`.
    """
    _refuse(saving.check(connection, SCHEDULE, values, new=False))
    before = _locked(connection, schedule_id)
    wanted = {**before, **values}
    changed = dict(values)
    if "prompts" in values:
        _refuse(_prompt_problems(connection, wanted, _target(connection, wanted)))
    enabling = wanted["enabled"] and not before["enabled"]
    if enabling:
        _target(connection, wanted)
        changed["disabled_reason"] = ""
    if enabling or any(wanted[name] != before[name] for name in _TIMING):
        if "rule" in values and "time_zone" not in values and wanted["rule_kind"] == "ical":
            wanted["time_zone"] = _DEFAULTS["time_zone"]  # the new rule names its own
        timing = _timing(wanted, given=values.get("time_zone"))
        changed["time_zone"] = timing.zone
        changed["next_run"] = _next_run(connection, timing, wanted["enabled"])
    elif not wanted["enabled"]:
        changed["next_run"] = None
    saving.change(connection, _ROW, schedule_id, changed)


def enable_schedule(connection: Connection, schedule_id: int, enabled: bool = True) -> None:
    """Enable a schedule from now on, or disable it.

    Raises:
        NotFound: there is none.
        InvalidRequest: it cannot be enabled: what it launches is gone, or its rule is over.
    """
    change_schedule(connection, schedule_id, {"enabled": enabled})


def delete_schedule(connection: Connection, schedule_id: int) -> None:
    """Delete a schedule; its jobs stay.

    Raises:
        NotFound: there is none.
    """
    saving.remove(connection, SCHEDULE, schedule_id)


def preview_rule(
    connection: Connection, values: Mapping[str, Any], count: int
) -> tuple[Timing, list[datetime]]:
    """Try a rule: when it is due next, by the clock of the database. Nothing is stored.

    Args:
        values: columns of the rule: ``rule_kind``, ``rule``, ``time_zone``, ``starts``, ``ends``.

    Raises:
        InvalidRequest: by field: a rule that cannot be evaluated.
    """
    wanted = {**_DEFAULTS, **values}
    wrong = {name: SCHEDULE.rules[name](wanted[name]) for name in _TIMING}
    _refuse({name: [str(problem)] for name, problem in wrong.items() if problem})
    timing = _timing(wanted, given=values.get("time_zone"))
    now = connection.execute(select(func.dispatcher_now())).scalar_one()
    try:
        return timing, preview(timing, now, count)
    except ScheduleError as error:
        raise InvalidRequest({error.field: str(error)}) from None


def _refuse(wrong: Mapping[str, list[str]]) -> None:
    if wrong:
        raise InvalidRequest(wrong)


def _locked(connection: Connection, schedule_id: int) -> dict[str, Any]:
    row = connection.execute(
        select(t.schedule).where(t.schedule.c.id == schedule_id).with_for_update()
    ).one_or_none()
    if row is None:
        raise NotFound(f"there is no schedule {schedule_id}")
    return dict(row._mapping)


def _target(connection: Connection, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row of what is launched, with ``organization_id``."""
    launches, target_id = wanted["launches"], wanted["template_id"]
    query = f"SELECT * FROM {launches} WHERE id = :id"
    if launches == "inventory_source":
        query = (
            "SELECT s.*, i.organization_id FROM inventory_source s"
            " JOIN inventory i ON i.id = s.inventory_id WHERE s.id = :id"
        )
    row = connection.execute(text(query), {"id": target_id}).mappings().one_or_none()
    if row is None:
        raise InvalidRequest({"template": f"there is no {TARGETS[launches]} {target_id}"})
    return dict(row)


def _prompt_problems(
    connection: Connection, wanted: Mapping[str, Any], target: Mapping[str, Any]
) -> dict[str, list[str]]:
    prompts, launches = wanted["prompts"], wanted["launches"]
    known: Mapping[str, str] = {}
    if launches == "job_template":
        known = {name: f"ask_{switch}_on_launch" for name, switch in prompting.SWITCHES.items()}
    elif launches == "workflow_job_template":
        known = WORKFLOW_PROMPTS
    words = []
    for name, value in prompts.items():
        if name not in known:
            words.append(f"{name}: a {TARGETS[launches]} has no such prompt")
        elif not target[known[name]]:
            words.append(f"{name}: the {TARGETS[launches]} does not ask for it")
        else:
            words += [f"{name}: {p}" for p in prompting.problems({name: value}).get(name, ())]
    if not words and prompts.get("inventory") is not None:
        inventory = t.inventory.c.id
        if connection.scalar(select(inventory).where(inventory == prompts["inventory"])) is None:
            words.append(f"inventory: there is no inventory {prompts['inventory']}")
    return {"prompts": words} if words else {}


def _timing(wanted: Mapping[str, Any], *, given: str | None) -> Timing:
    """The checked timing. ``given``: the zone that the caller names; the rule may name its own."""
    try:
        timing = read_timing(
            wanted["rule_kind"],
            wanted["rule"],
            wanted["time_zone"],
            starts=wanted["starts"],
            ends=wanted["ends"],
        )
        check_timing(timing)
    except ScheduleError as error:
        raise InvalidRequest({error.field: str(error)}) from None
    if given is not None and given != timing.zone:
        raise InvalidRequest({"time_zone": f"the rule itself names {timing.zone}"})
    return timing


def _next_run(connection: Connection, timing: Timing, enabled: bool) -> datetime | None:
    if not enabled:
        return None
    now = connection.execute(select(func.dispatcher_now())).scalar_one()
    try:
        due = next_after(timing, now)
    except ScheduleError as error:
        raise InvalidRequest({error.field: str(error)}) from None
    if due is None:
        raise InvalidRequest({"rule": "it is never due again"})
    return due
