"""Decides which nodes are silent, and what becomes of the jobs that they hold.

Two steps, two transactions: the states of nodes are planned and written first, each conditional
on the renewal counter that was observed; only then are the nodes' rows read and planned
(docs/protocols.md 3.1). So a claim that slips in between is either seen here or refused there.

A false recovery must be impossible, not unlikely: a running job is only ever ended for a node
that was counted lost, which is later than the time at which that node has stopped its own
playbooks. Whatever concerns waiting jobs is safe at any moment: it is one conditional update of
one row, and the node's claim is another; one of them wins.
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
    return ceil(SUSPECT_HEARTBEATS * heartbeat / TICK_SECONDS)


def lost_at(node_lost_after: float) -> int:
    """Misses at which a node is lost: as many ticks as fill ``node_lost_after``, and two.

    One of the two because the first miss may be counted just after a renewal, the other because
    a tick may be a step of the clock and no time at all (docs/protocols.md 4.2).
    """
    return ceil(node_lost_after / TICK_SECONDS) + 2


def observe_nodes(seen: Observations) -> list[NodeDecision]:
    """Counts a tick for each node and says which states change, in order of node id.

    Misses are counted, ages are never subtracted: an outage of the database is no tick at all,
    a step of its clock, in either direction, is one (docs/protocols.md 4.2; by age, 511 to 856
    of 1,500 simulated outages ended in a false loss, by count none).

    - A tick is counted at most every :data:`TICK_SECONDS` by the database's clock: ``missed``
      becomes 0 if the lease's counter has moved since the last one, else one more.
    - A node seen for the first time is only remembered.
    - :func:`suspect_at` misses make an alive node suspect: no more starts, and its waiting rows
      are returned (3.7). A renewal makes it alive again.
    - :func:`lost_at` misses make it lost, for good: it comes back under a new epoch, and what
      was counted before is forgotten, so that it does not weigh on that.
    - A node that has left stays left; but one that left running jobs behind is counted, too:
      their supervisors end with the lease, and so do the rows.
    """
    decisions: list[NodeDecision] = []
    for node in sorted(seen.nodes, key=lambda node: node.node_id):
        decisions += _observe(node, seen)
    return decisions


def _observe(node: NodeObservation, seen: Observations) -> Sequence[NodeDecision]:
    if node.watched_seq is None or node.ticked_at is None:
        return (Watch(node.node_id, node.seq, 0),)
    if node.state == "lost":
        return (Watch(node.node_id, node.seq, 0),) if node.missed else ()
    elapsed = (seen.now - node.ticked_at).total_seconds()
    # a clock that was set back counts as a tick, or none would be counted until it caught up
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
    """Decides about waiting and running rows, each at most once, waiting ones first, by job id.

    Waiting rows, the first rule that applies:

    - Return it when its node was removed, is lost or suspect, or has left: it will not be claimed
      there soon, and another node may have room now (docs/protocols.md 3.7).
    - Return it when its node was disabled or is being drained: it claims nothing any more.
    - Return it when it has waited longer than ``waiting_limit``, unless its node has said that it
      is queued there for local room: nothing waits for ever, and a busy node is no lost one.
    - Resubmit it when its last submission is older than the submission grace: the message may
      have been lost, though the node's own poll usually came first. At most
      :data:`MOST_RESUBMISSIONS` times, each gap twice the one before (3.8). A row that is queued
      on its node has arrived; nothing is sent again.

    Running rows:

    - FinishLost when the node is lost: past fencing, so none of its playbooks runs.
    - Nothing else. A running row whose ``node_epoch`` is below the node's present epoch belongs
      to the agent: it has the run directories, compares them with its rows when it starts, after
      every reconnect and with each heartbeat, and adopts what still runs (3.3). Recovery cannot
      tell an adopted job from a dead one and must not try.
    """
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
    gap = snapshot.submission_grace * 2 ** max(0, row.submissions - 1)
    if (snapshot.now - row.submitted_at).total_seconds() < gap:
        return None
    return Resubmit(row.job_id, row.dispatch_id, row.node_name)


def _why_returned(row: WaitingRow, snapshot: RecoverySnapshot) -> str | None:
    if row.node_removed:
        return "removed"
    if row.node_state != "alive":
        return row.node_state
    if row.node_shut:
        return row.node_shut
    waited = (snapshot.now - row.waiting_since).total_seconds()
    if waited > snapshot.waiting_limit and not row.queued_on_node:
        return "not_claimed"
    return None
