"""A cluster played forward on the planners that a live one uses: who starts when, and where.

Events (arrivals, ends) are taken together once a period, as passes do. A pass looks at the first
``depth`` waiting jobs of all tenants and goes on behind them only while most of those start: beyond
them a simulation of a full cluster would decide about the whole backlog each second, in vain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

from schedulers.core.decision import Begin, Fail, Start, Strike
from schedulers.core.fairness import own_order
from schedulers.core.plan_tasks import Ledger, plan_window
from schedulers.core.played_ledger import PlayedLedger
from schedulers.core.snapshot import ActiveJob, PendingJob, World


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job that comes ``at`` seconds since 1970 and runs for ``duration`` seconds.

    Its ``held_since`` is not written by the simulation: a job that comes new has ``at``, as the pass
    that follows would write about then.
    """

    job: PendingJob
    at: float
    duration: float


@dataclass(frozen=True, slots=True)
class Started:
    """A job has started; ``group_id`` is None for a workflow job."""

    job: PendingJob
    at: float
    waited: float
    duration: float
    group_id: int | None
    node_id: int | None


def simulate(
    world: World,
    arrivals: Iterable[Arrival],
    *,
    ends: Mapping[int, float] | None = None,
    period: float = 1.0,
    depth: int = 500,
    ledger: type[PlayedLedger] = PlayedLedger,
) -> Iterator[Started]:
    """Each start, in order of time, until nothing can start any more.

    Args:
        arrivals: in order of time; read as the clock reaches them, so memory holds what waits and
            runs, not the trace.
        ends: when the world's active jobs end, by id; those that are not named never do.
        period: seconds between passes, in which something has happened.
        depth: jobs that a pass looks at.
        ledger: how the ledger of a pass follows from the one before.
    """
    return _Simulation(ledger(world), world, iter(arrivals), ends or {}, period, depth).run()


