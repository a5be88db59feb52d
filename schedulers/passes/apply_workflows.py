"""Writes of the WorkflowManager's decisions, each under the lock of its workflow's row.

Spawning is in ``spawn_nodes.py``. Every function is one set of statements for a whole window.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from psycopg2.extras import Json
from sqlalchemy import Connection, text

from dispatcher.broker.messages import Dispatch, Manager, Owed, wake
from dispatcher.db import job_moves, quarantine
from dispatcher.db.workflow_rows import skip_undecided
from dispatcher.db.workflow_touches import touch_workflows
from dispatcher.domain.outcome import Outcome
from dispatcher.domain.status import Kind, Status
from dispatcher.metrics import JOBS_FINISHED
from schedulers.core.decision import (
    CancelChild,
    ExpireApproval,
    FailNode,
    FinishWorkflow,
    SkipNode,
    Strike,
)
from schedulers.core.plan_workflows import merge_artifacts
from schedulers.passes.apply import ended
from schedulers.passes.manager_pass import Applied


@dataclass(frozen=True)
class Locked:
    """Running workflows whose rows are locked.

    Attributes:
        ids: all of them.
        going_on: those that nobody asked to cancel: only they may spawn.
    """

    ids: frozenset[int]
    going_on: frozenset[int]


def lock(connection: Connection, workflow_ids: Collection[int]) -> Locked:
    """Lock running workflows, in order of id; whoever spawns or ends takes the same lock first.

    Not FOR UPDATE: whoever ends a child holds that child's row and then refers to the workflow's
    in a touch; the two would wait for one another.
    """
    if not workflow_ids:
        return Locked(frozenset(), frozenset())
    rows = connection.execute(
        text(
            "SELECT id, cancel_requested FROM job WHERE id = ANY(CAST(:ids AS bigint[]))"
            " AND status = 'running' AND kind = 'workflow' ORDER BY id FOR NO KEY UPDATE"
        ),
        {"ids": list(workflow_ids)},
    ).all()
    going_on = frozenset(row.id for row in rows if not row.cancel_requested)
    return Locked(frozenset(row.id for row in rows), going_on)


def cancel_children(
    connection: Connection, decisions: Sequence[CancelChild], locked: Collection[int]
) -> Applied:
    """Cancel unfinished children; the children of a nested workflow are that workflow's matter."""
    wanted = [d.job_id for d in decisions if d.workflow_job_id in locked]
    return _cancel(connection, wanted)


def _cancel(connection: Connection, job_ids: Sequence[int]) -> Applied:
    met = job_moves.cancel_jobs(connection, job_ids)
    canceled = [job_id for job_id, found in met.items() if found.status is Status.CANCELED]
    skip_undecided(connection, [i for i in canceled if met[i].kind == Kind.WORKFLOW])
    running = {i: found for i, found in met.items() if found.status is not Status.CANCELED}
    nested = [job_id for job_id, found in running.items() if found.kind == Kind.WORKFLOW]
    touch_workflows(connection, nested)
    owed = Owed(cancels=_cancel_messages(connection, running))
    if nested:
        owed += wake(Manager.WORKFLOW)
    return ended(connection, canceled, {"cancel": len(met)}) + Applied(owed)


def _cancel_messages(
    connection: Connection, running: Mapping[int, job_moves.Canceled]
) -> tuple[Dispatch, ...]:
    nodes = sorted({met.node_id for met in running.values() if met.node_id is not None})
    if not nodes:
        return ()
    rows = connection.execute(
        text("SELECT id, name FROM node WHERE id = ANY(CAST(:ids AS bigint[]))"), {"ids": nodes}
    )
    names: dict[int, str] = dict(rows.all())
    return tuple(
        Dispatch(job_id, met.dispatch_id, names[met.node_id])
        for job_id, met in running.items()
        if met.dispatch_id is not None and met.node_id in names
    )


