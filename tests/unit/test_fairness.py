"""Turns of tenants: by what each has in use for its weight, within one by rank and id."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from schedulers.core.decision import Start
from schedulers.core.plan_tasks import Ledger, plan_window
from schedulers.core.snapshot import ActiveJob, PendingJob, Tenant, Usage, World
from tests.unit.worlds import NOW, active, node, pending, places, plan, reason_of, world

AT = NOW.timestamp()


def of(tenant: int, id: int, impact: int = 1, *, age: float = 1, **fields: object) -> PendingJob:
    """A pending job of a tenant, created when its rank says."""
    rank = AT - age
    held = {"rank": rank, "created": rank, "held_since": rank}
    values = held | {"organization_id": tenant} | fields
    return pending(id, impact, **values)


def order(here: World, *jobs: PendingJob) -> list[int]:
    """Job ids in the order in which they are decided."""
    return [decision.job_id for decision in plan_window(Ledger.of(here), jobs)[0]]


def weighing(here: World, **weights: float) -> World:
    """The world with tenants ``t1``, ``t2`` of these weights."""
    tenants = tuple(Tenant(int(name[1:]), name, weight) for name, weight in weights.items())
    return replace(here, tenants=tenants)


ROOM = world([node(1, 100)])
FULL = world([node(1, 1)], active=[active(90, 1, 1, organization_id=9)])


def test_tenants_with_equal_weights_take_turns():
    ids = order(ROOM, *(of(1, i, age=90 - i) for i in (1, 2, 3)), *(of(2, i) for i in (4, 5, 6)))
    assert ids == [1, 4, 2, 5, 3, 6]


def test_a_tenant_of_three_times_the_weight_gets_three_times_as_much():
    here = weighing(world([node(1, 8)]), t1=1, t2=3)
    jobs = [of(1 + i % 2, i) for i in range(1, 41)]
    starts = places(plan(here, *jobs))
    assert Counter(1 + i % 2 for i in starts) == {1: 2, 2: 6}


def test_what_a_tenant_has_running_counts_whatever_started_it():
    here = world([node(1, 6)], active=[active(90, 1, 3, organization_id=1)])
    jobs = [of(1, 1, age=50), of(1, 2, age=40), of(2, 3), of(2, 4), of(2, 5)]
    assert sorted(places(plan(here, *jobs))) == [3, 4, 5]


def test_what_a_tenant_has_had_lately_counts_too():
    here = replace(world([node(1, 2)]), recent=(Usage(1, 0.0, 2.5),))
    assert sorted(places(plan(here, of(1, 1, age=50), of(2, 2), of(2, 3)))) == [2, 3]


def test_within_a_tenant_rank_then_id_decides():
    assert order(FULL, of(1, 3, age=5), of(1, 2, age=9), of(1, 4, age=9)) == [2, 4, 3]


def test_of_tenants_that_use_the_same_the_first_in_rank_is_next_and_then_the_first_in_id():
    assert order(FULL, of(1, 3, age=5), of(2, 2, age=9), of(3, 1, age=5)) == [2, 1, 3]


def test_jobs_that_cannot_start_cost_their_tenant_no_turn():
    stuck = [of(1, i, age=50)._replace(preferred_groups=()) for i in range(1, 30)]
    here = world([node(1, 2)])
    assert sorted(places(plan(here, *stuck, of(1, 40, age=40), of(2, 50), of(2, 51)))) == [40, 50]


def test_a_job_is_not_charged_for_those_that_have_overtaken_it():
    here = world([node(1, 10)], active=[active(90, 1, 4, organization_id=1, created=AT)])
    assert order(here, of(1, 1, age=300), of(2, 2, age=1)) == [1, 2]
    before = world([node(1, 10)], active=[active(90, 1, 4, organization_id=1, created=AT - 400)])
    assert order(before, of(1, 1, age=300), of(2, 2, age=1)) == [2, 1]


def test_a_high_priority_does_not_put_a_busy_tenant_before_others():
    here = world([node(1, 10)], active=[active(90, 1, 4, organization_id=1, created=AT - 90)])
    urgent = of(1, 1, rank=AT - 7200, created=AT)
    assert order(here, urgent, of(2, 2), of(1, 3, age=80)) == [2, 1, 3]


def test_a_job_of_a_less_served_tenant_keeps_its_turn_before_older_jobs_of_another():
    jobs = [active(90, 1, 4, organization_id=1), active(91, 1, 4, organization_id=2)]
    here = world([node(1, 10)], active=[*jobs, active(92, 1, 0, organization_id=1)])
    here = weighing(here, t1=1, t2=4)
    decided = plan(here, of(2, 1, 6, age=61), of(1, 2, 2, age=99), of(1, 3, 2, age=98))
    assert places(decided) == {}
    assert [reason_of(decided[i]).data["reserved_for"] for i in (1, 2, 3)] == [None, 1, 1]


def test_a_job_that_kept_its_turn_keeps_its_place_when_others_have_kept_theirs():
    ledger = Ledger.of(world([node(1, 10)], active=[active(90, 1, 9, organization_id=3)]))
    old = of(1, 1, 5, age=99)
    first, ledger = plan_window(ledger, [old])
    _, ledger = plan_window(ledger, [of(2, 2, 5, age=70)])
    again, _ = plan_window(ledger, [old])
    assert first == again


# -- over time


def _share(seed: int, weights: dict[int, float], seconds: int) -> tuple[dict[int, float], int]:
    """Impact-seconds of each tenant while all of them always want more, and the largest impact."""
    chance = random.Random(seed)
    cluster = world([node(1, 12), node(2, 12)])
    cluster = replace(cluster, tenants=tuple(Tenant(t, str(t), w) for t, w in weights.items()))
    waiting: list[PendingJob] = []
    running: list[tuple[int, ActiveJob]] = []
    had: dict[int, float] = Counter()
    ids = iter(range(1, 10**6))
    for second in range(seconds):
        now = AT + second
        for tenant in weights:
            while sum(job.organization_id == tenant for job in waiting) < 30:
                waiting.append(of(tenant, next(ids), chance.choice([1, 2, 3]), age=-second))
        running = [(end, job) for end, job in running if end > second]
        here = replace(
            cluster, now=NOW + timedelta(seconds=second), active=tuple(j for _, j in running)
        )
        by_id = {job.id: job for job in waiting}
        for start in plan_window(Ledger.of(here), waiting)[0]:
            if isinstance(start, Start):
                job = by_id.pop(start.job_id)
                row = active(
                    job.id,
                    start.node_id,
                    job.task_impact,
                    organization_id=job.organization_id,
                    created=job.created,
                )
                running.append((second + chance.randint(1, 20), row))
        waiting = list(by_id.values())
        for _, row in running:
            had[row.organization_id] += row.task_impact
        assert now
    return had, 3


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.sampled_from([1, 2, 3, 5]), min_size=2, max_size=4))
def test_tenants_that_always_want_more_get_their_share_within_the_largest_job(seed, weights):
    """Averaged over time each has its share of the used capacity, to within one largest job."""
    seconds = 150
    had, largest = _share(seed, dict(enumerate(map(float, weights), 1)), seconds)
    used = sum(had.values())
    for tenant, weight in enumerate(weights, 1):
        assert abs(had[tenant] - used * weight / sum(weights)) <= largest * seconds
