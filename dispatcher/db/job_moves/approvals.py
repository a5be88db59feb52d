"""Approvals: decided by people, or by the time that is over; the first decision stands."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, text

from dispatcher.domain.outcome import Outcome, status_of


def decide(connection: Connection, job_id: int, *, approved: bool, explanation: str) -> bool:
    """pending → successful or failed, approvals only; of two decisions the first stands.

    Args:
        approved: false: denied.
        explanation: who decided.

    Returns:
        False when the approval was decided or canceled before, or its time is over.
    """
    outcome = Outcome.SUCCESSFUL if approved else Outcome.DENIED
    moved = connection.execute(
        text(
            """
            UPDATE job SET status = :status, outcome = :outcome, explanation = :explanation,
                finished = dispatcher_now(), pending_reason = NULL, events_complete = true
            WHERE id = :job AND status = 'pending' AND kind = 'approval' AND NOT EXISTS (
                SELECT 1 FROM approval WHERE job_id = :job AND expires <= dispatcher_now())
            """
        ),
        {
            "job": job_id,
            "status": str(status_of(outcome)),
            "outcome": str(outcome),
            "explanation": explanation,
        },
    )
    return moved.rowcount == 1


def expire(connection: Connection, job_ids: Sequence[int]) -> list[int]:
    """pending → failed, approvals whose time is over by the database's clock; which those are."""
    if not job_ids:
        return []
    moved = connection.execute(
        text(
            """
            WITH late AS (
                SELECT id FROM job JOIN approval ON job_id = id
                WHERE id = ANY(CAST(:jobs AS bigint[])) AND status = 'pending'
                  AND expires <= dispatcher_now()
                ORDER BY id FOR NO KEY UPDATE OF job
            ), noted AS (
                UPDATE approval SET timed_out = true FROM late WHERE job_id = id
            )
            UPDATE job SET status = 'failed', outcome = :outcome,
                explanation = 'Nobody decided in time.', finished = dispatcher_now(),
                pending_reason = NULL, events_complete = true
            FROM late WHERE job.id = late.id AND status = 'pending' AND kind = 'approval'
            RETURNING job.id
            """
        ),
        {"jobs": list(job_ids), "outcome": str(Outcome.DENIED)},
    )
    return [job_id for (job_id,) in moved]
