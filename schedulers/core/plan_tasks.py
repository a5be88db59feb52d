"""Decides about each pending job: start, begin, block, hold, fail.

This first version scans; signatures are final.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from dispatcher.domain.outcome import Outcome
from dispatcher.domain.status import FINAL, Kind, Status
from schedulers.core.capacity import Ledger
from schedulers.core.decision import Begin, Block, Fail, Hold, Reason, Start, Strike, TaskDecision
from schedulers.core.fairness import in_order
from schedulers.core.snapshot import PendingJob

__all__ = ["Ledger", "plan_window"]


def plan_window(
    ledger: Ledger, pending: Sequence[PendingJob], start_limit: int = 0
) -> tuple[list[TaskDecision], Ledger]:
    """Decides about each job of one window exactly once.

    Args:
        ledger: what the windows before this one have left; it is not changed.
        pending: the window's jobs in any order; jobs of an earlier window may be among them.
        start_limit: most starts in the whole pass (``ledger.starts`` counts them); 0: no limit.

    Returns:
        The decisions in the order in which they were made, and the ledger for the next window.
    """
    ledger = ledger.copy()
    decisions: list[TaskDecision] = []
    for job in in_order(pending):
        try:
            decisions.append(_decide(ledger, job, start_limit))
        except Exception as error:
            decisions.append(Strike(job.id, f"{type(error).__name__}: {error}"))
    return decisions, ledger


def _decide(ledger: Ledger, job: PendingJob, start_limit: int) -> TaskDecision:
    for dependency in job.dependencies:
        if dependency.status in FINAL and dependency.status is not Status.SUCCESSFUL:
            word = "Canceled" if dependency.status is Status.CANCELED else "Failed"
            about = {"job_type": dependency.kind, "job_name": "", "job_id": str(dependency.job_id)}
            return Fail(job.id, Outcome.DEPENDENCY, f"Previous Task {word}: {json.dumps(about)}")
    for dependency in job.dependencies:
        if dependency.status not in FINAL:
            return Block(job.id, Reason("dependency", {"jobs": [dependency.job_id]}))
    if job.kind is Kind.WORKFLOW:
        return Begin(job.id)
    for active in ledger.active:
        if job.kind is Kind.CLEANUP and active.kind is Kind.CLEANUP:
            return Block(job.id, Reason("exclusive_kind", {"jobs": [active.id]}))
        modes = {job.host_lock, active.host_lock}
        overlap = set(job.lock_keys) & set(active.lock_keys)
        if overlap and "exclusive" in modes and "none" not in modes:
            return Block(job.id, Reason("host_lock", {"jobs": [active.id]}))
    groups = {group.id: group for group in ledger.world.groups}
    nodes = {node.id: node for node in ledger.world.nodes}
    for group_id in job.preferred_groups:
        fits = sorted(
            (-ledger.remaining(node.id), node.name, node.id)
            for node in (nodes[i] for i in groups[group_id].node_ids if i in nodes)
            if node.takes_jobs
            and ledger.remaining(node.id) >= job.task_impact
            and ledger.jobs_on(node.id) < node.max_jobs
        )
        if not fits:
            continue
        if start_limit and ledger.starts >= start_limit:
            ledger.stopped_early = True
            return Hold(job.id, Reason("start_limit", {"limit": start_limit}))
        ledger.charge(job, fits[0][2], group_id)
        ledger.starts += 1
        return Start(job.id, group_id, fits[0][2])
    names = sorted(groups[g].name for g in job.preferred_groups)
    return Hold(job.id, Reason("no_capacity", {"group": names[0], "needed": job.task_impact}))