class _Simulation:
    def __init__(
        self,
        played: PlayedLedger,
        world: World,
        arrivals: Iterator[Arrival],
        ends: Mapping[int, float],
        period: float,
        depth: int,
    ) -> None:
        self._arrivals = arrivals
        self._next = next(arrivals, None)
        self._period = period
        self._depth = depth
        self._origin = self._now = world.now.timestamp()
        self._played = played
        self._ends = [(end, job_id) for job_id, end in ends.items() if job_id in self._played]
        heapify(self._ends)
        self._waiting: dict[int, list[PendingJob]] = {}
        self._known: dict[int, Arrival] = {}

    def run(self) -> Iterator[Started]:
        while True:
            self._take()
            yield from self._pass()
            following = self._following()
            if following is None:
                return
            self._now = following

    def _following(self) -> float | None:
        """The first pass after the next event; None: nothing will happen any more."""
        events = [self._ends[0][0]] if self._ends else []
        if self._next is not None:
            events.append(self._next.at)
        if not events:
            return None
        passed = math.ceil((min(events) - self._origin) / self._period)
        return max(self._origin + passed * self._period, self._now + self._period)

    def _take(self) -> None:
        """What has come until now."""
        changed = set()
        while self._next is not None and self._next.at <= self._now:
            job = self._next.job
            self._known[job.id] = self._next
            self._waiting.setdefault(job.organization_id, []).append(job)
            changed.add(job.organization_id)
            self._next = next(self._arrivals, None)
        for tenant in changed:
            self._waiting[tenant].sort(key=own_order)

    def _pass(self) -> Iterator[Started]:
        ended = []
        while self._ends and self._ends[0][0] <= self._now:
            ended.append(heappop(self._ends)[1])
        ledger = self._played.begin_pass(self._now, ended)
        yield from self._windows(ledger)

    def _windows(self, ledger: Ledger) -> Iterator[Started]:
        behind: dict[int, int] = {}
        while True:
            present = [t for t, jobs in self._waiting.items() if len(jobs) > behind.get(t, 0)]
            share = -(-self._depth // max(1, len(present)))
            window = [
                job
                for tenant in present
                for job in self._waiting[tenant][behind.get(tenant, 0) :][:share]
            ]
            if not window:
                return
            decisions, ledger = plan_window(ledger, window)
            self._played.end_pass(ledger)
            by_id = {job.id: job for job in window}
            gone = {d.job_id for d in decisions if isinstance(d, Start | Begin | Fail | Strike)}
            for decision in decisions:
                if isinstance(decision, Start | Begin):
                    yield self._start(by_id[decision.job_id], decision)
            for tenant in present:
                self._drop(tenant, behind, share, gone)
            if 2 * len(gone) < len(window):
                return

    def _drop(self, tenant: int, behind: dict[int, int], share: int, gone: set[int]) -> None:
        first = behind.get(tenant, 0)
        jobs = self._waiting[tenant]
        kept = [job for job in jobs[first : first + share] if job.id not in gone]
        jobs[first : first + share] = kept
        behind[tenant] = first + len(kept)
        for job_id in gone:
            self._known.pop(job_id, None)
        if not jobs:
            del self._waiting[tenant]

    def _start(self, job: PendingJob, decision: Start | Begin) -> Started:
        arrival = self._known[job.id]
        group = decision.instance_group_id if isinstance(decision, Start) else None
        node = decision.node_id if isinstance(decision, Start) else None
        self._played.add(running(job, group, node))
        heappush(self._ends, (self._now + arrival.duration, job.id))
        return Started(job, self._now, self._now - arrival.at, arrival.duration, group, node)


def running(job: PendingJob, group_id: int | None, node_id: int | None) -> ActiveJob:
    """The job as it is once it has started."""
    return ActiveJob(
        id=job.id,
        kind=job.kind,
        organization_id=job.organization_id,
        node_id=node_id,
        instance_group_id=group_id,
        task_impact=job.task_impact,
        forks=job.forks,
        host_lock=job.host_lock,
        lock_keys=job.lock_keys,
        created=job.created,
        job_template_id=job.job_template_id,
        workflow_job_template_id=job.workflow_job_template_id,
        project_id=job.project_id,
        inventory_id=job.inventory_id,
        inventory_source_id=job.inventory_source_id,
        allow_simultaneous=job.allow_simultaneous,
    )


@dataclass(slots=True)
class Waits:
    """How long jobs have waited: counts in steps of 5 percent, so that millions take no room."""

    counts: dict[int, int] = field(default_factory=dict)
    total: int = 0
    longest: float = 0.0

    def add(self, seconds: float) -> None:
        """One more job."""
        step = 0 if seconds < FINEST else 1 + int(math.log(seconds / FINEST) / STEP)
        self.counts[step] = self.counts.get(step, 0) + 1
        self.total += 1
        self.longest = max(self.longest, seconds)

    def quantile(self, part: float) -> float:
        """Seconds that this part of the jobs has waited at most, too high by up to 5 percent."""
        seen = 0
        for step in sorted(self.counts):
            seen += self.counts[step]
            if seen >= part * self.total:
                return min(self.longest, FINEST * math.exp(STEP * step)) if step else 0.0
        return self.longest


#: Seconds below which a wait counts as none; the logarithm of a step.
FINEST = 0.1
STEP = math.log(1.05)


@dataclass(slots=True)
class Report:
    """What a simulation has shown.

    Attributes:
        used: impact times seconds.
        ended: when the last job that has started ends.
    """

    began: float
    capacity: int
    ended: float = 0.0
    used: float = 0.0
    tenants: dict[int, Waits] = field(default_factory=dict)
    groups: dict[int, Waits] = field(default_factory=dict)

    def add(self, started: Started) -> None:
        """One more start."""
        self.used += started.job.task_impact * started.duration
        self.ended = max(self.ended, started.at + started.duration)
        self.tenants.setdefault(started.job.organization_id, Waits()).add(started.waited)
        if started.group_id is not None:
            self.groups.setdefault(started.group_id, Waits()).add(started.waited)

    @property
    def utilization(self) -> float:
        """The part of the cluster's capacity that was in use, from the beginning to the end."""
        room = self.capacity * (self.ended - self.began)
        return self.used / room if room > 0 else 0.0


def report(world: World, starts: Iterable[Started]) -> Report:
    """Waits of tenants and groups, and utilization."""
    capacity = sum(node.capacity for node in world.nodes if node.takes_jobs)
    made = Report(world.now.timestamp(), capacity)
    for started in starts:
        made.add(started)
    return made


def with_more_nodes(world: World, count: int) -> World:
    """The world with so many more nodes like its largest, in the same groups."""
    if count < 1:
        return world
    model = min(world.nodes, key=lambda node: (-node.capacity, node.name))
    first = max(node.id for node in world.nodes) + 1
    ids = tuple(range(first, first + count))
    more = tuple(replace(model, id=i, name=f"{model.name}+{i - first + 1}") for i in ids)
    groups = tuple(
        replace(group, node_ids=(*group.node_ids, *ids)) if model.id in group.node_ids else group
        for group in world.groups
    )
    return replace(world, nodes=(*world.nodes, *more), groups=groups)


def with_node_count(world: World, count: int | None) -> World:
    """The world with so many nodes: the first of its own by name, or more like its largest."""
    if count is None or count == len(world.nodes):
        return world
    if count > len(world.nodes):
        return with_more_nodes(world, count - len(world.nodes))
    kept = tuple(sorted(world.nodes, key=lambda node: node.name)[:count])
    ids = {node.id for node in kept}
    groups = tuple(
        replace(group, node_ids=tuple(n for n in group.node_ids if n in ids))
        for group in world.groups
    )
    return replace(world, nodes=kept, groups=groups)
