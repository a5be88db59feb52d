"""Pause switches: of everything, of an instance group, of a tenant. What runs goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, text

from dispatcher.broker.messages import Manager, Owed, wake
from dispatcher.db.change import raise_counter
from dispatcher.domain.launch_checks import LONGEST_NAME, flag_problem, line_problem
from dispatcher.errors import InvalidRequest

#: The fields of an object that has a switch; they are no columns of it.
FIELDS: Final = frozenset({"paused", "pause_reason"})


@dataclass(frozen=True)
class Scope:
    """What a switch stops the starts of; neither: everything."""

    organization_id: int | None = None
    instance_group_id: int | None = None


def split(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The columns of an object, and what is said of its switch.

    Raises:
        InvalidRequest: by field, for the switch.
    """
    switch = {name: value for name, value in values.items() if name in FIELDS}
    wrong = {
        "paused": flag_problem(switch.get("paused", False)),
        "pause_reason": line_problem(switch.get("pause_reason", ""), LONGEST_NAME),
    }
    if any(wrong.values()):
        raise InvalidRequest({name: problem for name, problem in wrong.items() if problem})
    return {name: value for name, value in values.items() if name not in FIELDS}, switch


def set_switch(connection: Connection, scope: Scope, switch: Mapping[str, Any], by: str) -> bool:
    """Pause, go on, or change the reason; whether anything was said about it.

    The caller raises the change counter and wakes the TaskManager.

    Raises:
        InvalidRequest: a reason without a pause.
    """
    if not switch:
        return False
    names = {"organization": scope.organization_id, "group": scope.instance_group_id}
    reason = switch.get("pause_reason")
    if switch.get("paused") is False:
        if reason:
            raise InvalidRequest({"pause_reason": "what is not paused has none"})
        connection.execute(text(f"DELETE FROM pause WHERE {_HERE}"), names)
    elif switch.get("paused"):
        connection.execute(
            text(_PAUSE), {**names, "reason": reason or "", "given": reason is not None, "by": by}
        )
    else:
        changed = connection.execute(
            text(f"UPDATE pause SET reason = :reason WHERE {_HERE}"), {**names, "reason": reason}
        )
        if reason and not changed.rowcount:
            raise InvalidRequest({"pause_reason": "what is not paused has none"})
    return True


def set_whole(connection: Connection, switch: Mapping[str, Any], by: str) -> Owed:
    """Pause everything, or go on.

    Raises:
        InvalidRequest: by field.
    """
    _, switch = split(switch)
    set_switch(connection, Scope(), switch, by)
    raise_counter(connection)
    return wake(Manager.TASK)


def read_whole(connection: Connection) -> dict[str, Any]:
    """Whether everything is paused, and why."""
    reason = connection.scalar(
        text("SELECT reason FROM pause WHERE organization_id IS NULL AND instance_group_id IS NULL")
    )
    return {"paused": reason is not None, "pause_reason": reason or ""}


_HERE: Final = (
    "organization_id IS NOT DISTINCT FROM CAST(:organization AS bigint)"
    " AND instance_group_id IS NOT DISTINCT FROM CAST(:group AS bigint)"
)
_PAUSE: Final = """
    INSERT INTO pause (organization_id, instance_group_id, reason, created_by)
    VALUES (CAST(:organization AS bigint), CAST(:group AS bigint), :reason, :by)
    ON CONFLICT (instance_group_id, organization_id) DO UPDATE
        SET reason = CASE WHEN :given THEN excluded.reason ELSE pause.reason END
"""
