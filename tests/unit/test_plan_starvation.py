"""No job waits for ever while jobs finish: a simulation of passes, one every five seconds.

The bound, for jobs that run at most ``LONGEST`` seconds: a job that ``k`` others come before in
the order, when it has waited ``RESERVE_AFTER``, starts within ``3 * (k + 1) * LONGEST`` from
then on. Three, because the first in order gets its locks when their holders have ended, then its
share of the group's limits, then its node; each of them is kept for it once it is its turn.
Its turn comes when its tenant has nothing more in use that was created before it or in the same
minute, so with several tenants those of its own that were created in its minute count as well.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.domain.status import Kind
from schedulers.core.decision import Start
from schedulers.core.plan_tasks import Ledger, plan_window
from schedulers.core.snapshot import ActiveJob, PendingJob, World
from tests.unit.worlds import NOW, active, group, node, pending, world

STEP = 5
LONGEST = 50
RESERVE_AFTER = 60.0


def simulate(
    cluster: World,
    arrivals: dict[int, list[PendingJob]],
    lengths: dict[int, int],
    until: int,
    last: int = 0,
) -> dict[int, int]:
    """Job id → second of its start, until job ``last`` has started.

    ``arrivals`` are by second; their ranks are set to it, and each is held from then on.
    """
    waiting: dict[int, PendingJob] = {}
    running: dict[int, tuple[int, ActiveJob]] = {}
    started: dict[int, int] = {}
    for second in range(0, until, STEP):
        if last in started:
            break
        now = NOW + timedelta(seconds=second)
        running = {id: (end, job) for id, (end, job) in running.items() if end > second}
        for job in arrivals.get(second, ()):
            at = now.timestamp()
            waiting[job.id] = job._replace(rank=at, created=at, held_since=at)
        held = (*cluster.active, *(job for _, job in running.values()))
        decisions, _ = plan_window(
            Ledger.of(replace(cluster, now=now, active=held)), list(waiting.values())
        )
        for start in (d for d in decisions if isinstance(d, Start)):
            job = waiting.pop(start.job_id)
            started[job.id] = second
            running[job.id] = (second + lengths[job.id], _running(job, start))
    return started


def _running(job: PendingJob, start: Start) -> ActiveJob:
    return active(
        job.id,
        start.node_id,
        job.task_impact,
        start.instance_group_id,
        kind=job.kind,
        forks=job.forks,
        host_lock=job.host_lock,
        lock_keys=job.lock_keys,
        organization_id=job.organization_id,
        created=job.created,
    )


def check(id, *hosts):
    return pending(id, 1, host_lock="shared", lock_keys=hosts)


CLUSTER = world([node(1, 10), node(2, 10)])
#: The job that could starve, the stream that comes every five seconds, the cluster.
STREAMS = {
    "large among other tenants' jobs": (
        pending(1, 8),
        lambda id: pending(id, 2, organization_id=id % 3 + 1),
        CLUSTER,
    ),
    "large": (pending(1, 8), lambda id: pending(id, 2), CLUSTER),
    "oversized": (pending(1, 30), lambda id: pending(id, 2), CLUSTER),
    "exclusive": (
        pending(1, 1, host_lock="exclusive", lock_keys=("a", "b")),
        lambda id: check(id, "ab"[id % 2]),
        CLUSTER,
    ),
    "large and exclusive": (
        pending(1, 8, host_lock="exclusive", lock_keys=("a",)),
        lambda id: check(id, "a") if id % 2 else pending(id, 3),
        CLUSTER,
    ),
    "many forks": (
        pending(1, 1, forks=20),
        lambda id: pending(id, 1, forks=4),
        world(CLUSTER.nodes, [group(1, [1, 2], max_forks=20)]),
    ),
    "many forks and large": (
        pending(1, 8, forks=20),
        lambda id: pending(id, 3, [1 + id % 2], forks=4),
        world(CLUSTER.nodes, [group(1, [1, 2], max_forks=20), group(2, [1, 2])]),
    ),
    "large in a group with a job limit": (
        pending(1, 8),
        lambda id: pending(id, 2, [1 + (id % 4 > 0)]),
        world(CLUSTER.nodes, [group(1, [1, 2], max_jobs=1), group(2, [1, 2])]),
    ),
    "large cleanup": (
        pending(1, 8, kind=Kind.CLEANUP),
        lambda id: pending(id, 3, kind=Kind.CLEANUP if id % 2 else Kind.PLAYBOOK),
        CLUSTER,
    ),
    "large cleanup with room": (
        pending(1, 8, kind=Kind.CLEANUP),
        lambda id: pending(id, 1, kind=Kind.CLEANUP),
        CLUSTER,
    ),
}


def _stream(name: str, reserve_after: float) -> int | None:
    """When the job starts that comes ten seconds after its stream; None: not in 450 s."""
    job, others, cluster = STREAMS[name]
    ids = count(2)
    arrivals = {second: [others(next(ids)) for _ in "ab"] for second in range(0, 450, STEP)}
    arrivals[0] += [others(next(ids)) for _ in range(6)]
    arrivals[10].append(job)
    lengths = {id: LONGEST - 10 * (id % 3) for id in range(1, next(ids))}
    cluster = replace(cluster, reserve_after=reserve_after)
    return simulate(cluster, arrivals, lengths, 450, last=1).get(1)


@pytest.mark.parametrize("name", [name for name in STREAMS if name != "large cleanup with room"])
def test_a_stream_of_easier_jobs_starves_a_job_that_may_be_overtaken(name):
    assert _stream(name, 1e9) is None


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_of_easier_jobs_starves_no_job_that_waited_long(name):
    assert _stream(name, RESERVE_AFTER) is not None


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 25))
def test_every_job_starts_within_the_bound(seed, size):
    chance = random.Random(seed)
    groups = [group(1, [1, 2], max_forks=9), group(2, [2, 3], max_jobs=2), group(3, [3])]
    cluster = world([node(1, 4), node(2, 8, max_jobs=2), node(3, 6)], groups)
    cluster = replace(cluster, reserve_after=RESERVE_AFTER)
    jobs = [_random_job(chance, id) for id in range(1, size + 1)]
    arrivals: dict[int, list[PendingJob]] = {}
    arrived = {}
    for job in jobs:
        second = arrived[job.id] = STEP * chance.randrange(20)
        arrivals.setdefault(second, []).append(job)
    lengths = {job.id: STEP * chance.randint(1, LONGEST // STEP) for job in jobs}
    until = 100 + int(RESERVE_AFTER) + 3 * size * (LONGEST + STEP) + STEP
    started = simulate(cluster, arrivals, lengths, until)
    assert set(started) == {job.id for job in jobs}
    for job in jobs:
        of_age = arrived[job.id] + RESERVE_AFTER
        ahead = _ahead(job, of_age, {other.id: other for other in jobs}, arrived, started)
        assert started[job.id] <= of_age + 3 * (ahead + 1) * (LONGEST + STEP)


def _random_job(chance: random.Random, id: int) -> PendingJob:
    hosts = chance.sample("abcd", chance.randint(0, 2))
    return pending(
        id,
        chance.choice([1, 2, 4, 6, 20]),
        chance.sample([1, 2, 3], chance.randint(1, 2)),
        forks=chance.choice([1, 5, 9]),
        kind=chance.choice([Kind.PLAYBOOK, Kind.PLAYBOOK, Kind.CLEANUP]),
        organization_id=chance.randint(1, 3),
        host_lock=chance.choice(["none", "shared", "exclusive"]),
        lock_keys=tuple(hosts),
    )


def _ahead(
    job: PendingJob,
    of_age: float,
    jobs: dict[int, PendingJob],
    arrived: dict[int, int],
    started: dict[int, int],
) -> int:
    """Jobs that may still come first: earlier ones, and its tenant's of the same minute."""
    minute = arrived[job.id] // 60
    others: Iterable[int] = (
        other
        for other in arrived
        if (arrived[other], other) < (arrived[job.id], job.id)
        or (
            jobs[other].organization_id == job.organization_id
            and other != job.id
            and arrived[other] // 60 <= minute
        )
    )
    return sum(started[other] >= of_age for other in others)
