"""Writes of the WorkflowManager's decisions, each under the lock of its workflow's row."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, text

from dispatcher.broker.messages import Dispatch, Manager, Owed
from dispatcher.db import job_moves, quarantine
from dispatcher.domain.status import Status
from dispatcher.metrics import JOBS_FINISHED
from schedulers.core.decision import CancelChild, FinishWorkflow, SkipNode, Strike
from schedulers.passes.apply import ended
from schedulers.passes.manager_pass import Applied


def lock(connection: Connection, workflow_ids: Collection[int]) -> set[int]:
    """Lock running workflows, in order of id; whoever spawns or ends takes the same lock first."""
    if not workflow_ids:
        return set()
    return set(
        connection.scalars(
            text(
                "SELECT id FROM job WHERE id = ANY(CAST(:ids AS bigint[])) AND status = 'running'"
                " AND kind = 'workflow' ORDER BY id FOR UPDATE"
            ),
            {"ids": list(workflow_ids)},
        )
    )


def cancel_children(
    connection: Connection, decisions: Sequence[CancelChild], locked: Collection[int]
) -> Applied:
    """Cancel unfinished children: at once, or by a flag that their node reads."""
    canceled: list[int] = []
    running: list[tuple[int, job_moves.Canceled]] = []
    for decision in sorted(decisions, key=lambda d: d.job_id):
        if decision.workflow_job_id not in locked:
            continue
        met = job_moves.cancel(connection, decision.job_id)
        if met is None:
            continue
        if met.status is Status.CANCELED:
            canceled.append(decision.job_id)
        else:
            running.append((decision.job_id, met))
    counts = {"cancel": len(canceled) + len(running)}
    return ended(connection, canceled, counts) + Applied(
        Owed(cancels=_cancel_messages(connection, running))
    )


def _cancel_messages(
    connection: Connection, running: Sequence[tuple[int, job_moves.Canceled]]
) -> tuple[Dispatch, ...]:
    nodes = sorted({met.node_id for _, met in running if met.node_id is not None})
    if not nodes:
        return ()
    rows = connection.execute(
        text("SELECT id, name FROM node WHERE id = ANY(CAST(:ids AS bigint[]))"), {"ids": nodes}
    )
    names: dict[int, str] = dict(rows.all())
    return tuple(
        Dispatch(job_id, met.dispatch_id, names[met.node_id])
        for job_id, met in running
        if met.dispatch_id is not None and met.node_id in names
    )


def finish(
    connection: Connection, decisions: Sequence[FinishWorkflow], locked: Collection[int]
) -> Applied:
    """End workflows, if none of their children is active (a child may have come since)."""
    wanted = {d.workflow_job_id: d for d in decisions if d.workflow_job_id in locked}
    if not wanted:
        return Applied()
    busy = set(
        connection.scalars(
            text(
                "SELECT workflow_job_id FROM workflow_node JOIN job ON job.id = job_id"
                " WHERE workflow_job_id = ANY(CAST(:ids AS bigint[]))"
                " AND status IN ('pending', 'waiting', 'running')"
            ),
            {"ids": list(wanted)},
        )
    )
    return _finish(connection, [d for d in wanted.values() if d.workflow_job_id not in busy])


def _finish(connection: Connection, decisions: Sequence[FinishWorkflow]) -> Applied:
    finished = [
        done
        for d in decisions
        if (
            done := job_moves.finish(
                connection,
                d.workflow_job_id,
                dispatch_id=None,
                outcome=d.outcome,
                explanation=d.explanation,
            )
        )
        is not None
    ]
    for done in finished:
        JOBS_FINISHED.labels(str(done.outcome)).inc()
    return ended(connection, [done.job_id for done in finished], {"finish": len(finished)})


def skip_nodes(
    connection: Connection, decisions: Sequence[SkipNode], locked: Collection[int]
) -> Applied:
    """Nodes that will never run; not those for which a job was spawned since."""
    nodes = [d.workflow_node_id for d in decisions if d.workflow_job_id in locked]
    if not nodes:
        return Applied()
    skipped = connection.execute(
        text(
            "UPDATE workflow_node SET do_not_run = true WHERE id = ANY(CAST(:ids AS bigint[]))"
            " AND job_id IS NULL AND NOT do_not_run RETURNING workflow_job_id"
        ),
        {"ids": nodes},
    )
    return Applied(counts={"skip": len(skipped.all())})


def delete_touches(connection: Connection, touches: Sequence[int]) -> None:
    """Delete exactly the touches that were read in the snapshot that was planned on."""
    if touches:
        connection.execute(
            text("DELETE FROM workflow_touch WHERE id = ANY(CAST(:ids AS bigint[]))"),
            {"ids": list(touches)},
        )


def strike(connection: Connection, strikes: Sequence[Strike], *, max_strikes: int) -> Applied:
    """Set aside running workflows whose handling raised; end those that had too many tries."""
    finished = quarantine.strike_running(
        connection,
        {s.job_id: s.error for s in strikes},
        max_strikes=max_strikes,
        manager=str(Manager.WORKFLOW),
    )
    return ended(connection, finished, {"strike": len(strikes)})
