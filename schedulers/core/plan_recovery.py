"""Decides which nodes are silent, and what becomes of the jobs that they hold.

Two steps, two transactions: the states of nodes are planned and written first, each conditional
on the renewal counter that was observed; only then are the nodes' rows read and planned
(docs/protocols.md 3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from schedulers.core.decision import (
    FinishLost,
    NodeDecision,
    Reason,
    RecoveryDecision,
    Resubmit,
    Return,
    SetNodeState,
    Watch,
)
from schedulers.core.recovery_snapshot import (
    NodeObservation,
    Observations,
    RecoverySnapshot,
    WaitingRow,
)

#: Least seconds between two counted ticks of a node, by the database's clock.
TICK_SECONDS = 5.0
#: Silent heartbeats after which a node gets no more starts.
SUSPECT_HEARTBEATS = 3
#: Most repetitions of a submission.
MOST_RESUBMISSIONS = 3


def suspect_at(heartbeat: float) -> int:
    """Misses at which a node is suspect: three heartbeats of silence, counted in ticks."""
    return max(1, ceil(SUSPECT_HEARTBEATS * heartbeat / TICK_SECONDS))


def lost_at(node_lost_after: float) -> int:
    """Misses at which a node is lost.

    Two more than the time holds: one tick may be a step of the clock, and the first miss may be
    counted just after a renewal (docs/protocols.md 4.2).
    """
    return ceil(node_lost_after / TICK_SECONDS) + 2


def observe_nodes(seen: Observations) -> list[NodeDecision]:
    """Counts a tick for each node and says which states change.

    Misses are counted, ages are never subtracted: an outage of the database is no tick, and a
    step of its clock, in either direction, is one (docs/protocols.md 4.2).
    """
    decisions: list[NodeDecision] = []
    for node in sorted(seen.nodes, key=lambda node: node.node_id):
        decisions += _observe(node, seen)
    return decisions


def _observe(node: NodeObservation, seen: Observations) -> Sequence[NodeDecision]:
    if node.watched_seq is None or node.ticked_at is None:
        return (Watch(node.node_id, node.seq, 0),)
    if node.state == "lost":
        # what was counted must not weigh on the node when it comes back under another epoch
        return (Watch(node.node_id, node.seq, 0),) if node.missed else ()
    elapsed = (seen.now - node.ticked_at).total_seconds()
    if 0 <= elapsed < TICK_SECONDS:
        return ()
    missed = node.missed + 1 if node.seq == node.watched_seq else 0
    watch = Watch(node.node_id, node.seq, missed)
    state = _state_after(node, missed, seen)
    if state == node.state:
        return (watch,)
    return (watch, SetNodeState(node.node_id, state, node.seq))


def _state_after(node: NodeObservation, missed: int, seen: Observations) -> str:
    if missed >= lost_at(seen.node_lost_after) and (node.state != "left" or node.running_jobs):
        return "lost"
    if node.state == "left":
        return "left"
    if missed >= suspect_at(seen.heartbeat):
        return "suspect"
    return node.state if missed else "alive"


def plan_recovery(snapshot: RecoverySnapshot) -> list[RecoveryDecision]:
    """Decides about waiting and running rows, each at most once, in order of job id."""
    decisions: list[RecoveryDecision] = []
    for row in sorted(snapshot.waiting, key=lambda row: row.job_id):
        decision = _waiting(row, snapshot)
        if decision is not None:
            decisions.append(decision)
    decisions += (
        FinishLost(row.job_id, row.dispatch_id, row.node_name)
        for row in sorted(snapshot.running, key=lambda row: row.job_id)
        if row.node_state == "lost"
    )
    return decisions


def _waiting(row: WaitingRow, snapshot: RecoverySnapshot) -> RecoveryDecision | None:
    why = _why_returned(row, snapshot)
    if why is not None:
        reason = Reason("returned", {"node": row.node_name, "why": why})
        return Return(row.job_id, row.dispatch_id, reason)
    if row.queued_on_node or row.submissions > MOST_RESUBMISSIONS:
        return None
    gap = snapshot.submission_grace * 2 ** (row.submissions - 1)
    if (snapshot.now - row.submitted_at).total_seconds() < gap:
        return None
    return Resubmit(row.job_id, row.dispatch_id, row.node_name)


def _why_returned(row: WaitingRow, snapshot: RecoverySnapshot) -> str | None:
    if row.node_removed:
        return "removed"
    if row.node_state != "alive":
        return row.node_state
    waited = (snapshot.now - row.waiting_since).total_seconds()
    if waited > snapshot.waiting_limit and not row.queued_on_node:
        return "not_claimed"
    return None
