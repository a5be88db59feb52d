"""Reads for planners: flat queries, a fixed number of them, whatever the size of the backlog."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, text

from dispatcher.domain.capacity import node_capacity
from dispatcher.domain.status import Kind, Status
from schedulers.core.decision import Reason
from schedulers.core.snapshot import ActiveJob, Dependency, Group, Node, PendingJob, World

_PENDING = """
    SELECT id, kind, name, organization_id, rank, task_impact, forks, preferred_groups,
           host_lock, lock_keys, strikes, pending_reason
    FROM job
    WHERE status = 'pending' AND dependencies_processed AND kind <> 'approval'
      AND (quarantined_until IS NULL OR quarantined_until <= dispatcher_now())
"""


def read_world(connection: Connection, *, reserve_after: float) -> World:
    """Nodes, groups, and every waiting and running job."""
    now = connection.execute(text("SELECT dispatcher_now()")).scalar_one()
    return World(
        now=now,
        nodes=_nodes(connection),
        groups=_groups(connection),
        active=_active(connection),
        reserve_after=reserve_after,
    )


def _nodes(connection: Connection) -> tuple[Node, ...]:
    rows = connection.execute(
        text(
            "SELECT id, name, cpu_capacity, mem_capacity, capacity_adjustment, fixed_capacity,"
            " max_jobs, state, enabled, draining, accepting"
            " FROM node JOIN node_lease ON node_id = id WHERE removed IS NULL"
        )
    )
    return tuple(
        Node(
            id=row.id,
            name=row.name,
            capacity=node_capacity(
                row.cpu_capacity,
                row.mem_capacity,
                adjustment=row.capacity_adjustment,
                fixed=row.fixed_capacity,
                available=row.enabled and not row.draining and row.state == "alive",
            ),
            max_jobs=row.max_jobs,
            state=row.state,
            enabled=row.enabled,
            draining=row.draining,
            accepting=row.accepting,
        )
        for row in rows
    )


def _groups(connection: Connection) -> tuple[Group, ...]:
    rows = connection.execute(
        text(
            "SELECT id, name, max_concurrent_jobs, max_forks, ARRAY(SELECT node_id"
            " FROM instance_group_node WHERE instance_group_id = instance_group.id) AS nodes"
            " FROM instance_group"
        )
    )
    return tuple(
        Group(row.id, row.name, row.max_concurrent_jobs, row.max_forks, tuple(row.nodes))
        for row in rows
    )


def _active(connection: Connection) -> tuple[ActiveJob, ...]:
    rows = connection.execute(
        text(
            "SELECT id, kind, status, organization_id, node_id, instance_group_id, task_impact,"
            " forks, host_lock, lock_keys FROM job WHERE status IN ('waiting', 'running')"
        )
    )
    return tuple(
        ActiveJob(
            id=row.id,
            kind=Kind(row.kind),
            status=Status(row.status),
            organization_id=row.organization_id,
            node_id=row.node_id,
            instance_group_id=row.instance_group_id,
            task_impact=row.task_impact,
            forks=row.forks,
            host_lock=row.host_lock,
            lock_keys=tuple(row.lock_keys),
        )
        for row in rows
    )


def read_candidates(
    connection: Connection, cursors: Mapping[str, Any], size: int
) -> tuple[list[PendingJob], dict[int, Reason]]:
    """The next ``size`` candidates of the TaskManager in the stored order.

    Read by keyset for each tenant, behind that tenant's cursor, and merged by rank.

    Args:
        cursors: tenant → (rank, id) of the last job that was read; empty: from the head.

    Returns:
        The jobs, and the reasons that are stored for them.
    """
    rows = connection.execute(
        text(
            f"""
            SELECT found.* FROM organization
            LEFT JOIN unnest(CAST(:tenants AS bigint[]), CAST(:ranks AS double precision[]),
                             CAST(:ids AS bigint[])) AS behind(tenant, rank, id)
                ON behind.tenant = organization.id
            CROSS JOIN LATERAL (
                {_PENDING}
                  AND organization_id = organization.id
                  AND (rank, id) > (COALESCE(behind.rank, '-infinity'), COALESCE(behind.id, 0))
                ORDER BY rank, id LIMIT :size
            ) AS found
            ORDER BY rank, id LIMIT :size
            """
        ),
        {
            "tenants": [int(tenant) for tenant in cursors],
            "ranks": [rank for rank, _ in cursors.values()],
            "ids": [job_id for _, job_id in cursors.values()],
            "size": size,
        },
    ).all()
    return _candidates(connection, rows)


def read_named_candidates(
    connection: Connection, ids: Collection[int]
) -> tuple[list[PendingJob], dict[int, Reason]]:
    """Those of the given jobs that are still candidates."""
    rows = connection.execute(
        text(f"{_PENDING} AND id = ANY(CAST(:ids AS bigint[])) ORDER BY rank, id"),
        {"ids": list(ids)},
    ).all()
    return _candidates(connection, rows)


def _candidates(
    connection: Connection, rows: Collection[Any]
) -> tuple[list[PendingJob], dict[int, Reason]]:
    depends_on = _dependencies(connection, [row.id for row in rows])
    jobs = [
        PendingJob(
            id=row.id,
            kind=Kind(row.kind),
            name=row.name,
            organization_id=row.organization_id,
            rank=row.rank,
            task_impact=row.task_impact,
            forks=row.forks,
            preferred_groups=tuple(row.preferred_groups),
            host_lock=row.host_lock,
            lock_keys=tuple(row.lock_keys),
            dependencies=tuple(depends_on.get(row.id, ())),
            strikes=row.strikes,
        )
        for row in rows
    ]
    return jobs, {row.id: _reason(row.pending_reason) for row in rows if row.pending_reason}


def _reason(stored: Mapping[str, Any]) -> Reason:
    return Reason(str(stored.get("code", "")), stored.get("data") or {})


def _dependencies(connection: Connection, ids: Iterable[int]) -> dict[int, list[Dependency]]:
    """What the window's jobs wait for, in one query."""
    found: dict[int, list[Dependency]] = defaultdict(list)
    wanted = list(ids)
    if not wanted:
        return found
    for row in connection.execute(
        text(
            "SELECT job_id, id, kind, name, status FROM job_dependency JOIN job ON id = depends_on_id"
            " WHERE job_id = ANY(CAST(:ids AS bigint[])) ORDER BY job_id, id"
        ),
        {"ids": wanted},
    ):
        found[row.job_id].append(Dependency(row.id, Kind(row.kind), row.name, Status(row.status)))
    return found
