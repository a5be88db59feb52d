"""Where a job may start now, or what it lacks; and the room that is kept for one that waits long."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop

from schedulers.core.capacity import GroupAccount, Ledger, NodeAccount, Reservation
from schedulers.core.decision import Reason
from schedulers.core.fairness import Place
from schedulers.core.holders import Holders
from schedulers.core.snapshot import PendingJob


@dataclass(frozen=True, slots=True)
class Choice:
    """The node a job goes to, and the group through which it goes."""

    node_id: int
    group_id: int


def groups_of(ledger: Ledger, job: PendingJob) -> list[GroupAccount]:
    """The job's preferred groups that still exist, in order."""
    return [ledger.groups[g] for g in job.preferred_groups if g in ledger.groups]


def no_nodes(groups: list[GroupAccount]) -> Reason | None:
    """The reason when none of the groups has a node that takes jobs; None: one has."""
    if any(group.takers for group in groups):
        return None
    names = [group.group.name for group in groups]
    alive = frozenset[int]().union(*(group.alive for group in groups))
    if alive:
        return Reason("all_drained", {"groups": names, "nodes": len(alive)})
    return Reason("no_nodes_online", {"groups": names})


def choose(ledger: Ledger, job: PendingJob, groups: list[GroupAccount]) -> Choice | Reason:
    """The first group whose limits and nodes allow the job, and the best of its nodes.

    Of several groups that refuse it, one that lacks room is reported rather than one at its
    limit, one at its limit rather than a paused one, and the first of equal ones.

    Raises:
        ValueError: no group has a node that takes jobs.
    """
    place = ledger.turns.place_of(job)
    at_limit: Reason | None = None
    paused: Reason | None = None
    without_room: GroupAccount | None = None
    for group in groups:
        if not group.takers:
            continue
        switched_off = ledger.pauses.of_group(group.group.id, group.group.name)
        if switched_off is not None:
            paused = paused or switched_off
            continue
        refused = _limit_refusing(group, job, place)
        if refused is not None:
            at_limit = at_limit or refused
            continue
        if job.task_impact not in group.lacking or not _comes_last(ledger, group, place):
            node = _best_node(ledger, group, job.task_impact, place)
            if node is not None:
                return Choice(node.id, group.group.id)
        without_room = without_room or group
    if without_room is not None:
        return _no_room(ledger, without_room, job.task_impact, place)
    refusal = at_limit or paused
    if refusal is None:
        raise ValueError("no group of the job has a node that takes jobs")
    return refusal


def could_ever_run(ledger: Ledger, job: PendingJob, group: GroupAccount) -> bool:
    """Whether the job fits the group once everything else has ended: any impact does, alone."""
    if group.group.id in ledger.pauses.groups:
        return False
    most = group.group.max_forks
    return bool(group.takers) and (most == 0 or job.forks <= most)


def reserve(
    ledger: Ledger, job: PendingJob, groups: list[GroupAccount], *, node: bool = True
) -> None:
    """Keeps room for a job that lacks it and has waited long.

    In the first group in which it could ever run its share of the limits counts as used, and if
    it is capacity that it lacks, one node gets no jobs that come later in the order (not without
    ``node``). One job at a time does so in a group, the first in order.
    """
    place = ledger.turns.place_of(job)
    group = next((group for group in groups if could_ever_run(ledger, job, group)), None)
    if group is None or group.reservation is not None:
        return
    if node and _limit_refusing(group, job, place) is None:
        to_keep = _node_to_keep(ledger, group, job.task_impact)
        if to_keep is not None:
            ledger.keep(to_keep.id, place)
    group.reservation = Reservation(place, job.forks)


def _limit_refusing(group: GroupAccount, job: PendingJob, place: Place) -> Reason | None:
    limits = group.group
    if not limits.max_concurrent_jobs and not limits.max_forks:
        return None
    kept = group.reservation
    if kept is not None and kept.place >= place:
        kept = None
    jobs, forks = (1, kept.forks) if kept is not None else (0, 0)
    for limit, allowed, used, needed, reserved in (
        ("max_concurrent_jobs", limits.max_concurrent_jobs, group.jobs, 1, jobs),
        ("max_forks", limits.max_forks, group.forks, job.forks, forks),
    ):
        if allowed and used + reserved + needed > allowed:
            data = {"limit": limit, "allowed": allowed, "used": used, "needed": needed}
            who = _holders(group.charged, None if kept is None else kept.place)
            return Reason("group_limit", {"group": limits.name, **data, **who})
    return None


