"""Finish: running jobs become final."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

from dispatcher.db.job_moves.retries import launch_retry
from dispatcher.domain.outcome import Outcome, status_of
from dispatcher.domain.status import Status


@dataclass(frozen=True)
class Finished:
    """A final status that was written.

    Attributes:
        retry_id: the job that repeats this one, which was lost with its node.
    """

    job_id: int
    status: Status
    outcome: Outcome
    started: datetime
    retry_id: int | None = None

    @property
    def in_workflow(self) -> int:
        """The job that a workflow's node stands for now: the retry, or else the job itself."""
        return self.job_id if self.retry_id is None else self.retry_id


def finish(
    connection: Connection,
    job_id: int,
    *,
    dispatch_id: UUID | None,
    outcome: Outcome,
    explanation: str,
    events_complete: bool = True,
) -> Finished | None:
    """running → final. A requested cancel wins over what the playbook reached.

    A job that was lost with its node, and has retries left, is launched again in the same
    transaction (docs/protocols.md 4.9).

    Args:
        dispatch_id: the run that ended; None for workflow jobs. Another dispatch is not touched.
        outcome: what was reached; ``canceled`` is written instead when a cancel was requested.
        explanation: words for people.
        events_complete: false only when events are missing (``node_lost``).

    Returns:
        None when the row was not running under this dispatch.
    """
    row = connection.execute(
        text(
            """
            UPDATE job SET
                status = CASE WHEN cancel_requested THEN 'canceled' ELSE :status END,
                outcome = CASE WHEN cancel_requested THEN 'canceled' ELSE :outcome END,
                explanation = :explanation, finished = dispatcher_now(),
                events_complete = :complete,
                -- a run that was stopped without a request row (stop policy "cancel")
                cancel_requested = cancel_requested OR :status = 'canceled',
                canceled_on = CASE WHEN cancel_requested OR :status = 'canceled'
                    THEN COALESCE(canceled_on, dispatcher_now()) END
            WHERE id = :job AND status = 'running'
              AND dispatch_id IS NOT DISTINCT FROM CAST(:dispatch AS uuid)
            RETURNING id, status, outcome, started, retries_left
            """
        ),
        {
            "job": job_id,
            "dispatch": None if dispatch_id is None else str(dispatch_id),
            "status": str(status_of(outcome)),
            "outcome": str(outcome),
            "explanation": explanation,
            "complete": events_complete,
        },
    ).one_or_none()
    if row is None:
        return None
    written = Outcome(row.outcome)
    again = written is Outcome.NODE_LOST and row.retries_left > 0
    retry_id = launch_retry(connection, job_id) if again else None
    return Finished(job_id, Status(row.status), written, row.started, retry_id)


def finish_workflows(
    connection: Connection, endings: Mapping[int, tuple[Outcome, str]]
) -> list[Finished]:
    """running → final, for a batch of workflow jobs: job id → (outcome, explanation)."""
    if not endings:
        return []
    moved = connection.execute(
        text(
            """
            UPDATE job SET
                status = CASE WHEN cancel_requested THEN 'canceled' ELSE v.status END,
                outcome = CASE WHEN cancel_requested THEN 'canceled' ELSE v.outcome END,
                explanation = v.explanation, finished = dispatcher_now(), events_complete = true
            FROM unnest(CAST(:jobs AS bigint[]), CAST(:statuses AS text[]),
                        CAST(:outcomes AS text[]), CAST(:explanations AS text[]))
                AS v(job_id, status, outcome, explanation)
            WHERE job.id = v.job_id AND job.status = 'running' AND kind = 'workflow'
              AND (v.status <> 'canceled' OR cancel_requested)
            RETURNING job.id, job.status, job.outcome, started
            """
        ),
        {
            "jobs": list(endings),
            "statuses": [str(status_of(outcome)) for outcome, _ in endings.values()],
            "outcomes": [str(outcome) for outcome, _ in endings.values()],
            "explanations": [words for _, words in endings.values()],
        },
    )
    return [Finished(row[0], Status(row[1]), Outcome(row[2]), row[3]) for row in moved]
