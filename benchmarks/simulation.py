"""``dispatcher simulate`` as a command: a million jobs on 1,000 nodes, from the file to the tables."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from benchmarks.figures import Figure
from benchmarks.servers import short_directory
from schedulers.core.trace import VERSION, write_line

JOBS, NODES, TENANTS, GROUPS = 1_000_000, 1_000, 20, 10
#: Part of the cluster that the trace keeps in use on average.
UTILIZATION = 0.95


def measure() -> list[Figure]:
    """Minutes and megabytes of one run."""
    with short_directory() as directory:
        trace = directory / "trace.jsonl"
        write_trace(trace)
        earlier = resource.getrusage(resource.RUSAGE_CHILDREN)
        before = earlier.ru_utime + earlier.ru_stime
        began = perf_counter()
        command = [sys.executable, "-m", "dispatcher.cli.main", "simulate", str(trace)]
        subprocess.run(command, check=True, env=os.environ, stdout=subprocess.DEVNULL)
        minutes = (perf_counter() - began) / 60
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak, cpu = used.ru_maxrss / 1024, (used.ru_utime + used.ru_stime - before) / 60
    words = f"{JOBS:,} jobs on {NODES:,} nodes, one run, {cpu:.1f} minutes of CPU"
    return [
        Figure("simulate_1000000", minutes, "min", words),
        Figure("simulate_memory", peak, "MB", "the largest process that this one has started"),
    ]


def write_trace(path: Path, *, jobs: int = JOBS, nodes: int = NODES) -> None:
    """Jobs of all sizes, a day's shape of arrivals, tenants of several weights, groups of nodes."""
    chance = random.Random(3)
    capacities = [chance.choice([16, 32, 57]) for _ in range(nodes)]
    with path.open("w", encoding="utf-8") as file:
        file.write(write_line(trace=VERSION, began=1_767_225_600))
        for tenant in range(TENANTS):
            file.write(write_line(tenant=f"tenant-{tenant:02}", weight=chance.choice([1, 1, 2, 4])))
        for node, capacity in enumerate(capacities):
            groups = ["default", f"group-{node % GROUPS}"]
            file.write(write_line(node=f"node-{node:04}", capacity=capacity, groups=groups))
        # impact times seconds of a job on average: 4.1 × 60
        gap = 4.1 * 60 / (sum(capacities) * UTILIZATION)
        at = 0.0
        for number in range(jobs):
            at += chance.expovariate(1 / gap)
            file.write(_job(chance, number, at))


def _job(chance: random.Random, number: int, at: float) -> str:
    own = [f"group-{chance.randrange(GROUPS)}"] if number % 4 == 0 else []
    return write_line(
        job="site.yml",
        at=round(at, 3),
        duration=round(min(1_800.0, chance.lognormvariate(3.6, 1.0)), 1),
        tenant=f"tenant-{int(TENANTS * chance.random() ** 2):02}",
        impact=chance.choice([2, 2, 2, 3, 4, 6, 6, 8]),
        groups=[*own, "default"],
        priority=int(chance.random() < 0.02),
    )