def _best_node(
    ledger: Ledger, group: GroupAccount, impact: int, place: Place
) -> NodeAccount | None:
    """The node with the most remaining capacity after the job, ties by name.

    A job larger than every node goes alone to the largest idle one.
    """
    if impact > group.largest:
        return _largest_idle(ledger, group)
    fits = [node for node in _open(ledger, group, place) if node.remaining >= impact]
    return min(fits, key=NodeAccount.entry, default=None)


def _open(ledger: Ledger, group: GroupAccount, place: Place) -> list[NodeAccount]:
    """The nodes that may be best for the job at this place.

    They are the freest of those that anybody may use, and those that are kept for this job or
    for a later one.
    """
    freest = _freest(ledger, group)
    nodes = [] if freest is None else [freest]
    nodes += (
        node for node, kept_for in _kept(ledger, group) if kept_for >= place and not node.is_full
    )
    return nodes


def _kept(ledger: Ledger, group: GroupAccount) -> list[tuple[NodeAccount, Place]]:
    """The group's nodes that are kept for somebody, and for whom."""
    return [
        (ledger.nodes[node_id], kept_for)
        for node_id, kept_for in ledger.kept.items()
        if group.group.id in ledger.groups_of[node_id]
    ]


def _freest(ledger: Ledger, group: GroupAccount) -> NodeAccount | None:
    """The node with the most remaining capacity that may get one more job of anybody."""
    heap = group.heap
    while heap:
        node = ledger.nodes[heap[0][2]]
        if heap[0] == node.entry() and not node.is_full and node.id not in ledger.kept:
            return node
        heappop(heap)
    return None


def _largest_idle(ledger: Ledger, group: GroupAccount) -> NodeAccount | None:
    while group.idle:
        node = ledger.nodes[group.idle[-1]]
        if node.jobs == 0 and not node.is_full:
            return node
        group.idle.pop()
    return None


def _node_to_keep(ledger: Ledger, group: GroupAccount, impact: int) -> NodeAccount | None:
    """The largest node that is not kept yet, ties by name.

    Chosen by what does not change from pass to pass: so it is the same node in each, and it is
    free when the jobs that are on it now have ended. The job still takes any other node that has
    room sooner.
    """
    free = [ledger.nodes[n] for n in group.takers if n not in ledger.kept]
    if impact <= group.largest:
        free = [node for node in free if node.capacity >= impact]
    return max(free, key=lambda node: node.capacity, default=None)


def _comes_last(ledger: Ledger, group: GroupAccount, place: Place) -> bool:
    """Whether all nodes of the group that are kept for somebody are kept for jobs before this place."""
    return not ledger.kept or all(kept < place for _, kept in _kept(ledger, group))


def _no_room(ledger: Ledger, group: GroupAccount, impact: int, place: Place) -> Reason:
    """Why there is no room; a backlog that is full of jobs of one size is told once."""
    if not _comes_last(ledger, group, place):
        return _lack(ledger, group, impact, place)
    if impact not in group.lacking:
        group.lacking[impact] = _lack(ledger, group, impact, place)
    return group.lacking[impact]


def _lack(ledger: Ledger, group: GroupAccount, impact: int, place: Place) -> Reason:
    nodes = _open(ledger, group, place)
    ahead = [(node, kept_for) for node, kept_for in _kept(ledger, group) if kept_for < place]
    who = _holders(group.on_nodes, min((kept_for for _, kept_for in ahead), default=None))
    if not nodes and all(node.is_full for node, _ in ahead):
        return Reason("node_limit", {"group": group.group.name, "nodes": len(group.takers), **who})
    return Reason(
        "no_capacity",
        {
            "group": group.group.name,
            "needed": impact,
            "free": max([0, *(node.remaining for node in nodes)]),
            "largest": group.largest,
            **who,
        },
    )


def _holders(holders: Holders, ahead: Place | None) -> dict[str, object]:
    return holders.named(None if ahead is None else ahead[-1])
