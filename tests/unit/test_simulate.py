"""Simulation: the same planners, time played forward, memory that does not grow with the trace."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedulers.core.plan_tasks import Ledger
from schedulers.core.played_ledger import PlayedLedger
from schedulers.core.simulate import (
    Arrival,
    Started,
    report,
    simulate,
    with_more_nodes,
    with_node_count,
)
from schedulers.core.snapshot import Tenant
from tests.unit.planner_strategies import backlogs, worlds
from tests.unit.worlds import NOW, active, node, pending, world

AT = NOW.timestamp()


def comes(id: int, impact: int = 2, *, after: float = 0, lasts: float = 10, **fields) -> Arrival:
    at = AT + after
    job = pending(id, impact, **({"rank": at, "created": at, "held_since": at} | fields))
    return Arrival(job, at, lasts)


def starts(cluster, *arrivals, **options) -> dict[int, float]:
    """Job id → seconds after the beginning."""
    return {s.job.id: s.at - AT for s in simulate(cluster, arrivals, **options)}


def test_jobs_start_when_they_come_or_when_others_end():
    cluster = world([node(1, 4)])
    assert starts(cluster, comes(1), comes(2, lasts=15), comes(3), comes(4, after=12)) == {
        1: 0,
        2: 0,
        3: 10,
        4: 15,
    }


def test_active_jobs_end_when_it_is_said_and_others_never():
    cluster = world([node(1, 4)], active=[active(90, 1, 2), active(91, 1, 2)])
    assert starts(cluster, comes(1), comes(2), ends={90: AT + 7.5}) == {1: 8, 2: 18}
    assert starts(cluster, comes(1)) == {}


def test_waits_come_by_tenant_and_group_with_utilization():
    cluster = world([node(1, 2)])
    made = report(
        cluster, simulate(cluster, [comes(i, organization_id=1 + i % 2) for i in range(1, 5)])
    )
    assert {tenant: waits.total for tenant, waits in made.tenants.items()} == {1: 2, 2: 2}
    assert made.groups[1].longest == 30
    assert 10 <= made.groups[1].quantile(0.5) <= 10.5
    assert made.groups[1].quantile(0.25) == 0
    assert made.utilization == 1


def test_more_nodes_shorten_the_waits():
    cluster = world([node(1, 2)])
    trace = [comes(i) for i in range(1, 9)]
    longest = [
        report(cluster, simulate(with_more_nodes(cluster, n), trace)).groups[1].longest
        for n in (0, 1, 3)
    ]
    assert longest == [70, 30, 10]


def test_tenants_have_their_weights():
    cluster = replace(world([node(1, 8)]), tenants=(Tenant(1, "a", 1.0), Tenant(2, "b", 3.0)))
    trace = [comes(i, organization_id=1 + i % 2) for i in range(1, 41)]
    first = [s.job.organization_id for s in simulate(cluster, trace) if s.at == AT]
    assert sorted(first) == [1, 2, 2, 2]


class Anew(PlayedLedger):
    """The ledger of each pass made of everything that is active, as a live pass makes it."""

    def begin_pass(self, now, ended):
        super().begin_pass(now, ended)
        moment = datetime.fromtimestamp(now, UTC)
        return Ledger.of(replace(self._world, now=moment, active=tuple(self._active.values())))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds(), backlogs(old=True), st.integers(0, 1 << 30))
def test_a_ledger_that_goes_on_gives_the_same_starts_as_one_made_anew(cluster, jobs, seed):
    chance = random.Random(seed)
    cluster = replace(cluster, recent=())
    trace = sorted(
        (
            Arrival(job, cluster.now.timestamp() + chance.randint(0, 40), chance.randint(1, 30))
            for job in jobs
        ),
        key=lambda arrival: arrival.at,
    )
    ends = {job.id: cluster.now.timestamp() + chance.randint(1, 50) for job in cluster.active}

    def played(ledger: type[PlayedLedger]) -> list[Started]:
        return list(simulate(cluster, trace, ends=ends, ledger=ledger))

    assert played(PlayedLedger) == played(Anew)


def test_fewer_or_more_nodes_than_a_trace_has():
    cluster = world([node(1, 4), node(2, 8), node(3, 2)])
    assert with_node_count(cluster, None) is cluster
    assert [n.name for n in with_node_count(cluster, 2).nodes] == ["n1", "n2"]
    assert with_node_count(cluster, 2).groups[0].node_ids == (1, 2)
    assert [n.capacity for n in with_node_count(cluster, 5).nodes] == [4, 8, 2, 8, 8]


def _trace(jobs: int) -> Iterator[Arrival]:
    chance = random.Random(7)
    for id in range(1, jobs + 1):
        yield comes(id, chance.choice([1, 2, 6]), after=id / 2, lasts=chance.randint(1, 30))


def test_memory_does_not_grow_with_the_trace():
    cluster = world([node(i, 20) for i in range(1, 11)])

    def peak(jobs: int) -> int:
        tracemalloc.start()
        try:
            assert sum(1 for _ in simulate(cluster, _trace(jobs), period=5)) == jobs
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # CPython keeps up to 2,000 ended tuples of each size for new ones: it has them after this
    peak(2_500)
    assert peak(1_500) < 1.5 * peak(500)
