"""Why a job is pending: everything that keeps it from starting, its position, its expected start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice

from dispatcher.domain.status import Kind
from schedulers.core import blocking, placement
from schedulers.core.capacity import Ledger
from schedulers.core.decision import Block, Fail, Hold, Reason
from schedulers.core.plan_tasks import plan_window
from schedulers.core.reasons import words
from schedulers.core.simulate import Arrival, simulate
from schedulers.core.snapshot import ActiveJob, PendingJob, World

#: Most starts that are played forward for a forecast.
FORESEEN = 2_000


@dataclass(frozen=True, slots=True)
class Blocker:
    """One thing that keeps the job from starting now."""

    code: str
    data: Mapping[str, object]
    words: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job is pending.

    Attributes:
        position: 1 for the job that is next of those that stay pending.
        blockers: in the order of the planner's questions; none: the next pass starts it.
        expected_start: None when it cannot be told: it waits for something that has no known end.
    """

    position: int
    blockers: tuple[Blocker, ...]
    expected_start: datetime | None


@dataclass(frozen=True, slots=True)
class RunTimes:
    """Seconds that jobs have run lately, by template and by kind, and what else is assumed.

    Attributes:
        started: when active jobs have started, seconds since 1970; others start now.
    """

    templates: Mapping[int, float] = field(default_factory=dict)
    kinds: Mapping[Kind, float] = field(default_factory=dict)
    otherwise: float = 60.0
    started: Mapping[int, float] = field(default_factory=dict)

    def of(self, job: ActiveJob | PendingJob) -> float:
        """Seconds that a job is expected to run."""
        by_kind = self.kinds.get(job.kind, self.otherwise)
        template = job.job_template_id
        return by_kind if template is None else self.templates.get(template, by_kind)

    def end_of(self, job: ActiveJob, now: float) -> float:
        """When an active job is expected to end; one that is late: after a tenth of its time more."""
        expected = self.of(job)
        return max(self.started.get(job.id, now) + expected, now + expected / 10)


def explain(
    world: World, head: Sequence[PendingJob], job: PendingJob, times: RunTimes
) -> Explanation:
    """Explain a pending job.

    Args:
        head: the first jobs of every tenant, as a pass reads them; with or without the job.
    """
    pending = [other for other in head if other.id != job.id]
    by_id = {other.id: other for other in pending}
    decisions, _ = plan_window(Ledger.of(world), [*pending, job])
    turn = next(n for n, decision in enumerate(decisions) if decision.job_id == job.id)
    before = decisions[:turn]
    _, ledger = plan_window(Ledger.of(world), [by_id[d.job_id] for d in before])
    blockers = tuple(
        Blocker(reason.code, reason.data, words(reason.code, reason.data))
        for reason in _reasons(ledger, job)
    )
    return Explanation(
        position=1 + sum(isinstance(d, Block | Hold) for d in before),
        blockers=blockers,
        expected_start=_expected(world, [*pending, job], job, times) if blockers else world.now,
    )


def _reasons(ledger: Ledger, job: PendingJob) -> Iterator[Reason]:
    """The answer to every question of the planner that keeps the job from starting."""
    settled = blocking.by_dependencies(job)
    if isinstance(settled, Block):
        yield settled.reason
    elif isinstance(settled, Fail):
        return
    paused = ledger.pauses.of_job(job)
    if paused is not None:
        yield paused
    if job.kind in (Kind.WORKFLOW, Kind.APPROVAL):
        yield from blocking.by_exclusions(ledger, job)
        return
    groups = placement.groups_of(ledger, job)
    nowhere = placement.no_nodes(groups)
    if nowhere is not None:
        yield nowhere
    yield from blocking.by_jobs(ledger, job)
    yield from ledger.limits.refusals(ledger.turns.place_of(job), job)
    chosen = [placement.choose(ledger, job, [group]) for group in groups if group.takers]
    if all(isinstance(one, Reason) for one in chosen):
        yield from (one for one in chosen if isinstance(one, Reason))


def _expected(
    world: World, pending: Sequence[PendingJob], job: PendingJob, times: RunTimes
) -> datetime | None:
    """Play the cluster forward until the job starts."""
    now = world.now.timestamp()
    arrivals = [
        Arrival(other._replace(held_since=other.held_since or now), now, times.of(other))
        for other in pending
    ]
    ends = {active.id: times.end_of(active, now) for active in world.active}
    starts = simulate(world, arrivals, ends=ends, depth=max(1, len(pending)))
    at = next((s.at for s in islice(starts, FORESEEN) if s.job.id == job.id), None)
    return None if at is None else datetime.fromtimestamp(at, UTC)
