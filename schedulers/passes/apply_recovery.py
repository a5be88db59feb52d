"""Writes of recovery's decisions: conditional on what was observed, so that none can be false."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, text

from dispatcher import logs
from dispatcher.broker.messages import Dispatch, Manager, Owed, wake
from dispatcher.db import job_moves
from dispatcher.domain.outcome import Outcome
from dispatcher.metrics import JOBS_FINISHED, RECOVERED, RESUBMISSIONS
from schedulers.core.decision import (
    FinishLost,
    NodeDecision,
    Reason,
    Resubmit,
    Return,
    SetNodeState,
    Watch,
)
from schedulers.passes.apply import ended, say_of
from schedulers.passes.manager_pass import Applied

log = logs.get(__name__)

#: Idempotency keys live at least this long, and as long as their job is not final.
KEYS_LIVE_HOURS: Final = 24
#: Rows deleted in one statement of housekeeping.
DELETED_AT_ONCE: Final = 5_000


def watch_nodes(
    connection: Connection, decisions: Sequence[NodeDecision], *, now: datetime
) -> Applied:
    """Write what was counted of nodes' renewals, and the states that follow from it.

    Args:
        connection: in the transaction of the lease holder.
        decisions: what was decided.
        now: the database's clock in the snapshot that was decided on.
    """
    watched = [d for d in decisions if isinstance(d, Watch)]
    if watched:
        connection.execute(
            text(
                "INSERT INTO node_watch (node_id, seq, missed, ticked_at)"
                " SELECT node_id, seq, missed, :now FROM unnest(CAST(:nodes AS bigint[]),"
                " CAST(:seqs AS bigint[]), CAST(:missed AS int[])) AS v(node_id, seq, missed)"
                " ON CONFLICT (node_id) DO UPDATE SET seq = excluded.seq,"
                " missed = excluded.missed, ticked_at = excluded.ticked_at"
            ),
            {
                "now": now,
                "nodes": [d.node_id for d in watched],
                "seqs": [d.seq for d in watched],
                "missed": [d.missed for d in watched],
            },
        )
    changed = sum(_set_state(connection, d) for d in decisions if isinstance(d, SetNodeState))
    owed = wake(Manager.TASK) if changed else Owed()
    return Applied(owed, {"node_state": changed}, changed=changed > 0)


def _set_state(connection: Connection, decision: SetNodeState) -> int:
    name = connection.execute(
        text(
            "UPDATE node_lease SET state = :state FROM node"
            " WHERE node.id = node_id AND node_id = :node AND seq = :seq AND state <> :state"
            " RETURNING name"
        ),
        {"state": decision.state, "node": decision.node_id, "seq": decision.observed_seq},
    ).scalar_one_or_none()
    if name is None:
        return 0
    RECOVERED.labels(decision.state).inc()
    log.info("the state of a node changes", node=name, state=decision.state)
    return 1


def resubmit(connection: Connection, decisions: Sequence[Resubmit]) -> Applied:
    """Submit waiting jobs again, if they still wait under the same dispatch."""
    if not decisions:
        return Applied()
    nodes = {d.job_id: d.node_name for d in decisions}
    rows = connection.execute(
        text(
            "UPDATE job SET submissions = submissions + 1, submitted_at = dispatcher_now()"
            " FROM unnest(CAST(:jobs AS bigint[]), CAST(:dispatches AS uuid[]))"
            "  AS v(job_id, dispatch_id)"
            " WHERE job.id = v.job_id AND job.dispatch_id = v.dispatch_id AND status = 'waiting'"
            " RETURNING job.id, job.dispatch_id"
        ),
        _pairs([(d.job_id, d.dispatch_id) for d in decisions]),
    ).all()
    RESUBMISSIONS.inc(len(rows))
    RECOVERED.labels("resubmitted").inc(len(rows))
    say_of("starts are submitted again", [(job, d, nodes[job]) for job, d in rows])
    starts = tuple(Dispatch(job_id, dispatch, nodes[job_id]) for job_id, dispatch in rows)
    return Applied(Owed(starts=starts), {"resubmit": len(rows)})


def give_back(connection: Connection, decisions: Sequence[Return]) -> Applied:
    """waiting → pending; safe at any moment: of this and the claim one wins."""
    by_reason: dict[tuple[str, str], list[Return]] = defaultdict(list)
    for decision in decisions:
        by_reason[_key(decision.reason)].append(decision)
    returned = 0
    for alike in by_reason.values():
        reason = alike[0].reason
        moved = set(
            job_moves.return_jobs(
                connection,
                reason={"code": reason.code, "data": dict(reason.data)},
                dispatches=[(d.job_id, d.dispatch_id) for d in alike],
            )
        )
        returned += len(moved)
        say_of(
            "jobs return to pending",
            [
                (d.job_id, d.dispatch_id, str(d.reason.data.get("node", "")))
                for d in alike
                if d.job_id in moved
            ],
            reason=reason.code,
        )
    if not returned:
        return Applied()
    RECOVERED.labels("returned").inc(returned)
    return Applied(wake(Manager.TASK), {"return": returned}, changed=True)


def _key(reason: Reason) -> tuple[str, str]:
    return reason.code, repr(sorted(reason.data.items()))


def finish_lost(connection: Connection, decisions: Sequence[FinishLost]) -> Applied:
    """running → error (``node_lost``), past fencing, with its retry; a canceled job ends canceled."""
    lost = {d.job_id: d for d in decisions}
    finished = [
        done
        for d in sorted(decisions, key=lambda d: d.job_id)
        if (
            done := job_moves.finish(
                connection,
                d.job_id,
                dispatch_id=d.dispatch_id,
                outcome=Outcome.NODE_LOST,
                explanation=f"The node {d.node_name} was lost while the job ran on it.",
                events_complete=False,
            )
        )
        is not None
    ]
    for done in finished:
        JOBS_FINISHED.labels(str(done.outcome)).inc()
        RECOVERED.labels("node_lost").inc()
        log.info(
            "a job is given up with its node",
            job_id=done.job_id,
            dispatch_id=str(lost[done.job_id].dispatch_id),
            node=lost[done.job_id].node_name,
            outcome=str(done.outcome),
            retry=done.retry_id,
        )
        if done.retry_id is not None:
            RECOVERED.labels("retried").inc()
    return ended(
        connection, [done.in_workflow for done in finished], {"finish_lost": len(finished)}
    )


def delete_idempotency_keys(connection: Connection) -> int:
    """Delete keys that are old enough and whose job is final, and so are its retries."""
    return connection.execute(
        text(
            "DELETE FROM idempotency_key WHERE (principal, route, key) IN ("
            "SELECT principal, route, key FROM idempotency_key JOIN job ON job.id = job_id"
            " WHERE idempotency_key.created < dispatcher_now() - make_interval(hours => :hours)"
            " AND finished IS NOT NULL AND NOT EXISTS ("
            "  WITH RECURSIVE retry AS ("
            "   SELECT id, finished FROM job AS first WHERE first.retry_of = job.id UNION ALL"
            "   SELECT later.id, later.finished FROM job AS later"
            "    JOIN retry ON later.retry_of = retry.id)"
            "  SELECT FROM retry WHERE finished IS NULL) LIMIT :most)"
        ),
        {"hours": KEYS_LIVE_HOURS, "most": DELETED_AT_ONCE},
    ).rowcount


def _pairs(pairs: Sequence[tuple[int, UUID]]) -> dict[str, list[object]]:
    return {
        "jobs": [job_id for job_id, _ in pairs],
        "dispatches": [str(dispatch_id) for _, dispatch_id in pairs],
    }
