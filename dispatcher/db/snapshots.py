"""Reads for planners: flat queries, a fixed number of them, whatever the size of the backlog."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from sqlalchemy import Connection, text

from dispatcher.domain.capacity import node_capacity
from dispatcher.domain.outcome import FORCED
from dispatcher.domain.status import Kind, Status
from schedulers.core.decision import Reason
from schedulers.core.snapshot import (
    ActiveJob,
    CoolingJob,
    Dependency,
    Group,
    Node,
    Pause,
    PendingJob,
    Tenant,
    Usage,
    World,
)

_KINDS: Final = {str(kind): kind for kind in Kind}

#: Seconds over which what ended jobs have used counts against their tenant's turn.
LATELY: Final = 60

#: The columns of a candidate in the order of PendingJob, without its dependencies.
_PENDING = """
    SELECT job.id, kind, job.name, organization_id, rank, task_impact, forks, preferred_groups,
           host_lock, lock_keys, strikes,
           date_part('epoch', job.created) AS created_at,
           date_part('epoch', held_since) AS held_at, job_template_id,
           workflow_job_template_id, project_id, inventory_id, inventory_source_id,
           allow_simultaneous, pending_reason
    FROM job
    WHERE status = 'pending' AND dependencies_processed AND kind <> 'approval'
      AND (quarantined_until IS NULL OR quarantined_until <= dispatcher_now())
