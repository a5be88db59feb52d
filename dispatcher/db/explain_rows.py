"""What an explanation of a job is made from: its row, the head of the backlog, recent run times."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, text

from dispatcher.db import snapshots
from dispatcher.domain.status import Kind, Status
from schedulers.core.explain import RunTimes
from schedulers.core.snapshot import PendingJob, World

#: Pending jobs that are read, over all tenants, in the order in which passes read them.
HEAD: Final = 500
#: Ended jobs that tell how long those of a template, or of a kind, run.
_OF_TEMPLATE: Final = 20
_OF_ALL: Final = 1_000


@dataclass(frozen=True)
class Backlog:
    """What a pending job waits among.

    Attributes:
        head: the first jobs of every tenant.
        unread: jobs of its own tenant that come before it and are not in ``head``.
    """

    world: World
    head: list[PendingJob]
    job: PendingJob
    unread: int
    times: RunTimes


def read_row(connection: Connection, job_id: int) -> Row[Any] | None:
    """How far a job is, and what the planners do not look at."""
    return connection.execute(
        text(
            "SELECT job.id, kind, status, node.name AS node, waiting_since, started, finished,"
            " queued_on_node, cancel_requested, explanation, dependencies_processed, strikes,"
            " job_template_id,"
            " CASE WHEN quarantined_until > dispatcher_now() THEN quarantined_until END"
            " AS quarantined_until, approval.expires"
            " FROM job LEFT JOIN node ON node.id = node_id"
            " LEFT JOIN approval ON approval.job_id = job.id WHERE job.id = :job"
        ),
        {"job": job_id},
    ).one_or_none()


def read_backlog(
    connection: Connection, row: Row[Any], *, reserve_after: float, lock_cooldown: float
) -> Backlog | None:
    """The backlog around a candidate of the TaskManager; None when the job is none.

    Args:
        row: of :func:`read_row`, in the same snapshot.
    """
    found, _ = snapshots.read_named_candidates(connection, [row.id])
    if not found:
        return None
    (job,) = found
    world = snapshots.read_world(
        connection, reserve_after=reserve_after, lock_cooldown=lock_cooldown
    )
    head, _, more = snapshots.read_candidates(connection, {}, HEAD)
    unread = 0
    if more and all(other.id != job.id for other in head):
        last = max(
            ((o.rank, o.id) for o in head if o.organization_id == job.organization_id),
            default=(float("-inf"), 0),
        )
        unread = _between(connection, last, job)
    known = [each.job_template_id for each in world.active]
    known += [each.job_template_id for each in (*head, job)]
    templates = {each for each in known if each is not None}
    return Backlog(world, head, job, unread, read_run_times(connection, templates))


def _between(connection: Connection, last: tuple[float, int], job: PendingJob) -> int:
    return int(
        connection.scalar(
            text(
                "SELECT count(*) FROM job WHERE status = 'pending' AND dependencies_processed"
                " AND kind <> 'approval' AND organization_id = :tenant"
                " AND (rank, id) > (:last_rank, :last_id) AND (rank, id) < (:rank, :id)"
            ),
            {
                "tenant": job.organization_id,
                "last_rank": last[0],
                "last_id": last[1],
                "rank": job.rank,
                "id": job.id,
            },
        )
        or 0
    )


def read_run_times(connection: Connection, templates: Collection[int]) -> RunTimes:
    """How long jobs have run lately: the median of the last ones that ended by themselves."""
    by_template = connection.execute(
        text(
            f"""
            SELECT wanted, percentile_cont(0.5) WITHIN GROUP (ORDER BY ran.seconds) AS seconds
            FROM unnest(CAST(:templates AS bigint[])) AS wanted
            CROSS JOIN LATERAL (
                SELECT EXTRACT(epoch FROM finished - started)::double precision AS seconds
                FROM job WHERE job_template_id = wanted AND kind = 'playbook'
                  AND status IN ('successful', 'failed') AND started IS NOT NULL
                ORDER BY id DESC LIMIT {_OF_TEMPLATE}
            ) AS ran
            GROUP BY wanted
            """
        ),
        {"templates": sorted(templates)},
    )
    by_kind = connection.execute(
        text(
            f"""
            SELECT kind, percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS seconds FROM (
                SELECT kind, EXTRACT(epoch FROM finished - started)::double precision AS seconds
                FROM job WHERE finished IS NOT NULL AND started IS NOT NULL
                  AND status IN ('successful', 'failed')
                ORDER BY finished DESC LIMIT {_OF_ALL}
            ) AS ran GROUP BY kind
            """
        )
    )
    started = connection.execute(
        text(
            "SELECT id, EXTRACT(epoch FROM started)::double precision AS at FROM job"
            " WHERE status = 'running'"
        )
    )
    return RunTimes(
        templates={row.wanted: row.seconds for row in by_template},
        kinds={Kind(row.kind): row.seconds for row in by_kind},
        started={row.id: row.at for row in started},
    )


def expected_seconds(connection: Connection, row: Row[Any]) -> float | None:
    """How long a running job is expected to run in all; None when nothing like it has run yet."""
    templates = [row.job_template_id] if row.job_template_id else []
    times = read_run_times(connection, templates)
    if row.status != Status.RUNNING or not (times.templates or row.kind in times.kinds):
        return None
    return times.templates.get(row.job_template_id or 0, times.kinds.get(Kind(row.kind)))
