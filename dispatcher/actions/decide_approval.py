"""Approvals: made by the WorkflowManager, decided by people or by time; the first decision stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from sqlalchemy import Connection, insert, text

from dispatcher.actions.launched import Launched
from dispatcher.broker.messages import Manager, Owed, wake
from dispatcher.db import job_moves
from dispatcher.db import tables as t
from dispatcher.db.change import raise_counter
from dispatcher.db.workflow_rows import new_ids
from dispatcher.db.workflow_touches import touch_workflows_of
from dispatcher.domain.status import Kind
from dispatcher.errors import InvalidRequest, NotFound
from dispatcher.metrics import JOBS_FINISHED


@dataclass(frozen=True)
class ApprovalRow:
    """An approval that is to be made.

    Attributes:
        timeout: seconds until nobody can decide it any more; 0: it waits for ever.
    """

    name: str
    organization_id: int
    principal: str
    timeout: int


def make_approvals(connection: Connection, rows: Sequence[ApprovalRow]) -> list[Launched]:
    """Pending approvals; their time begins now, by the database's clock. No manager starts them."""
    made = [Launched(id, uuid4(), True, Owed()) for id in new_ids(connection, len(rows))]
    if not rows:
        return made
    connection.execute(
        insert(t.job),
        [
            {
                "id": launched.job_id,
                "uuid": launched.uuid,
                "kind": Kind.APPROVAL,
                "name": row.name,
                "organization_id": row.organization_id,
                "launched_by": row.principal,
                "launch_type": "workflow",
                "task_impact": 0,
                "preferred_groups": [],
                "dependencies_processed": True,
            }
            for launched, row in zip(made, rows, strict=True)
        ],
    )
    connection.execute(
        text(
            "INSERT INTO approval (job_id, expires)"
            " SELECT job_id, dispatcher_now() + make_interval(secs => nullif(seconds, 0))"
            " FROM unnest(CAST(:jobs AS bigint[]), CAST(:seconds AS int[])) AS v(job_id, seconds)"
        ),
        {"jobs": [each.job_id for each in made], "seconds": [row.timeout for row in rows]},
    )
    return made


def decide_approval(connection: Connection, job_id: int, *, approved: bool, principal: str) -> Owed:
    """Approve or deny; what is owed is to be published after the commit.

    Args:
        principal: who decides.

    Raises:
        NotFound: no such approval.
        InvalidRequest: it is decided, canceled or its time is over; names the decision that stands.
    """
    words = f"{'Approved' if approved else 'Denied'} by {principal}."
    if not job_moves.decide(connection, job_id, approved=approved, explanation=words):
        raise _refusal(connection, job_id)
    connection.execute(
        text("UPDATE approval SET decided_by = :who WHERE job_id = :job"),
        {"who": principal, "job": job_id},
    )
    touch_workflows_of(connection, [job_id])
    raise_counter(connection)
    JOBS_FINISHED.labels("successful" if approved else "denied").inc()
    return wake(Manager.WORKFLOW)


def _refusal(connection: Connection, job_id: int) -> NotFound | InvalidRequest:
    row = connection.execute(
        text("SELECT status, decided_by FROM job JOIN approval ON job_id = id WHERE id = :job"),
        {"job": job_id},
    ).one_or_none()
    if row is None:
        return NotFound(f"no approval {job_id}")
    stands = {
        "successful": f"approved by {row.decided_by}",
        "failed": f"denied by {row.decided_by}" if row.decided_by else "timed out",
        # its time is over, and the WorkflowManager has not come by yet
        "pending": "timed out",
        "canceled": "canceled",
    }
    return InvalidRequest({"detail": f"This approval was {stands[row.status]} already."})
