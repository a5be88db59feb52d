"""Organizations, the tenants: saved, changed, paused, deleted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Connection, text

from dispatcher.actions import pauses, saving
from dispatcher.broker.messages import Manager, Owed, wake
from dispatcher.db import tables as t
from dispatcher.db.change import raise_counter
from dispatcher.domain.launch_checks import number_problem
from dispatcher.domain.prompts import RULES
from dispatcher.errors import Conflict, InvalidRequest

#: Runs belong to this one.
DEFAULT: Final = "Default"
_HIGHEST_WEIGHT: Final = 1_000_000
#: What a planner looks at.
_PLANNED_BY: Final = frozenset({"weight", "max_concurrent_jobs"})


def weight_problem(value: object) -> str | None:
    """A share of the cluster, relative to other tenants'."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or not 1 / _HIGHEST_WEIGHT <= value <= _HIGHEST_WEIGHT
    ):
        return f"a number from {1 / _HIGHEST_WEIGHT:f} to {_HIGHEST_WEIGHT} is required"
    return None


ORGANIZATION: Final = saving.Subject(
    table=t.organization,
    word="organization",
    rules={
        "name": saving.name_problem,
        "description": saving.text_problem,
        "weight": weight_problem,
        "max_concurrent_jobs": lambda v: number_problem(v, 0, 1_000_000),
        "instance_groups": RULES["instance_groups"],
    },
    required=("name",),
    within="",
)


def create_organization(
    connection: Connection, values: Mapping[str, Any], by: str = ""
) -> tuple[int, Owed]:
    """Make an organization; its id, and what is owed.

    Args:
        by: who asks; shown with a pause.

    Raises:
        InvalidRequest: by field.
    """
    own, switch = pauses.split(values)
    saving.check_groups(connection, own)
    made = saving.create(connection, ORGANIZATION, own)
    pauses.set_switch(connection, pauses.Scope(organization_id=made), switch, by)
    return made, Owed()  # it has no jobs yet


def change_organization(
    connection: Connection, organization_id: int, values: Mapping[str, Any], by: str = ""
) -> Owed:
    """Change an organization. Jobs that have been launched keep their groups.

    Raises:
        NotFound: there is no such organization.
        InvalidRequest: by field.
    """
    own, switch = pauses.split(values)
    saving.check_groups(connection, own)
    if "name" in own and own["name"] != DEFAULT and _is_default(connection, organization_id):
        raise InvalidRequest({"name": f"{DEFAULT} keeps its name: runs belong to it"})
    saving.change(connection, ORGANIZATION, organization_id, own)
    scope = pauses.Scope(organization_id=organization_id)
    planned = pauses.set_switch(connection, scope, switch, by)
    if not planned and not _PLANNED_BY & set(own):
        return Owed()
    raise_counter(connection)
    return wake(Manager.TASK)


def put_group(
    connection: Connection, organization_id: int, group_id: int, *, member: bool = True
) -> None:
    """Put an instance group behind those that an organization prefers, or take it out."""
    if member:
        saving.check_groups(connection, {"instance_groups": [group_id]}, field="id")
    change = "array_remove(instance_groups, :group)"
    if member:
        change = f"{change} || CAST(:group AS bigint)"
    connection.execute(
        text(
            f"UPDATE organization SET instance_groups = {change}, modified = dispatcher_now()"
            " WHERE id = :id AND (CAST(:group AS bigint) = ANY(instance_groups)) <> :member"
        ),
        {"id": organization_id, "group": group_id, "member": member},
    )


def delete_organization(connection: Connection, organization_id: int) -> None:
    """Delete an organization to which nothing belongs any more, not even an ended job.

    Raises:
        NotFound, Conflict: see :func:`saving.remove`.
    """
    if _is_default(connection, organization_id):
        raise Conflict(f"runs belong to {DEFAULT}", code="in_use")
    saving.remove(connection, ORGANIZATION, organization_id)


def _is_default(connection: Connection, organization_id: int) -> bool:
    found = connection.scalar(
        text("SELECT name FROM organization WHERE id = :id"), {"id": organization_id}
    )
    return bool(found == DEFAULT)