def expire(
    connection: Connection, decisions: Sequence[ExpireApproval], locked: Collection[int]
) -> Applied:
    """End approvals that nobody decided in time; their workflows are evaluated again."""
    late = job_moves.expire(
        connection, [d.job_id for d in decisions if d.workflow_job_id in locked]
    )
    JOBS_FINISHED.labels(str(Outcome.DENIED)).inc(len(late))
    return ended(connection, late, {"expire": len(late)})


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
    ending = {id: d for id, d in wanted.items() if id not in busy}
    done = job_moves.finish_workflows(
        connection, {id: (d.outcome, d.explanation) for id, d in ending.items()}
    )
    _keep_artifacts(connection, {f.job_id: ending[f.job_id].artifacts_of for f in done})
    for finished in done:
        JOBS_FINISHED.labels(str(finished.outcome)).inc()
    return ended(connection, [f.job_id for f in done], {"finish": len(done)})


def _keep_artifacts(connection: Connection, sources: Mapping[int, Sequence[int]]) -> None:
    """What the jobs of a workflow left, together, is what the workflow left."""
    artifacts = read_artifacts(connection, {job_id for ids in sources.values() for job_id in ids})
    kept = {
        workflow: merged
        for workflow, ids in sources.items()
        if (merged := merge_artifacts(artifacts.get(job_id, {}) for job_id in ids))
    }
    if kept:
        connection.execute(
            text(
                "INSERT INTO job_result (job_id, artifacts) SELECT * FROM"
                " unnest(CAST(:jobs AS bigint[]), CAST(:artifacts AS jsonb[]))"
            ),
            {"jobs": list(kept), "artifacts": [Json(each) for each in kept.values()]},
        )


def read_artifacts(
    connection: Connection, job_ids: Collection[int]
) -> dict[int, Mapping[str, object]]:
    """What jobs left behind for later ones."""
    if not job_ids:
        return {}
    rows = connection.execute(
        text("SELECT job_id, artifacts FROM job_result WHERE job_id = ANY(CAST(:ids AS bigint[]))"),
        {"ids": sorted(job_ids)},
    )
    return dict(rows.all())


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
            " AND job_id IS NULL AND start_failure = '' AND NOT do_not_run"
        ),
        {"ids": nodes},
    )
    return Applied(counts={"skip": skipped.rowcount})


def fail_nodes(
    connection: Connection, decisions: Sequence[FailNode], locked: Collection[int]
) -> Applied:
    """Nodes that no job can be made of, with the reason."""
    failed = {d.workflow_node_id: d.reason for d in decisions if d.workflow_job_id in locked}
    if not failed:
        return Applied()
    written = connection.execute(
        text(
            "UPDATE workflow_node SET start_failure = v.reason"
            " FROM unnest(CAST(:ids AS bigint[]), CAST(:reasons AS text[])) AS v(node_id, reason)"
            " WHERE id = v.node_id AND job_id IS NULL AND start_failure = '' AND NOT do_not_run"
        ),
        {"ids": list(failed), "reasons": list(failed.values())},
    )
    return Applied(counts={"fail_node": written.rowcount})


def delete_touches(connection: Connection, touches: Sequence[int]) -> None:
    """Delete exactly the touches that were read in the snapshot that was planned on."""
    if touches:
        connection.execute(
            text("DELETE FROM workflow_touch WHERE id = ANY(CAST(:ids AS bigint[]))"),
            {"ids": list(touches)},
        )


def strike(connection: Connection, strikes: Sequence[Strike], *, max_strikes: int) -> Applied:
    """Set aside running workflows whose handling raised; end those that had too many tries, and
    cancel what they left unfinished: nobody would look after it.
    """
    finished = quarantine.strike_running(
        connection,
        {s.job_id: s.error for s in strikes},
        max_strikes=max_strikes,
        manager=str(Manager.WORKFLOW),
    )
    for _ in finished:
        JOBS_FINISHED.labels(str(Outcome.INTERNAL)).inc()
    orphans = list(
        connection.scalars(
            text(
                "SELECT job_id FROM workflow_node JOIN job ON job.id = job_id"
                " WHERE workflow_job_id = ANY(CAST(:ids AS bigint[]))"
                " AND status IN ('pending', 'waiting', 'running')"
            ),
            {"ids": finished},
        )
    )
    return ended(connection, finished, {"strike": len(strikes)}) + _cancel(connection, orphans)
