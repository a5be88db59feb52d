"""Between a node and a waiting job: claim, and return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg2.extras import Json
from sqlalchemy import Connection, text


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
