"""The summaries of REST v1's runs: one row per run, written with its events, read by key.

Only runs that v1 launched have a row: storing the events of all others costs one look-up for each
transaction, whatever their number.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping, text

from dispatcher.db.event_store import Progress
from dispatcher.domain.outcome import Outcome
from dispatcher.domain.status import Status

#: The tenant of all jobs that v1 launches, and sees.
ORGANIZATION: Final = "runner-service"

# The day, job and counters are literals when PostgreSQL plans it: one partition, by its key.
_ADD = text(
    """
    WITH fresh AS MATERIALIZED (
        SELECT counter, event, failed, host_name, task, created,
            CASE event WHEN 'playbook_on_task_start' THEN event_data END AS metadata
        FROM job_event
        WHERE job_day = :day AND job_id = :job AND counter > :after AND counter <= :upto
    ), newest AS (
        SELECT task, metadata || jsonb_build_object('created', created) AS metadata
        FROM fresh WHERE event = 'playbook_on_task_start' ORDER BY counter DESC LIMIT 1
    )
    UPDATE run_summary SET
        ok = ok + (SELECT count(*) FROM fresh WHERE event = 'runner_on_ok'),
        failed = run_summary.failed
            + (SELECT count(*) FROM fresh f WHERE f.event = 'runner_on_failed' AND f.failed),
        skipped = skipped + (SELECT count(*) FROM fresh WHERE event = 'runner_on_skipped'),
        task = coalesce((SELECT newest.task FROM newest), run_summary.task),
        task_metadata = coalesce((SELECT metadata FROM newest), task_metadata),
        failures = failures || coalesce((
            SELECT jsonb_object_agg(host_name, counter) FROM (
                SELECT f.host_name, max(f.counter) AS counter FROM fresh f
                WHERE f.event = 'runner_on_failed' AND f.failed GROUP BY f.host_name
            ) AS last
        ), '{}')
    WHERE job_id = :job
    """
)


def create(connection: Connection, job_id: int) -> None:
    """The summary of a new run."""
    connection.execute(text("INSERT INTO run_summary (job_id) VALUES (:job)"), {"job": job_id})


def add_events(connection: Connection, stored: Sequence[tuple[Progress, int]]) -> None:
    """Count events that this transaction has stored.

    Args:
        stored: what each run's progress row said before, and the number of events since.
    """
    fresh = {p.job_id: (p, number) for p, number in stored if number}
    if not fresh:
        return
    kept = connection.scalars(
        text("SELECT job_id FROM run_summary WHERE job_id = ANY(:jobs)"), {"jobs": list(fresh)}
    )
    for job_id in kept.all():
        progress, number = fresh[job_id]
        connection.execute(
            _ADD,
            {
                "day": progress.job_day,
                "job": job_id,
                "after": progress.stored,
                "upto": progress.stored + number,
            },
        )


@dataclass(frozen=True)
class RunState:
    """A run as REST v1 shows it.

    Attributes:
        stored: events that are stored; the counter of the last one.
        ok, failed, skipped: events of these kinds; failures that the task ignores are not counted.
        failures: host → counter of its last failure.
    """

    job_id: int
    job_day: date
    status: Status
    outcome: Outcome | None
    stored: int
    ok: int
    failed: int
    skipped: int
    task: str | None
    task_metadata: dict[str, Any] | None
    failures: dict[str, int]


_READ = text(
    """
    SELECT job.id, job.job_day, job.status, job.outcome, coalesce(p.stored, 0),
        s.ok, s.failed, s.skipped, s.task, s.task_metadata, s.failures
    FROM job JOIN run_summary s ON s.job_id = job.id
    LEFT JOIN job_progress p ON p.job_id = job.id
    WHERE job.uuid = :uuid
    """
)


def read(connection: Connection, uuid: UUID) -> RunState | None:
    """The run with this uuid; None for a job that v1 did not launch."""
    row = connection.execute(_READ, {"uuid": uuid}).one_or_none()
    if row is None:
        return None
    job_id, day, status, outcome, *rest = row
    return RunState(job_id, day, Status(status), outcome and Outcome(outcome), *rest)


def read_events(
    connection: Connection, run: RunState, counters: Collection[int]
) -> list[RowMapping]:
    """These events of a run, whole, in their order."""
    if not counters:
        return []
    rows = connection.execute(
        text(
            "SELECT * FROM job_event WHERE job_day = :day AND job_id = :job"
            " AND counter = ANY(:counters) ORDER BY counter"
        ),
        {"day": run.job_day, "job": run.job_id, "counters": list(counters)},
    )
    return list(rows.mappings())


def ensure_organization(connection: Connection) -> None:
    """v1's tenant exists."""
    known = connection.scalar(
        text("SELECT true FROM organization WHERE name = :name"), {"name": ORGANIZATION}
    )
    if not known:
        connection.execute(
            text("INSERT INTO organization (name) VALUES (:name) ON CONFLICT DO NOTHING"),
            {"name": ORGANIZATION},
        )
