"""The ledger: what nodes, groups and locks have left, carried through a pass window by window.

Nothing ends inside a pass, so room only shrinks: what was found full stays full, and entries of a
heap that are out of date are dropped when they are met.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappush

from schedulers.core.decision import Reason
from schedulers.core.exclusions import Exclusions
from schedulers.core.fairness import Place, Turns
from schedulers.core.holders import Holders
from schedulers.core.limits import Limits, Pauses
from schedulers.core.locks import LockTable
from schedulers.core.snapshot import ActiveJob, Group, Node, PendingJob, World

Entry = tuple[int, str, int]


@dataclass(slots=True)
class NodeAccount:
    """What a node has left.

    Attributes:
        remaining: capacity less the impact of its jobs; negative under an oversized job.
        jobs: jobs that wait or run on it.
    """

    id: int
    name: str
    capacity: int
    max_jobs: int
    remaining: int
    jobs: int = 0

    @property
    def is_full(self) -> bool:
        """Whether it holds as many jobs as it may, whatever their impact."""
        return self.jobs >= self.max_jobs

    def entry(self) -> Entry:
        """Its entry in the heaps of its groups: most remaining first, ties by name."""
        return (-self.remaining, self.name, self.id)

    def copy(self) -> NodeAccount:
        """An independent copy; written out, because each window copies every node."""
        return NodeAccount(
            self.id, self.name, self.capacity, self.max_jobs, self.remaining, self.jobs
        )


@dataclass(frozen=True, slots=True)
class Reservation:
    """The share of a group's limits that is kept for the waiting job at this place."""

    place: Place
    forks: int


@dataclass(slots=True)
class GroupAccount:
    """What an instance group has left.

    Attributes:
        takers: its nodes that take jobs, by name.
        alive: ids of its nodes that are alive, taking jobs or not.
        largest: the largest capacity among the takers.
        heap: entries of takers; those that no longer agree with their node are void.
        idle: takers, the largest last (of equal ones the first by name last); busy ones are void.
        jobs, forks: what is charged to the group's limits.
        on_nodes: who holds capacity of its nodes, through whichever group.
        charged: who is charged to its limits.
        reservation: for the first job in order that waited too long for room in this group.
        lacking: why a job of so much impact has no room here, if all nodes that are kept are kept
            for jobs before it; until something changes.
    """

    group: Group
    takers: tuple[int, ...]
    alive: frozenset[int]
    largest: int
    heap: list[Entry]
    idle: list[int]
    jobs: int = 0
    forks: int = 0
    on_nodes: Holders = field(default_factory=Holders)
    charged: Holders = field(default_factory=Holders)
    reservation: Reservation | None = None
    lacking: dict[int, Reason] = field(default_factory=dict)

    def copy(self) -> GroupAccount:
        """An independent copy."""
        return replace(
            self,
            heap=self.heap.copy(),
            idle=self.idle.copy(),
            on_nodes=self.on_nodes.copy(),
            charged=self.charged.copy(),
            lacking=self.lacking.copy(),
        )