"""


def read_world(connection: Connection, *, reserve_after: float, lock_cooldown: float) -> World:
    """Nodes, groups, and every waiting and running job.

    Args:
        reserve_after, lock_cooldown: the settings of these names.
    """
    now = connection.execute(text("SELECT dispatcher_now()")).scalar_one()
    return World(
        now=now,
        nodes=_nodes(connection),
        groups=_groups(connection),
        active=_active(connection),
        reserve_after=reserve_after,
        tenants=_tenants(connection),
        recent=_recent(connection),
        template_limits=_template_limits(connection),
        pauses=_pauses(connection),
        cooling=_cooling(connection, lock_cooldown),
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


def _tenants(connection: Connection) -> tuple[Tenant, ...]:
    rows = connection.execute(
        text("SELECT id, name, weight, max_concurrent_jobs FROM organization")
    )
    return tuple(Tenant(row.id, row.name, row.weight, row.max_concurrent_jobs) for row in rows)


def _template_limits(connection: Connection) -> tuple[tuple[int, int], ...]:
    rows = connection.execute(
        text("SELECT id, max_concurrent_jobs FROM job_template WHERE max_concurrent_jobs > 0")
    )
    return tuple((row.id, row.max_concurrent_jobs) for row in rows)


def _pauses(connection: Connection) -> tuple[Pause, ...]:
    rows = connection.execute(
        text("SELECT instance_group_id, organization_id, reason FROM pause ORDER BY id")
    )
    return tuple(Pause(row.instance_group_id, row.organization_id, row.reason) for row in rows)


def _recent(connection: Connection) -> tuple[Usage, ...]:
    """What ended jobs have used lately, by tenant and minute of creation."""
    rows = connection.execute(
        text(
            "SELECT organization_id, floor(EXTRACT(epoch FROM created) / 60) * 60 AS minute,"
            " sum(task_impact * EXTRACT(epoch FROM finished - greatest(started, since))) AS used"
            " FROM job, (SELECT dispatcher_now() - make_interval(secs => :lately) AS since) AS s"
            " WHERE finished > since AND started IS NOT NULL"
            " GROUP BY 1, 2"
        ),
        {"lately": LATELY},
    )
    return tuple(
        Usage(row.organization_id, float(row.minute), float(row.used) / LATELY) for row in rows
    )


def _cooling(connection: Connection, seconds: float) -> tuple[CoolingJob, ...]:
    """Holders of exclusive locks that were stopped by force lately (docs/protocols.md 4.8)."""
    rows = connection.execute(
        text(
            "SELECT id, lock_keys, date_part('epoch', finished) + :seconds AS until FROM job"
            " WHERE finished > dispatcher_now() - make_interval(secs => :seconds)"
            " AND host_lock = 'exclusive' AND started IS NOT NULL AND outcome = ANY(:forced)"
        ),
        {"seconds": seconds, "forced": sorted(FORCED)},
    )
    return tuple(CoolingJob(row.id, tuple(row.lock_keys), row.until) for row in rows)


#: Active jobs that are plain (see ActiveJob).
_PLAIN: Final = "kind = 'playbook' AND host_lock = 'none' AND allow_simultaneous"
#: What follows of a plain job after what is read of it.
_DEFAULTS: Final = tuple(ActiveJob._field_defaults.values())
#: The columns of any active job in the order of ActiveJob; the defaults begin with its kind.
_HELD: Final = """id, organization_id, node_id, instance_group_id, task_impact, forks,
            date_part('epoch', created), job_template_id"""


def _active(connection: Connection) -> tuple[ActiveJob, ...]:
    """Waiting and running jobs; of plain ones only what they have, because ten thousand may run."""
    plain = connection.execute(
        text(f"SELECT {_HELD} FROM job WHERE status IN ('waiting', 'running') AND {_PLAIN}")
    ).all()
    others = connection.execute(
        text(
            f"SELECT {_HELD}, kind, host_lock, lock_keys, workflow_job_template_id, project_id,"
            " inventory_id, inventory_source_id, allow_simultaneous"
            f" FROM job WHERE status IN ('waiting', 'running') AND NOT ({_PLAIN})"
        )
    ).all()
    return (
        # by position: half the time of a call by name
        *[ActiveJob._make((*row, *_DEFAULTS)) for row in plain],
        *[
            ActiveJob._make((*row[:8], _KINDS[row[8]], row[9], tuple(row[10]), *row[11:]))
            for row in others
        ],
    )


def read_candidates(
    connection: Connection, cursors: Mapping[str, Any], size: int
) -> tuple[list[PendingJob], dict[int, Reason], bool]:
    """About the next ``size`` candidates of the TaskManager: of each tenant its weight's share.

    Read by keyset for each tenant, behind that tenant's cursor, at least one of each; the planner
    merges them by turns.

    Args:
        cursors: tenant → (rank, id) of the last job that was read; empty: from the head.

    Returns:
        The jobs, the reasons that are stored for them, and whether there may be more behind.
    """
    rows = connection.execute(
        text(
            f"""
            WITH tenant AS (
                SELECT organization.id, weight, COALESCE(behind.rank, '-infinity') AS after_rank,
                       COALESCE(behind.id, 0) AS after_id
                FROM organization
                LEFT JOIN unnest(CAST(:tenants AS bigint[]), CAST(:ranks AS double precision[]),
                                 CAST(:ids AS bigint[])) AS behind(tenant, rank, id)
                    ON behind.tenant = organization.id
            ), present AS (
                SELECT id, after_rank, after_id,
                       ceil(:size * weight / sum(weight) OVER ())::int AS share
                FROM tenant
                WHERE EXISTS (
                    {_PENDING} AND organization_id = tenant.id
                      AND (rank, job.id) > (after_rank, after_id)
                    ORDER BY rank, job.id LIMIT 1
                )
            )
            SELECT found.*, share FROM present
            CROSS JOIN LATERAL (
                {_PENDING} AND organization_id = present.id
                  AND (rank, job.id) > (after_rank, after_id)
                ORDER BY rank, job.id LIMIT share
            ) AS found
            """
        ),
        {
            "tenants": [int(tenant) for tenant in cursors],
            "ranks": [rank for rank, _ in cursors.values()],
            "ids": [job_id for _, job_id in cursors.values()],
            "size": size,
        },
    ).all()
    shares = {row.organization_id: row.share for row in rows}
    read = Counter(row.organization_id for row in rows)
    more = any(read[tenant] >= share for tenant, share in shares.items())
    return *_candidates(connection, rows), more


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
    jobs = []
    reasons = {}
    for row in rows:
        id, kind, name, tenant, rank, impact, forks, groups, lock, keys, *rest, reason = row[:20]
        needs = tuple(depends_on.get(id, ()))
        jobs.append(
            PendingJob(
                *(id, _KINDS[kind], name, tenant, rank, impact, forks, tuple(groups)),
                *(lock, tuple(keys), needs, *rest),
            )
        )
        if reason:
            reasons[id] = _reason(reason)
    return jobs, reasons


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
