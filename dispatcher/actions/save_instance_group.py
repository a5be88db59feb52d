"""Instance groups: saved, changed, paused, filled with nodes, deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Connection, text

from dispatcher.actions import pauses, saving
from dispatcher.broker.messages import Manager, Owed, wake
from dispatcher.db import tables as t
from dispatcher.db.change import raise_counter
from dispatcher.domain.launch_checks import line_problem, number_problem
from dispatcher.errors import Conflict, InvalidRequest

#: Jobs that name no group are started through this one.
DEFAULT: Final = "default"
LONGEST_NAME: Final = 100
_MOST: Final = 1_000_000


def group_name_problem(name: object) -> str | None:
    """A name that nodes can be told to join."""
    problem = line_problem(name, LONGEST_NAME)
    return problem or (None if str(name).strip() else "must not be empty")


INSTANCE_GROUP: Final = saving.Subject(
    table=t.instance_group,
    word="instance group",
    rules={
        "name": group_name_problem,
        "max_concurrent_jobs": lambda v: number_problem(v, 0, _MOST),
        "max_forks": lambda v: number_problem(v, 0, _MOST),
    },
    required=("name",),
    within="",
)


def create_group(
    connection: Connection, values: Mapping[str, Any], by: str = ""
) -> tuple[int, Owed]:
    """Make an instance group without nodes; its id, and what is owed.

    Args:
        by: who asks; shown with a pause.

    Raises:
        InvalidRequest: by field.
    """
    own, switch = pauses.split(values)
    made = saving.create(connection, INSTANCE_GROUP, own)
    pauses.set_switch(connection, pauses.Scope(instance_group_id=made), switch, by)
    raise_counter(connection)
    return made, wake(Manager.TASK)


def change_group(
    connection: Connection, group_id: int, values: Mapping[str, Any], by: str = ""
) -> Owed:
    """Change an instance group.

    Raises:
        NotFound: there is no such group.
        InvalidRequest: by field.
    """
    own, switch = pauses.split(values)
    if "name" in own and own["name"] != DEFAULT and _is_default(connection, group_id):
        raise InvalidRequest({"name": f"{DEFAULT} keeps its name: jobs without a group need it"})
    saving.change(connection, INSTANCE_GROUP, group_id, own)
    pauses.set_switch(connection, pauses.Scope(instance_group_id=group_id), switch, by)
    if not values:
        return Owed()
    raise_counter(connection)
    return wake(Manager.TASK)


def put_node(connection: Connection, group_id: int, node_id: int, *, member: bool = True) -> Owed:
    """Put a node into a group, or take it out; its jobs there go on.

    Raises:
        InvalidRequest: there is no such node or group.
    """
    names = {"group": group_id, "node": node_id}
    found = connection.execute(
        text(
            "SELECT FROM node, instance_group AS g WHERE node.id = :node AND removed IS NULL"
            " AND g.id = :group FOR KEY SHARE"
        ),
        names,
    ).one_or_none()
    if found is None:
        raise InvalidRequest({"id": "there is no such instance or instance group"})
    if member:
        statement = (
            "INSERT INTO instance_group_node (instance_group_id, node_id) VALUES (:group, :node)"
            " ON CONFLICT DO NOTHING"
        )
    else:
        statement = (
            "DELETE FROM instance_group_node WHERE instance_group_id = :group AND node_id = :node"
        )
    if not connection.execute(text(statement), names).rowcount:
        return Owed()
    raise_counter(connection)
    return wake(Manager.TASK)


def delete_group(connection: Connection, group_id: int) -> Owed:
    """Delete an instance group that no unfinished job and nothing that launches jobs names.

    Raises:
        NotFound: there is no such group.
        Conflict: ``in_use``, with what uses it.
    """
    if _is_default(connection, group_id):
        raise Conflict(f"jobs without a group need {DEFAULT}", code="in_use")
    # whoever stores a reference to it waits from here on, or is seen below
    connection.execute(
        text("SELECT FROM instance_group WHERE id = :group FOR UPDATE"), {"group": group_id}
    )
    active = connection.scalars(text(_ACTIVE), {"group": group_id}).all()
    if active:
        raise Conflict(
            "unfinished jobs may be started through the instance group",
            code="in_use",
            extra={"active_jobs": list(active)},
        )
    user = connection.execute(text(_USERS), {"group": group_id}).one_or_none()
    if user is not None:
        raise Conflict(
            f"the instance group is used by the {user.word} {user.name!r}", code="in_use"
        )
    saving.remove(connection, INSTANCE_GROUP, group_id)
    raise_counter(connection)
    return wake(Manager.TASK)


_ACTIVE: Final = """
    SELECT id FROM job WHERE status IN ('pending', 'waiting', 'running')
      AND (instance_group_id = :group OR CAST(:group AS bigint) = ANY(preferred_groups))
    ORDER BY id LIMIT 20
"""
_PROMPTED: Final = "prompts -> 'instance_groups' @> to_jsonb(CAST(:group AS bigint))"
_USERS: Final = f"""
    SELECT 'organization' AS word, name FROM organization
        WHERE CAST(:group AS bigint) = ANY(instance_groups)
    UNION ALL SELECT 'job template', name FROM job_template
        WHERE CAST(:group AS bigint) = ANY(instance_groups)
    UNION ALL SELECT 'schedule', name FROM schedule WHERE {_PROMPTED}
    UNION ALL SELECT 'workflow job template', name FROM workflow_job_template WHERE {_PROMPTED}
    UNION ALL SELECT 'workflow node', identifier FROM workflow_template_node WHERE {_PROMPTED}
    LIMIT 1
"""


def _is_default(connection: Connection, group_id: int) -> bool:
    found = connection.scalar(
        text("SELECT name FROM instance_group WHERE id = :id"), {"id": group_id}
    )
    return bool(found == DEFAULT)
