"""Cancel: a request that takes effect at once, or that the node reads within seconds."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, text

from dispatcher.broker.messages import Dispatch, Manager, Owed, wake
from dispatcher.db import job_moves
from dispatcher.db.change import raise_counter
from dispatcher.db.workflow_rows import skip_undecided
from dispatcher.db.workflow_touches import touch_workflows, touch_workflows_of
from dispatcher.domain.status import Kind, Status
from dispatcher.errors import NotCancelable, NotFound


@dataclass(frozen=True)
class CancelResult:
    """What the request met.

    Attributes:
        status: ``canceled``, or ``running`` when the node still has to stop the playbook.
        owed: to be published after the commit.
    """

    status: Status
    owed: Owed


def cancel_job(connection: Connection, job_id: int) -> CancelResult:
    """Ask for the cancel of a job; asking again is harmless (docs/protocols.md 6).

    Raises:
        NotFound: no such job.
        NotCancelable: it has ended already.
    """
    canceled = job_moves.cancel(connection, job_id)
    if canceled is None:
        found = connection.scalar(text("SELECT status FROM job WHERE id = :job"), {"job": job_id})
        if found is None:
            raise NotFound(f"no job {job_id}")
        raise NotCancelable(f"job {job_id} has ended: {found}")
    owed = Owed()
    if canceled.status is Status.CANCELED:
        owed += wake(Manager.TASK)
        if canceled.kind == Kind.WORKFLOW:
            skip_undecided(connection, [job_id])
        if touch_workflows_of(connection, [job_id]):
            owed += wake(Manager.WORKFLOW)
    elif canceled.kind == Kind.WORKFLOW:
        # its children are canceled by the WorkflowManager alone (docs/protocols.md 6.5)
        touch_workflows(connection, [job_id])
        owed += wake(Manager.WORKFLOW)
    else:
        owed += _message_to_node(connection, job_id, canceled)
    raise_counter(connection)
    return CancelResult(canceled.status, owed)


def _message_to_node(connection: Connection, job_id: int, canceled: job_moves.Canceled) -> Owed:
    node = connection.scalar(
        text("SELECT name FROM node WHERE id = :node"), {"node": canceled.node_id}
    )
    if node is None or canceled.dispatch_id is None:
        return Owed()
    return Owed(cancels=(Dispatch(job_id, canceled.dispatch_id, node),))
