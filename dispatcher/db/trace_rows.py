"""What a trace of this cluster is made of: its nodes, groups and tenants, and the jobs that have ended."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

from dispatcher.domain.capacity import node_capacity
from dispatcher.domain.status import NODE_KINDS

#: Rows fetched at once.
_FETCHED = 5_000


def read_nodes(connection: Connection) -> list[dict[str, Any]]:
    """Nodes that were not removed, as they are when they take jobs."""
    rows = connection.execute(
        text(
            "SELECT node.name, cpu_capacity, mem_capacity, capacity_adjustment, fixed_capacity,"
            " max_jobs, ARRAY(SELECT g.name FROM instance_group_node JOIN instance_group g"
            "  ON g.id = instance_group_id WHERE node_id = node.id ORDER BY g.name) AS groups"
            " FROM node WHERE removed IS NULL ORDER BY node.name"
        )
    )
    return [
        {
            "node": row.name,
            "capacity": node_capacity(
                row.cpu_capacity,
                row.mem_capacity,
                adjustment=row.capacity_adjustment,
                fixed=row.fixed_capacity,
                available=True,
            ),
            "max_jobs": row.max_jobs,
            "groups": list(row.groups),
        }
        for row in rows
    ]


def read_groups(connection: Connection) -> list[dict[str, Any]]:
    """Instance groups with their limits."""
    rows = connection.execute(
        text("SELECT name, max_concurrent_jobs, max_forks FROM instance_group ORDER BY name")
    )
    return [{"group": r[0], "max_concurrent_jobs": r[1], "max_forks": r[2]} for r in rows]


def read_tenants(connection: Connection) -> list[dict[str, Any]]:
    """Organizations with their weights and limits."""
    rows = connection.execute(
        text("SELECT name, weight, max_concurrent_jobs FROM organization ORDER BY name")
    )
    return [{"tenant": r[0], "weight": r[1], "max_concurrent_jobs": r[2]} for r in rows]


def read_ended_jobs(connection: Connection, since: datetime | None) -> Iterator[Any]:
    """Jobs that have run on a node and ended, in order of creation.

    Args:
        connection: in a transaction; the rows come through a cursor of the server.
        since: only those created from then on.
    """
    return iter(
        connection.execution_options(stream_results=True, yield_per=_FETCHED).execute(
            text(
                """
                SELECT job.name, EXTRACT(epoch FROM job.created)::double precision AS created,
                    EXTRACT(epoch FROM finished - started)::double precision AS duration,
                    organization.name AS tenant, task_impact, forks, priority, host_lock,
                    lock_keys, allow_simultaneous, job_template_id,
                    ARRAY(SELECT g.name FROM unnest(preferred_groups) WITH ORDINALITY AS w(id, place)
                        JOIN instance_group g ON g.id = w.id ORDER BY place) AS groups
                FROM job JOIN organization ON organization.id = organization_id
                WHERE finished IS NOT NULL AND started IS NOT NULL AND kind = ANY(:kinds)
                  AND (CAST(:since AS timestamptz) IS NULL
                       OR job.created >= CAST(:since AS timestamptz))
                ORDER BY job.created, job.id
                """
            ),
            {"since": since, "kinds": [str(kind) for kind in sorted(NODE_KINDS)]},
        )
    )
