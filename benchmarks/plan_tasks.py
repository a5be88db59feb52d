"""Planning alone: a backlog larger than the cluster, with groups, limits and host locks in it.

A quarter of the jobs start, the rest is told what it waits for; the ledger is made and carried
through windows as a pass does it. Pure Python, no database; CPU time, because it is nothing else.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime
from statistics import median
from time import process_time

from benchmarks.figures import Figure
from dispatcher.domain.status import Kind
from schedulers.core.plan_tasks import Ledger, plan_window
from schedulers.core.snapshot import ActiveJob, Group, Node, PendingJob, World

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = 2_000
ROUNDS = 7


def measure() -> list[Figure]:
    """Milliseconds to plan 1,000 pending jobs on 50 nodes, and 10,000 on 500."""
    return [_figure("plan_1000_on_50", 1_000, 50), _figure("plan_10000_on_500", 10_000, 500)]


def _figure(name: str, jobs: int, nodes: int) -> Figure:
    times = sorted(_plan(jobs, nodes) * 1000 for _ in range(ROUNDS))
    spread = f"{ROUNDS} rounds, {times[0]:.0f} to {times[-1]:.0f} ms"
    return Figure(name, median(times), "ms", spread)


def _plan(jobs: int, nodes: int) -> float:
    chance = random.Random(7)
    world = _world(chance, nodes)
    pending = [_pending(chance, id, jobs // 14) for id in range(1, jobs + 1)]
    began = process_time()
    ledger = Ledger.of(world)
    for first in range(0, jobs, WINDOW):
        _, ledger = plan_window(ledger, pending[first : first + WINDOW])
    return process_time() - began


def _world(chance: random.Random, size: int) -> World:
    """Nodes of three sizes in five groups and one of all, two jobs running on each."""
    ids = range(1, size + 1)
    nodes = tuple(
        Node(id, f"node-{id:04}", chance.choice([16, 32, 57]), 200, "alive", True, False, True)
        for id in ids
    )
    parts = [Group(g, f"g{g}", 0, 40 * size, tuple(ids[g - 1 :: 5])) for g in range(1, 6)]
    active = tuple(
        ActiveJob(
            id=1_000_000 + id,
            organization_id=1,
            node_id=1 + id % size,
            instance_group_id=6,
            task_impact=chance.randint(1, 6),
            forks=5,
            created=0.0,
            job_template_id=None,
        )
        for id in range(2 * size)
    )
    return World(NOW, nodes, (*parts, Group(6, "default", 0, 0, tuple(ids))), active)


def _pending(chance: random.Random, id: int, hosts: int) -> PendingJob:
    locked = id % 5 == 0
    return PendingJob(
        id=id,
        kind=Kind.PLAYBOOK,
        name="site.yml",
        organization_id=1,
        rank=NOW.timestamp() - 120 + id / 100,
        held_since=NOW.timestamp() - 120 + id / 100,
        task_impact=chance.choice([2, 3, 4, 6, 6, 6, 21]),
        forks=5,
        preferred_groups=(chance.randint(1, 5), 6),
        host_lock="exclusive" if locked else "none",
        lock_keys=(f"10.0.0.{chance.randrange(hosts)}:22",) if locked else (),
    )