@dataclass(slots=True)
class Ledger:
    """Everything that a decision about a pending job depends on and changes.

    Attributes:
        now: the database's clock, seconds since 1970.
        reserve_after: seconds after which a job that is kept waiting is not overtaken any more.
        nodes, groups: accounts by id; nodes that take no jobs have none.
        groups_of: ids of the groups of each node.
        hosts: the host locks.
        exclusions: what jobs hold that do not run beside each other.
        limits: of tenants and templates.
        pauses: what is switched off.
        turns: what tenants have in use, and who is not overtaken any more.
        kept: nodes that get no job which comes later in the order than this place.
        starts: starts decided in this pass.
        stopped_early: a job that could start was held because of the pass's start limit; the
            pass asks for another.
    """

    now: float
    reserve_after: float
    nodes: dict[int, NodeAccount]
    groups: dict[int, GroupAccount]
    groups_of: dict[int, tuple[int, ...]]
    hosts: LockTable = field(default_factory=LockTable)
    exclusions: Exclusions = field(default_factory=Exclusions)
    limits: Limits = field(default_factory=Limits)
    pauses: Pauses = field(default_factory=Pauses)
    turns: Turns = field(default_factory=Turns)
    kept: dict[int, Place] = field(default_factory=dict)
    starts: int = 0
    stopped_early: bool = False

    @classmethod
    def of(cls, world: World) -> Ledger:
        """The ledger at the beginning of a pass: the nodes' capacity less every active job."""
        takers = {node.id: node for node in world.nodes if node.takes_jobs and node.capacity > 0}
        alive = {node.id for node in world.nodes if node.state == "alive"}
        ledger = cls(
            now=world.now.timestamp(),
            reserve_after=world.reserve_after,
            nodes={node.id: _node_account(node) for node in takers.values()},
            groups={group.id: _group_account(group, takers, alive) for group in world.groups},
            groups_of=_groups_of(world.groups),
            turns=Turns.of(world),
            limits=Limits.of(world),
            pauses=Pauses.of(world),
        )
        for job in world.active:
            ledger._charge(job, job.node_id, job.instance_group_id)
        for ended in world.cooling:
            if ended.until > ledger.now:
                ledger.hosts.cool(ended.id, ended.lock_keys)
        for account in ledger.groups.values():
            account.heap = sorted(ledger.nodes[node_id].entry() for node_id in account.takers)
        return ledger

    def copy(self) -> Ledger:
        """An independent ledger with the same entries."""
        return replace(
            self,
            nodes={node_id: account.copy() for node_id, account in self.nodes.items()},
            groups={group_id: account.copy() for group_id, account in self.groups.items()},
            hosts=self.hosts.copy(),
            exclusions=self.exclusions.copy(),
            limits=self.limits.copy(),
            turns=self.turns.copy(),
            kept=self.kept.copy(),
        )

    def waited_long(self, job: PendingJob) -> bool:
        """Whether the job is no longer to be overtaken: it has been kept waiting for long."""
        return job.held_since is not None and self.now - job.held_since >= self.reserve_after

    def start(self, job: PendingJob, node_id: int, group_id: int) -> None:
        """Enters a start: the node's room, the group's limits, the job's locks."""
        self.starts += 1
        self._charge(job, node_id, group_id)
        entry = self.nodes[node_id].entry()
        for member_of in self.groups_of[node_id]:
            heappush(self.groups[member_of].heap, entry)

    def keep(self, node_id: int, place: Place) -> None:
        """The node gets no job that comes later than this place."""
        self.kept[node_id] = place
        for member_of in self.groups_of[node_id]:
            self.groups[member_of].lacking.clear()

    def begin(self, job: PendingJob) -> None:
        """Enters a workflow job: it takes no room."""
        self.exclusions.hold(job)

    def _charge(
        self, job: ActiveJob | PendingJob, node_id: int | None, group_id: int | None
    ) -> None:
        node = None if node_id is None else self.nodes.get(node_id)
        if node is not None:
            node.remaining -= job.task_impact
            node.jobs += 1
            for member_of in self.groups_of.get(node.id, ()):
                account = self.groups[member_of]
                account.on_nodes.add(job.id, job.task_impact)
                if account.lacking:
                    account.lacking.clear()
        group = None if group_id is None else self.groups.get(group_id)
        if group is not None:
            group.jobs += 1
            group.forks += job.forks
            group.charged.add(job.id, job.forks)
        self.turns.charge(job, job.task_impact)
        self.hosts.hold(job.id, job.host_lock, job.lock_keys)
        self.exclusions.hold(job)
        self.limits.charge(job)


def _node_account(node: Node) -> NodeAccount:
    return NodeAccount(node.id, node.name, node.capacity, node.max_jobs, node.capacity)


def _group_account(group: Group, takers: Mapping[int, Node], alive: set[int]) -> GroupAccount:
    members = set(group.node_ids)
    by_name = sorted((takers[n] for n in members if n in takers), key=lambda node: node.name)
    largest_first = sorted(by_name, key=lambda node: node.capacity, reverse=True)
    return GroupAccount(
        group=group,
        takers=tuple(node.id for node in by_name),
        alive=frozenset(members & alive),
        largest=max((node.capacity for node in by_name), default=0),
        heap=[],
        idle=[node.id for node in reversed(largest_first)],
    )


def _groups_of(groups: Iterable[Group]) -> dict[int, tuple[int, ...]]:
    groups_of: dict[int, list[int]] = defaultdict(list)
    for group in groups:
        for node_id in set(group.node_ids):
            groups_of[node_id].append(group.id)
    return {node_id: tuple(ids) for node_id, ids in groups_of.items()}
