"""Decides about each pending job: start, begin, block, hold, fail.

The order of questions about a job, each of which may settle it: its dependencies, a pause, a node that
takes jobs at all, jobs it must not run beside, limits, room in its groups, the start limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from dispatcher.domain.status import Kind
from schedulers.core import blocking, placement
from schedulers.core.capacity import GroupAccount, Ledger
from schedulers.core.decision import Begin, Block, Hold, Reason, Start, Strike, TaskDecision
from schedulers.core.snapshot import PendingJob

__all__ = ["Ledger", "plan_window"]


def plan_window(
    ledger: Ledger, pending: Sequence[PendingJob], start_limit: int = 0
) -> tuple[list[TaskDecision], Ledger]:
    """Decides about each job of one window exactly once.

    Args:
        ledger: what the windows before this one have left; it is not changed.
        pending: the window's jobs in any order; jobs that an earlier window left pending may be
            among them (the head of the backlog is looked at again between windows).
        start_limit: most starts in the whole pass (``ledger.starts`` counts them); 0: no limit.

    Returns:
        The decisions in the order in which they were made, and the ledger for the next window.
    """
    ledger = ledger.copy()
    decisions: list[TaskDecision] = []
    for job in ledger.turns.in_turn(pending):
        try:
            decisions.append(_decide(ledger, job, start_limit))
        except Exception as error:
            # Whatever it is, it must not keep the other jobs from starting (AWX issue 14729).
            # The ledger is entered last, so nothing of this job is in it.
            decisions.append(Strike(job.id, f"{type(error).__name__}: {error}"))
    return decisions, ledger


def _decide(ledger: Ledger, job: PendingJob, start_limit: int) -> TaskDecision:
    settled = blocking.by_dependencies(job)
    if settled is not None:
        return settled
    paused = ledger.pauses.of_job(job)
    if paused is not None:
        return Hold(job.id, paused)
    if job.kind is Kind.WORKFLOW:
        return _begin(ledger, job)
    if job.kind is Kind.APPROVAL:
        raise ValueError("an approval is decided by people, not by the TaskManager")
    groups = placement.groups_of(ledger, job)
    nowhere = placement.no_nodes(groups)
    if nowhere is not None:
        return Hold(job.id, nowhere)
    blocked = next(blocking.by_jobs(ledger, job), None)
    if blocked is not None:
        _keep_turn(ledger, job, groups, lacks="jobs to end")
        return Block(job.id, blocked)
    limited = next(ledger.limits.refusals(ledger.turns.place_of(job), job), None)
    if limited is not None:
        _keep_turn(ledger, job, groups, lacks="limits")
        return Hold(job.id, limited)
    choice = placement.choose(ledger, job, groups)
    if isinstance(choice, Reason):
        _keep_turn(ledger, job, groups, lacks="room")
        return Hold(job.id, choice)
    if start_limit and ledger.starts >= start_limit:
        ledger.stopped_early = True
        return Hold(job.id, Reason("start_limit", {"limit": start_limit}))
    ledger.start(job, choice.node_id, choice.group_id)
    return Start(job.id, choice.group_id, choice.node_id)


def _begin(ledger: Ledger, job: PendingJob) -> TaskDecision:
    blocked = next(blocking.by_exclusions(ledger, job), None)
    if blocked is not None:
        return Block(job.id, blocked)
    ledger.begin(job)
    return Begin(job.id)


def _keep_turn(
    ledger: Ledger,
    job: PendingJob,
    groups: list[GroupAccount],
    *,
    lacks: Literal["jobs to end", "limits", "room"],
) -> None:
    """A job that waited long is not overtaken any more, on what it waits for and limits and room.

    Young jobs may be overtaken, so that nothing idles for a short wait; a job that cannot run
    anywhere as things are keeps nothing from others.
    """
    if not ledger.waited_long(job):
        return
    if not any(placement.could_ever_run(ledger, job, group) for group in groups):
        return
    blocking.claim(ledger, job)
    if lacks != "jobs to end":
        ledger.limits.keep(ledger.turns.place_of(job), job)
        placement.reserve(ledger, job, groups, node=lacks == "room")
