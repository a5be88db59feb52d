"""Cancel: a move for what has not begun, a flag for what runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, text

from dispatcher.domain.status import Status


@dataclass(frozen=True)
class Canceled:
    """What a cancel request met: the status after it, and where the job is."""

    status: Status
    dispatch_id: UUID | None
    node_id: int | None
    kind: str


def cancel(connection: Connection, job_id: int) -> Canceled | None:
    """Request the cancel of one job, see :func:`cancel_jobs`.

    Returns:
        None when the job is final already or does not exist.
    """
    return cancel_jobs(connection, [job_id]).get(job_id)


def cancel_jobs(connection: Connection, job_ids: Collection[int]) -> dict[int, Canceled]:
    """Request cancels: pending and waiting jobs are canceled, running ones are flagged.

    Returns:
        What was met, for each job that was not final.
    """
    if not job_ids:
        return {}
    rows = connection.execute(
        text(
            """
            UPDATE job SET
                cancel_requested = true,
                canceled_on = COALESCE(canceled_on, dispatcher_now()),
                status = CASE WHEN status IN ('pending', 'waiting') THEN 'canceled' ELSE status END,
                outcome = CASE WHEN status IN ('pending', 'waiting') THEN 'canceled' END,
                finished = CASE WHEN status IN ('pending', 'waiting') THEN dispatcher_now() END,
                events_complete = status IN ('pending', 'waiting'),
                pending_reason = NULL
            FROM (SELECT id FROM job WHERE id = ANY(CAST(:jobs AS bigint[]))
                  ORDER BY id FOR NO KEY UPDATE) AS locked
            WHERE job.id = locked.id AND status IN ('pending', 'waiting', 'running')
            RETURNING job.id, status, dispatch_id, node_id, kind
            """
        ),
        {"jobs": list(job_ids)},
    )
    return {
        row.id: Canceled(Status(row.status), row.dispatch_id, row.node_id, row.kind) for row in rows
    }
