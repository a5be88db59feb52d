"""Decides about each pending job: start, begin, block, hold, fail.

The order of questions about a job, each of which may settle it: its dependencies, a node that
takes jobs at all, its locks, room in its groups, the pass's start limit.
"""

from __future__ import annotations

from collections.abc import Sequence

from dispatcher.domain.status import Kind
from schedulers.core import blocking, placement
from schedulers.core.capacity import GroupAccount, Ledger
from schedulers.core.decision import Begin, Hold, Reason, Start, Strike, TaskDecision
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
    if job.kind is Kind.WORKFLOW:
        return Begin(job.id)
    if job.kind is Kind.APPROVAL:
        raise ValueError("an approval is decided by people, not by the TaskManager")
    groups = placement.groups_of(ledger, job)
    nowhere = placement.no_nodes(groups)
    if nowhere is not None:
        return Hold(job.id, nowhere)
    blocked = blocking.by_locks(ledger, job)
    if blocked is not None:
        _keep_turn(ledger, job, groups, room=False)
        return blocked
    choice = placement.choose(ledger, job, groups)
    if isinstance(choice, Reason):
        _keep_turn(ledger, job, groups, room=True)
        return Hold(job.id, choice)
    if start_limit and ledger.starts >= start_limit:
        ledger.stopped_early = True
        return Hold(job.id, Reason("start_limit", {"limit": start_limit}))
    ledger.start(job, choice.node_id, choice.group_id)
    return Start(job.id, choice.group_id, choice.node_id)


def _keep_turn(ledger: Ledger, job: PendingJob, groups: list[GroupAccount], *, room: bool) -> None:
    """A job that waited long is not overtaken any more, on its locks and, if it lacks it, room.

    Young jobs may be overtaken, so that nothing idles for a short wait; a job that cannot run
    anywhere as things are keeps nothing from others.
    """
    if not ledger.waited_long(job):
        return
    if not any(placement.could_ever_run(job, group) for group in groups):
        return
    blocking.claim_locks(ledger, job)
    if room:
        placement.reserve(ledger, job, groups)
