"""How far a job is, in one short read: for followers, streams and output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from sqlalchemy import Connection, text

from dispatcher.domain.outcome import Outcome
from dispatcher.domain.status import FINAL, Status


@dataclass(frozen=True)
class JobState:
    """How far a job is.

    Attributes:
        job_day: the events' partition.
        stored: events that are stored; their counters are 1 … stored.
        pending_reason, explanation: why it waits, why it ended so.
        retried_by: the job that repeats it, because it was lost with its node.
    """

    id: int
    status: Status
    outcome: Outcome | None
    job_day: date
    stored: int
    cancel_requested: bool
    events_complete: bool
    pending_reason: Mapping[str, Any] | None
    explanation: str
    retried_by: int | None = None

    @property
    def final(self) -> bool:
        """Whether the status will never change, and every event is stored."""
        return self.status in FINAL


_STATE = (
    "SELECT job.id, job.status, job.outcome, job.job_day, coalesce(job_progress.stored, 0),"
    " job.cancel_requested, job.events_complete, job.pending_reason, job.explanation,"
    " (SELECT id FROM job AS retry WHERE retry.retry_of = job.id)"
    " FROM job LEFT JOIN job_progress ON job_progress.job_id = job.id"
)


def read_states(connection: Connection, job_ids: list[int]) -> dict[int, JobState]:
    """The state of each of these jobs that exists."""
    rows = connection.execute(text(f"{_STATE} WHERE job.id = ANY(:jobs)"), {"jobs": job_ids})
    return {
        row[0]: JobState(row[0], Status(row[1]), row[2] and Outcome(row[2]), *row[3:])
        for row in rows
    }


def read_state(connection: Connection, job_id: int) -> JobState | None:
    """The state of one job."""
    return read_states(connection, [job_id]).get(job_id)
