"""What the API reads of nodes and instance groups: few rows, with the load that they carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, RowMapping, Select, func, select, true

from dispatcher.db.listing import Field, FieldType, Listing
from dispatcher.db.tables import (
    instance_group,
    instance_group_node,
    job,
    node,
    node_lease,
    organization,
    pause,
)
from dispatcher.domain.status import ACTIVE

_ACTIVE = job.c.status.in_(sorted(ACTIVE))


def _load(match: ColumnElement[bool]) -> Any:
    """Impact and number of the waiting and running jobs of one node or group."""
    return (
        select(
            func.coalesce(func.sum(job.c.task_impact), 0).label("consumed"),
            func.count().label("running"),
        )
        .where(_ACTIVE, match)
        .lateral("load")
    )


_NODE_LOAD = _load(job.c.node_id == node.c.id)
_NODES: Select[Any] = (
    select(
        node,
        func.coalesce(node_lease.c.state, "left").label("state"),
        node_lease.c.renewed_at,
        _NODE_LOAD.c.consumed,
        _NODE_LOAD.c.running,
    )
    .select_from(
        node.outerjoin(node_lease, node_lease.c.node_id == node.c.id).join(_NODE_LOAD, true())
    )
    .where(node.c.removed.is_(None))
)

_NODE_FIELDS = {
    "id": Field(node.c.id, FieldType.INTEGER),
    "uuid": Field(node.c.identity, FieldType.UUID),
    "hostname": Field(node.c.name, FieldType.TEXT),
    "enabled": Field(node.c.enabled, FieldType.BOOLEAN),
    "version": Field(node.c.version, FieldType.TEXT),
    "created": Field(node.c.created, FieldType.TIME),
    "modified": Field(node.c.modified, FieldType.TIME),
    "last_seen": Field(node_lease.c.renewed_at, FieldType.TIME),
    "capacity_adjustment": Field(node.c.capacity_adjustment, FieldType.NUMBER),
    "cpu": Field(node.c.cpus, FieldType.NUMBER),
    "memory": Field(node.c.memory, FieldType.INTEGER),
}


def node_listing(*, group_id: int | None = None) -> Listing:
    """The nodes that are not removed, of one group if it is given."""
    rows = _NODES
    if group_id is not None:
        members = select(instance_group_node.c.node_id).where(
            instance_group_node.c.instance_group_id == group_id
        )
        rows = rows.where(node.c.id.in_(members))
    return Listing(source=rows, fields=_NODE_FIELDS, search=("hostname",))


def read_node(connection: Connection, node_id: int) -> RowMapping | None:
    """One node that is not removed."""
    return connection.execute(_NODES.where(node.c.id == node_id)).mappings().one_or_none()


def read_nodes(connection: Connection) -> list[RowMapping]:
    """Every node that is not removed, by name."""
    return list(connection.execute(_NODES.order_by(node.c.name)).mappings())


_GROUP_LOAD = _load(job.c.instance_group_id == instance_group.c.id)
_GROUPS: Select[Any] = select(
    instance_group,
    _GROUP_LOAD.c.consumed,
    _GROUP_LOAD.c.running,
    pause.c.id.is_not(None).label("paused"),
    func.coalesce(pause.c.reason, "").label("pause_reason"),
).select_from(
    instance_group.outerjoin(pause, pause.c.instance_group_id == instance_group.c.id).join(
        _GROUP_LOAD, true()
    )
)

_GROUP_FIELDS = {
    "id": Field(instance_group.c.id, FieldType.INTEGER),
    "name": Field(instance_group.c.name, FieldType.TEXT),
    "max_concurrent_jobs": Field(instance_group.c.max_concurrent_jobs, FieldType.INTEGER),
    "max_forks": Field(instance_group.c.max_forks, FieldType.INTEGER),
    "paused": Field(pause.c.id.is_not(None), FieldType.BOOLEAN),
    "created": Field(instance_group.c.created, FieldType.TIME),
    "modified": Field(instance_group.c.modified, FieldType.TIME),
}


def group_listing(*, node_id: int | None = None, organization_id: int | None = None) -> Listing:
    """All instance groups; those of one node, or those that one organization prefers."""
    rows = _GROUPS
    if node_id is not None:
        around = select(instance_group_node.c.instance_group_id).where(
            instance_group_node.c.node_id == node_id
        )
        rows = rows.where(instance_group.c.id.in_(around))
    if organization_id is not None:
        preferred = select(func.unnest(organization.c.instance_groups)).where(
            organization.c.id == organization_id
        )
        rows = rows.where(instance_group.c.id.in_(preferred))
    return Listing(source=rows, fields=_GROUP_FIELDS, search=("name",))


def read_group(connection: Connection, group_id: int) -> RowMapping | None:
    """One instance group."""
    statement = _GROUPS.where(instance_group.c.id == group_id)
    return connection.execute(statement).mappings().one_or_none()


def read_groups(connection: Connection) -> list[RowMapping]:
    """Every instance group, by name."""
    return list(connection.execute(_GROUPS.order_by(instance_group.c.name)).mappings())


def read_members(connection: Connection) -> list[tuple[int, int]]:
    """(group id, node id) of every membership of a node that is not removed."""
    statement = (
        select(instance_group_node.c.instance_group_id, instance_group_node.c.node_id)
        .join(node, node.c.id == instance_group_node.c.node_id)
        .where(node.c.removed.is_(None))
        .order_by(instance_group_node.c.instance_group_id, node.c.name)
    )
    return [(row[0], row[1]) for row in connection.execute(statement)]


def count_jobs_by_node(connection: Connection, node_ids: Sequence[int]) -> dict[int, int]:
    """How many jobs each node was given, ended ones included."""
    statement = (
        select(job.c.node_id, func.count())
        .where(job.c.node_id.in_(node_ids))
        .group_by(job.c.node_id)
    )
    return {row[0]: row[1] for row in connection.execute(statement)}


def count_jobs_by_group(connection: Connection, group_ids: Sequence[int]) -> dict[int, int]:
    """How many jobs were started through each group, ended ones included."""
    statement = (
        select(job.c.instance_group_id, func.count())
        .where(job.c.instance_group_id.in_(group_ids))
        .group_by(job.c.instance_group_id)
    )
    return {row[0]: row[1] for row in connection.execute(statement)}


def read_active(connection: Connection, node_id: int) -> list[Row[Any]]:
    """The waiting and running jobs of a node, those first that began first."""
    statement = (
        select(job.c.id, job.c.name, job.c.kind, job.c.status, job.c.started, job.c.job_template_id)
        .where(job.c.node_id == node_id, _ACTIVE)
        .order_by(job.c.started.asc().nulls_last(), job.c.id)
    )
    return list(connection.execute(statement))
