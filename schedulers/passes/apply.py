"""Writes of the TaskManager's decisions: conditional, set-based, a fixed number of statements.

A snapshot may be stale: a row that somebody else moved is left out of the batch without harm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID, uuid4

from psycopg2.extras import Json
from sqlalchemy import Connection, text

from dispatcher import logs
from dispatcher.broker.messages import Dispatch, Manager, Owed
from dispatcher.db import job_moves, quarantine
from dispatcher.db.workflow_touches import touch_workflows, touch_workflows_of
from schedulers.core.decision import Begin, Fail, Reason, Start, Strike
from schedulers.core.reasons import WITHOUT_TURN
from schedulers.passes.manager_pass import Applied

log = logs.get(__name__)

#: Jobs named in one record, at most: a batch has up to a thousand.
SAID_AT_ONCE: Final = 100


def start_jobs(connection: Connection, decisions: Sequence[Start]) -> Applied:
    """pending → waiting, each under a fresh dispatch; their submissions are owed."""
    started = job_moves.start(
        connection,
        [job_moves.StartRow(d.job_id, uuid4(), d.node_id, d.instance_group_id) for d in decisions],
    )
    say_of("jobs start", [(s.job_id, s.dispatch_id, s.node) for s in started])
    owed = Owed(starts=tuple(Dispatch(s.job_id, s.dispatch_id, s.node) for s in started))
    return Applied(owed, {"start": len(started)})


def say_of(words: str, moved: Sequence[tuple[int, UUID, str]], **more: object) -> None:
    """One record about a batch of jobs, the first of them by their ids.

    Args:
        words: what happens to them once the transaction is committed.
        moved: (job id, dispatch id, node name).
        more: further facts about all of them.
    """
    if moved:
        jobs = [
            {"job_id": job_id, "dispatch_id": str(dispatch_id), "node": node}
            for job_id, dispatch_id, node in moved[:SAID_AT_ONCE]
        ]
        log.info(words, count=len(moved), jobs=jobs, **more)


def begin_jobs(connection: Connection, decisions: Sequence[Begin]) -> Applied:
    """pending → running, workflow jobs; the WorkflowManager is to look at them."""
    begun = job_moves.begin(connection, [d.job_id for d in decisions])
    touch_workflows(connection, begun)
    wakes = frozenset({Manager.WORKFLOW} if begun else ())
    return Applied(Owed(wakes=wakes), {"begin": len(begun)})


def fail_jobs(connection: Connection, decisions: Sequence[Fail]) -> Applied:
    """pending → failed; what waits for them is to be considered again."""
    refused = job_moves.refuse(
        connection, {d.job_id: (d.outcome, d.explanation) for d in decisions}
    )
    return ended(connection, refused, {"fail": len(refused)})


def store_reasons(
    connection: Connection, reasons: Mapping[int, Reason], *, now: datetime
) -> Applied:
    """Store why jobs stay pending, and since when they are held.

    Args:
        reasons: of those jobs whose reason has changed, or that are held for the first time.
        now: the database's clock in the snapshot of the pass.
    """
    if not reasons:
        return Applied()
    stored = connection.execute(
        text(
            "UPDATE job SET pending_reason = v.reason, held_since ="
            " CASE WHEN v.held THEN coalesce(held_since, :now) ELSE held_since END"
            " FROM unnest(CAST(:jobs AS bigint[]), CAST(:reasons AS jsonb[]),"
            " CAST(:held AS boolean[])) AS v(job_id, reason, held)"
            " WHERE job.id = v.job_id AND job.status = 'pending'"
        ),
        {
            "now": now,
            "jobs": list(reasons),
            "reasons": [Json({"code": r.code, "data": dict(r.data)}) for r in reasons.values()],
            "held": [r.code not in WITHOUT_TURN for r in reasons.values()],
        },
    )
    return Applied(counts={"reason": stored.rowcount})


def strike_jobs(
    connection: Connection, strikes: Sequence[Strike], *, max_strikes: int, manager: Manager
) -> Applied:
    """Set aside pending jobs whose handling raised; end those that had too many tries."""
    hopeless = quarantine.strike(
        connection,
        {s.job_id: s.error for s in strikes},
        max_strikes=max_strikes,
        manager=str(manager),
    )
    return ended(connection, hopeless, {"strike": len(strikes)})


def ended(connection: Connection, jobs: Sequence[int], counts: Mapping[str, int]) -> Applied:
    """What follows from jobs that became final: their dependents and workflows are looked at."""
    if not jobs:
        return Applied(counts=counts)
    wakes = {Manager.TASK}
    if touch_workflows_of(connection, jobs):
        wakes.add(Manager.WORKFLOW)
    return Applied(Owed(wakes=frozenset(wakes)), counts, changed=True)
