"""Many rows at once for benchmarks: nodes, pending and running jobs, made by set-based inserts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Engine, text

from dispatcher.db.watchdog import bounded
from tests.factories import make_node

#: Capacity of a node, and impact of a job on one host.
CAPACITY = 400
IMPACT = 2
#: Seconds that a statement over a million rows may take.
LONGEST = 600.0

_TIMES: Mapping[str, str] = {
    "pending": "",
    "running": ", waiting_since, started, node_epoch, dispatch_id, node_id, instance_group_id",
}
_RUNNING = """
    , dispatcher_now(), dispatcher_now(), 1, gen_random_uuid(),
    (SELECT id FROM node ORDER BY id OFFSET n % :nodes LIMIT 1),
    (SELECT id FROM instance_group WHERE name = 'default')
"""


def add_nodes(connection: Connection, count: int, **columns: Any) -> list[int]:
    """Nodes of the group ``default`` that take jobs."""
    given = {"capacity": CAPACITY, "max_jobs": 1_000} | columns
    return [make_node(connection, f"node-{n:04}", **given) for n in range(count)]


def add_jobs(
    connection: Connection, count: int, *, status: str = "pending", age: float = 0, **columns: Any
) -> None:
    """Playbook jobs whose dependencies are known, created one after another.

    Args:
        connection: in a transaction, the triggers of whose foreign keys are left out.
        count: how many.
        status: ``pending``, or ``running`` on the nodes that there are, in turn.
        age: seconds since the creation of the first one.
        columns: further columns of ``job``, the same for all.
    """
    nodes = connection.scalar(text("SELECT count(*) FROM node"))
    more = "".join(f", {name}" for name in columns)
    values = "".join(f", :{name}" for name in columns)
    with bounded(connection, LONGEST):
        connection.execute(text("SET LOCAL session_replication_role = replica"))
        connection.execute(
            text(
                f"""
            INSERT INTO job (uuid, kind, name, organization_id, task_impact, preferred_groups,
                dependencies_processed, status, created{_TIMES[status]}{more})
            SELECT gen_random_uuid(), 'playbook', 'site.yml',
                (SELECT id FROM organization WHERE name = 'Default'), {IMPACT},
                (SELECT array_agg(id) FROM instance_group WHERE name = 'default'),
                true, :status, dispatcher_now()
                    + make_interval(secs => -:age + CAST(:age AS float8) * n / :count)
                {_RUNNING if status == "running" else ""}{values}
            FROM generate_series(1, :count) n
            """
            ),
            {"count": count, "status": status, "nodes": nodes, "age": age, **columns},
        )
        connection.execute(text("SET LOCAL session_replication_role = origin"))


def settle(engine: Engine, *tables: str) -> None:
    """Statistics and visibility as a server that has lived for a while has them."""
    with (
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
        bounded(connection, LONGEST),
    ):
        connection.execute(text(f"VACUUM ANALYZE {', '.join(tables or ('job',))}"))


def empty(connection: Connection) -> None:
    """No jobs, no nodes."""
    connection.execute(text("TRUNCATE job, node CASCADE"))
