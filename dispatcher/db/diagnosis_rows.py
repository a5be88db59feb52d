"""What ``dispatcher doctor`` reads of a database."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, text

from dispatcher.db import node_queries
from dispatcher.domain.diagnosis import DatabaseFacts, LostRun, NodeFacts
from dispatcher.domain.node_state import errors_of

#: pg_stat_activity counts client backends only: the server's own have places of their own.
_SERVER: Final = text("""
    SELECT current_setting('server_version'), pg_is_in_recovery(),
           (SELECT count(*) FROM pg_stat_replication),
           current_setting('synchronous_standby_names'), current_setting('synchronous_commit'),
           current_setting('fsync')::boolean,
           (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
           current_setting('max_connections')::integer
""")
_WAITING: Final = text("""
    SELECT count(*) FROM job WHERE status = 'waiting'
    AND waiting_since < dispatcher_now() - make_interval(secs => :seconds)
""")
_LOST: Final = text("""
    SELECT job.id, coalesce(node.name, ''), coalesce(job_progress.stored, 0), job.dispatch_id
    FROM job LEFT JOIN node ON node.id = job.node_id
    LEFT JOIN job_progress ON job_progress.job_id = job.id
    WHERE job.outcome = 'node_lost' AND NOT job.events_complete
    AND job.finished > dispatcher_now() - interval '1 day'
    ORDER BY job.id DESC
""")


def database_facts(connection: Connection) -> DatabaseFacts:
    """What the server says of itself; any account may ask."""
    return DatabaseFacts(*connection.execute(_SERVER).one())


def node_facts(connection: Connection) -> list[NodeFacts]:
    """Every node that was not removed."""
    return [
        NodeFacts(row["name"], errors_of(row), row["version"])
        for row in node_queries.read_nodes(connection)
    ]


def waiting_long(connection: Connection, seconds: float) -> int:
    """Jobs that wait for their node for longer than that."""
    return int(connection.execute(_WAITING, {"seconds": seconds}).scalar_one())


def lost_runs(connection: Connection, data_dirs: Sequence[Path]) -> list[LostRun]:
    """Jobs that ended with their node in the last day, with events missing; newest first.

    Args:
        data_dirs: of this machine's nodes: a run's directory may still be there.
    """
    found = []
    for job_id, node, stored, dispatch_id in connection.execute(_LOST):
        places = (data_dir / "runs" / str(dispatch_id) for data_dir in data_dirs)
        directory = next((str(place) for place in places if place.is_dir()), "")
        found.append(LostRun(job_id, node, stored, directory))
    return found
