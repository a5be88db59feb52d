"""Every UPDATE of ``job.status``: one function for each verb of ``dispatcher/domain/status.py``.

All are conditional and set-based. A row that somebody else moved first is left out of what is
returned; that is not an error. Lock order: lease, job, progress, workflow, change counter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg2.extras import Json
from sqlalchemy import Connection, text

from dispatcher.domain.outcome import Outcome, status_of
from dispatcher.domain.status import Status


@dataclass(frozen=True)
class StartRow:
    """One start decided by the TaskManager."""

    job_id: int
    dispatch_id: UUID
    node_id: int
    instance_group_id: int


@dataclass(frozen=True)
class Started:
    """A start that took effect."""

    job_id: int
    dispatch_id: UUID
    node: str


def start(connection: Connection, rows: Sequence[StartRow]) -> list[Started]:
    """pending → waiting, for a whole batch in one statement."""
    if not rows:
        return []
    moved = connection.execute(
        text(
            """
            UPDATE job SET status = 'waiting', dispatch_id = v.dispatch_id, node_id = v.node_id,
                instance_group_id = v.group_id, waiting_since = dispatcher_now(),
                submitted_at = dispatcher_now(), submissions = 1, queued_on_node = false,
                blocker = job.pending_reason ->> 'code', pending_reason = NULL
            FROM unnest(CAST(:jobs AS bigint[]), CAST(:dispatches AS uuid[]),
                        CAST(:nodes AS bigint[]), CAST(:groups AS bigint[]))
                AS v(job_id, dispatch_id, node_id, group_id), node
            WHERE job.id = v.job_id AND node.id = v.node_id
              AND job.status = 'pending' AND NOT job.cancel_requested
            RETURNING job.id, job.dispatch_id, node.name
            """
        ),
        {
            "jobs": [r.job_id for r in rows],
            "dispatches": [str(r.dispatch_id) for r in rows],
            "nodes": [r.node_id for r in rows],
            "groups": [r.instance_group_id for r in rows],
        },
    )
    return [Started(job_id, dispatch_id, name) for job_id, dispatch_id, name in moved]


def begin(connection: Connection, job_ids: Sequence[int]) -> list[int]:
    """pending → running, workflow jobs only; they have no dispatch."""
    if not job_ids:
        return []
    moved = connection.execute(
        text(
            """
            UPDATE job SET status = 'running', started = dispatcher_now(), pending_reason = NULL
            WHERE id = ANY(:jobs) AND status = 'pending' AND kind = 'workflow'
              AND NOT cancel_requested
            RETURNING id
            """
        ),
        {"jobs": list(job_ids)},
    )
    return [job_id for (job_id,) in moved]


def refuse(connection: Connection, refusals: Mapping[int, tuple[Outcome, str]]) -> list[int]:
    """pending → failed: job id → (outcome, explanation). Approvals are decided, never refused."""
    if not refusals:
        return []
    moved = connection.execute(
        text(
            """
            UPDATE job SET status = 'failed', outcome = v.outcome, explanation = v.explanation,
                finished = dispatcher_now(), pending_reason = NULL, events_complete = true
            FROM unnest(CAST(:jobs AS bigint[]), CAST(:outcomes AS text[]),
                        CAST(:explanations AS text[])) AS v(job_id, outcome, explanation)
            WHERE job.id = v.job_id AND job.status = 'pending' AND job.kind <> 'approval'
            RETURNING job.id
            """
        ),
        {
            "jobs": list(refusals),
            "outcomes": [str(outcome) for outcome, _ in refusals.values()],
            "explanations": [words for _, words in refusals.values()],
        },
    )
    return [job_id for (job_id,) in moved]


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


@dataclass(frozen=True)
class Claimed:
    """A claim that took effect.

    Attributes:
        cancel_requested: read in the claim itself (docs/protocols.md 6.4).
        job_day: the events' partition.
    """

    job_id: int
    dispatch_id: UUID
    cancel_requested: bool
    job_day: Any


def claim(
    connection: Connection, pairs: Sequence[tuple[int, UUID]], *, node_id: int, epoch: int
) -> list[Claimed]:
    """waiting → running, for the dispatches given, and their progress rows.

    The node's lease row is locked first and must be alive under ``epoch``; otherwise nothing
    is claimed (docs/protocols.md 3.1). Nor is it on a node that was disabled or is being drained,
    whatever a pass that read it before has started there.
    """
    alive = connection.execute(
        text(
            "SELECT 1 FROM node_lease JOIN node ON node.id = node_id"
            " WHERE node_id = :node AND epoch = :epoch AND state = 'alive'"
            " AND node.enabled AND NOT node.draining FOR SHARE OF node_lease"
        ),
        {"node": node_id, "epoch": epoch},
    ).one_or_none()
    if alive is None or not pairs:
        return []
    moved = connection.execute(
        text(
            """
            UPDATE job SET status = 'running', started = dispatcher_now(), node_epoch = :epoch,
                queued_on_node = false
            FROM unnest(CAST(:jobs AS bigint[]), CAST(:dispatches AS uuid[]))
                AS v(job_id, dispatch_id)
            WHERE job.id = v.job_id AND job.dispatch_id = v.dispatch_id
              AND job.status = 'waiting' AND job.node_id = :node
            RETURNING job.id, job.dispatch_id, job.cancel_requested, job.job_day
            """
        ),
        {
            "jobs": [job_id for job_id, _ in pairs],
            "dispatches": [str(dispatch_id) for _, dispatch_id in pairs],
            "node": node_id,
            "epoch": epoch,
        },
    )
    claimed = [Claimed(*row) for row in moved]
    if claimed:
        connection.execute(
            text(
                "INSERT INTO job_progress (job_id, job_day, dispatch_id)"
                " VALUES (:job_id, :job_day, :dispatch_id)"
            ),
            [
                {"job_id": c.job_id, "job_day": c.job_day, "dispatch_id": c.dispatch_id}
                for c in claimed
            ],
        )
    return claimed


def return_jobs(
    connection: Connection,
    *,
    reason: Mapping[str, Any],
    dispatches: Sequence[tuple[int, UUID]] | None = None,
    node_ids: Sequence[int] | None = None,
) -> list[int]:
    """waiting → pending, for named dispatches or for every waiting job of some nodes.

    Args:
        reason: stored as ``pending_reason`` (code and data), until the next pass decides.
        dispatches: (job id, dispatch id) pairs.
        node_ids: nodes whose waiting jobs are all returned.
    """
    moved = connection.execute(
        text(
            """
            UPDATE job SET status = 'pending', dispatch_id = NULL, node_id = NULL,
                node_epoch = NULL, instance_group_id = NULL, waiting_since = NULL,
                submitted_at = NULL, submissions = 0, queued_on_node = false,
                pending_reason = :reason
            WHERE status = 'waiting' AND (
                node_id = ANY(CAST(:nodes AS bigint[]))
                OR (id, dispatch_id) IN (
                    SELECT * FROM unnest(CAST(:jobs AS bigint[]), CAST(:dispatches AS uuid[]))))
            RETURNING id
            """
        ),
        {
            "reason": Json(dict(reason)),
            "nodes": list(node_ids or ()),
            "jobs": [job_id for job_id, _ in dispatches or ()],
            "dispatches": [str(dispatch_id) for _, dispatch_id in dispatches or ()],
        },
    )
    return [job_id for (job_id,) in moved]


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


@dataclass(frozen=True)
class Finished:
    """A final status that was written."""

    job_id: int
    status: Status
    outcome: Outcome
    started: datetime


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
            RETURNING id, status, outcome, started
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
    return None if row is None else Finished(row[0], Status(row[1]), Outcome(row[2]), row[3])


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
