"""``schedules/``: what is launched when, by an iCalendar rule or a cron expression."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from zoneinfo import ZoneInfo

from fastapi import APIRouter
from sqlalchemy import Connection

from dispatcher.actions import save_schedule as save
from dispatcher.api.auth import CallerParameter
from dispatcher.api.v2 import objects
from dispatcher.api.v2.inventory_sources import SOURCE
from dispatcher.api.v2.job_kinds import job_url
from dispatcher.api.v2.job_templates import JOB_TEMPLATE
from dispatcher.api.v2.object_form import capabilities, named, stored
from dispatcher.api.v2.projects import PROJECT
from dispatcher.api.v2.prompt_fields import (
    changed_prompts,
    field_of,
    shown_prompts,
    split_prompts,
)
from dispatcher.api.v2.resource import Row, url_of
from dispatcher.api.v2.schedule_models import (
    NewSchedule,
    NewScheduleInside,
    Preview,
    PreviewBody,
    Schedule,
    ScheduleChanges,
)
from dispatcher.api.v2.template_kinds import TEMPLATE_KINDS, shown_template, word_of
from dispatcher.api.v2.workflow_templates import WORKFLOW_TEMPLATE
from dispatcher.broker.messages import Owed
from dispatcher.db import schedule_queries as queries
from dispatcher.db.schedule_rows import TARGETS
from dispatcher.db.workflow_queries import read_spawned
from dispatcher.domain.status import Kind
from dispatcher.errors import InvalidRequest

_SAME: Final = (
    "starts",
    "ends",
    "enabled",
    "disabled_reason",
    "misfire",
    "misfire_limit",
    "next_run",
    "last_run",
)
#: What the schedule's action calls a field → what callers call it.
_FIELDS: Final = {
    "time_zone": "timezone",
    "template": "unified_job_template",
    "launches": "unified_job_type",
}


def _render(connection: Connection, rows: Sequence[Row]) -> list[dict[str, Any]]:
    names = read_spawned(connection, {(row["launches"], row["template_id"]) for row in rows})
    launches = queries.read_last_launches(connection, [row["id"] for row in rows])
    return [_one(row, names, launches.get(row["id"], [])) for row in rows]


def _one(row: Row, names: Mapping[tuple[str, int], str], launches: Sequence[Row]) -> dict[str, Any]:
    template = shown_template(row["launches"], row["template_id"], names)
    ical = row["rule_kind"] == "ical"
    return {
        **shown_prompts(row["prompts"]),
        **stored(row, "schedule", "schedules"),
        **{name: row[name] for name in _SAME},
        "organization": row["organization_id"],
        "unified_job_template": row["template_id"],
        "unified_job_type": TEMPLATE_KINDS[row["launches"]].job_type,
        "rrule": row["rule"] if ical else "",
        "cron": "" if ical else row["rule"],
        "timezone": row["time_zone"],
        "last_launches": [
            {
                "due": each["due"],
                "launched": each["launched"],
                "job": each["job_id"],
                "url": each["kind"] and job_url(Kind(each["kind"]), each["job_id"]),
                "error": each["error"],
            }
            for each in launches
        ],
        "related": {
            "organization": url_of("organizations", row["organization_id"]),
            **template.related,
        },
        "summary_fields": {
            "organization": named(row["organization_id"], row["organization_name"]),
            "user_capabilities": capabilities(),
            **template.summary,
        },
    }


def _rule(given: Mapping[str, Any], *, required: bool) -> dict[str, Any]:
    """The rule that was sent, as columns; nothing when there is none.

    Raises:
        InvalidRequest: both kinds of it, or none where one is required.
    """
    sent = [name for name in ("rrule", "cron") if given.get(name) is not None]
    if len(sent) > 1:
        raise InvalidRequest({"cron": "give this or rrule, not both"})
    if not sent:
        if required:
            raise InvalidRequest({"rrule": "is required; or cron"})
        return {}
    kind = "ical" if sent[0] == "rrule" else "cron"
    return {"rule_kind": kind, "rule": given[sent[0]]}


def _columns(given: Mapping[str, Any], *, new: bool) -> dict[str, Any]:
    """Fields that were sent, as columns; prompts come apart."""
    values = {n: v for n, v in given.items() if n not in ("rrule", "cron", "timezone")}
    if "timezone" in given:
        values["time_zone"] = given["timezone"]
    return values | _rule(given, required=new)


@contextmanager
def _told(values: Mapping[str, Any]) -> Iterator[None]:
    """Tell what is wrong under the names that the caller used."""
    rule = "cron" if values.get("rule_kind") == "cron" else "rrule"
    try:
        yield
    except InvalidRequest as error:
        fields: dict[str, list[str]] = {}
        for name, words in error.fields.items():
            if name == "prompts":
                for each in words:
                    prompt, _, problem = each.partition(": ")
                    fields.setdefault(field_of(prompt, "extra_data"), []).append(problem)
            else:
                fields[rule if name == "rule" else _FIELDS.get(name, name)] = words
        raise InvalidRequest(fields) from None


def _create(connection: Connection, given: dict[str, Any], _by: str) -> tuple[int, Owed]:
    prompts, rest = split_prompts(given, "extra_data")
    inside = next((word for word in TARGETS if word in rest), None)
    if inside is not None:
        rest |= {"launches": inside, "template_id": rest.pop(inside)}
    else:
        job_type = rest.pop("unified_job_type", "job")
        rest |= {"launches": word_of(job_type), "template_id": rest.pop("unified_job_template")}
    values = _columns(rest, new=True)
    with _told(values):
        values["prompts"] = changed_prompts({}, prompts)
        return save.create_schedule(connection, values), Owed()


def _change(connection: Connection, schedule_id: int, given: dict[str, Any], _by: str) -> Owed:
    prompts, rest = split_prompts(given, "extra_data")
    row = objects.read_row(connection, SCHEDULE, schedule_id)
    target = (row["template_id"], TEMPLATE_KINDS[row["launches"]].job_type)
    for name, same in zip(("unified_job_template", "unified_job_type"), target, strict=True):
        if rest.pop(name, same) != same:
            raise InvalidRequest({name: "cannot be changed"})
    values = _columns(rest, new=False)
    with _told({"rule_kind": row["rule_kind"], **values}):
        if prompts:
            values["prompts"] = changed_prompts(row["prompts"], prompts)
        save.change_schedule(connection, schedule_id, values)
    return Owed()


def _delete(connection: Connection, schedule_id: int) -> Owed:
    save.delete_schedule(connection, schedule_id)
    return Owed()


SCHEDULE: Final = objects.Noun(
    word="schedule",
    resource="schedules",
    key="schedule_id",
    tag="schedules",
    model=Schedule,
    new=NewSchedule,
    changes=ScheduleChanges,
    subject=save.SCHEDULE,
    listing=queries.schedule_listing,
    render=_render,
    create=_create,
    change=_change,
    delete=_delete,
)

router = SCHEDULE.router()


@router.post("/preview/", summary="Try a rule", response_model=Preview)
def preview(caller: CallerParameter, body: PreviewBody) -> dict[str, Any]:
    """When it is due next, by the clock of the database. Nothing is stored."""
    with caller.reading() as connection:
        values = _columns(body.given(), new=True)
        values.pop("count", None)
        with _told(values):
            timing, times = save.preview_rule(connection, values, body.count)
    zone = ZoneInfo(timing.zone)
    return {"utc": times, "local": [moment.astimezone(zone) for moment in times]}


objects.add_routes(router, SCHEDULE)


def inside(parent: objects.Noun, word: str) -> APIRouter:
    """``…/N/schedules/`` of one kind of what can be launched."""
    made = parent.router()
    objects.add_list_inside(
        made,
        parent,
        "schedules",
        SCHEDULE,
        lambda object_id: queries.schedule_listing(word, object_id),
        what=f"the schedules of one {parent.word}",
    )
    objects.add_create_inside(made, parent, "schedules", SCHEDULE, word, NewScheduleInside)
    return made


of_job_templates = inside(JOB_TEMPLATE, "job_template")
of_workflows = inside(WORKFLOW_TEMPLATE, "workflow_job_template")
of_projects = inside(PROJECT, "project")
of_sources = inside(SOURCE, "inventory_source")
