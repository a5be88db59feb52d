"""Moves out of pending that a manager decides: start, begin, refuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, text

from dispatcher.domain.outcome import Outcome


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
                held_since = NULL, blocker = job.pending_reason ->> 'code', pending_reason = NULL
            FROM unnest(CAST(:jobs AS bigint[]), CAST(:dispatches AS uuid[]),
                        CAST(:nodes AS bigint[]), CAST(:groups AS bigint[]))
                AS v(job_id, dispatch_id, node_id, group_id), node
            WHERE job.id = v.job_id AND node.id = v.node_id
              AND job.status = 'pending' AND NOT job.cancel_requested
            RETURNING job.id, node.name
            """
        ),
        {
            "jobs": [r.job_id for r in rows],
            "dispatches": [str(r.dispatch_id) for r in rows],
            "nodes": [r.node_id for r in rows],
            "groups": [r.instance_group_id for r in rows],
        },
    )
    # not returned by the statement: parsing them again takes longer than looking them up
    dispatches = {r.job_id: r.dispatch_id for r in rows}
    return [Started(job_id, dispatches[job_id], name) for job_id, name in moved]


def begin(connection: Connection, job_ids: Sequence[int]) -> list[int]:
    """pending → running, workflow jobs only; they have no dispatch."""
    if not job_ids:
        return []
    moved = connection.execute(
        text(
            """
            UPDATE job SET status = 'running', started = dispatcher_now(), pending_reason = NULL,
                held_since = NULL
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
