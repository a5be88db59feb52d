"""A backlog that cannot start: 100,000 pending jobs, then 1,000,000, for which no node has room.

The first walk also writes why each of them waits; walks after it, when something has changed that
helps none of them, read and decide only. A pass ends after ``pass_rows`` jobs and goes on in the next.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter

from sqlalchemy import Engine

from benchmarks import memory, scenes
from benchmarks.figures import Figure
from benchmarks.servers import managers
from dispatcher.broker.messages import Manager
from dispatcher.db.change import raise_counter
from schedulers.passes.manager_pass import Ended, Pass, Runner

SMALL, LARGE = 100_000, 1_000_000
RUNNING = 10_000
ROUNDS = 5


@dataclass(frozen=True)
class Walk:
    """One walk of the whole backlog: seconds of each of its passes."""

    passes: Sequence[float]

    @property
    def whole(self) -> float:
        return sum(self.passes)


def measure() -> list[Figure]:
    """Walks of both backlogs, fruitless passes, and what running jobs add."""
    with managers() as (engine, runner):
        return [*_small(engine, runner), *_running(engine, runner), *_large(engine, runner)]


def _small(engine: Engine, runner: Runner) -> list[Figure]:
    _fill(engine, SMALL)
    first = walk(engine, runner)
    walks = [walk(engine, runner) for _ in range(ROUNDS)]
    passes = [seconds for each in walks for seconds in each.passes]
    return [
        Figure("backlog_100000_first_walk", first.whole, "s", "writes every reason"),
        Figure(
            "backlog_100000_walk",
            median(each.whole for each in walks),
            "s",
            f"{ROUNDS} rounds, {min(w.whole for w in walks):.2f}"
            f" to {max(w.whole for w in walks):.2f} s; AWX, of 10,000: 9.2 s",
        ),
        Figure(
            "backlog_pass",
            median(passes),
            "s",
            f"{len(passes)} passes, at most {max(passes):.2f} s",
        ),
        _fruitless("backlog_100000_fruitless", runner),
    ]


def _running(engine: Engine, runner: Runner) -> list[Figure]:
    """What a pass takes longer because 10,000 jobs run."""
    _fill(engine, 0)
    idle = [walk(engine, runner).whole for _ in range(ROUNDS)]
    with engine.begin() as connection:
        scenes.add_jobs(connection, RUNNING, status="running", age=600)
    scenes.settle(engine)
    busy = [walk(engine, runner).whole for _ in range(ROUNDS)]
    return [
        Figure(
            "running_10000_add",
            (median(busy) - median(idle)) * 1000,
            "ms",
            f"{ROUNDS} rounds, a pass without them {median(idle) * 1000:.0f} ms; AWX: 5,600 ms",
        )
    ]


def _large(engine: Engine, runner: Runner) -> list[Figure]:
    _fill(engine, LARGE)
    walk(engine, runner)
    memory.forget_peak()
    again = walk(engine, runner)
    return [
        Figure("backlog_1000000_walk", again.whole, "s", f"{len(again.passes)} passes, one round"),
        Figure(
            "backlog_1000000_pass",
            median(again.passes),
            "s",
            f"at most {max(again.passes):.2f} s",
        ),
        Figure(
            "backlog_memory",
            memory.peak_mb(),
            "MB",
            "the whole process at its largest, while it walks the large one",
        ),
        _fruitless("backlog_1000000_fruitless", runner),
    ]


def _fill(engine: Engine, jobs: int) -> None:
    """Nodes that are full, and so many jobs for which there is no room."""
    with engine.begin() as connection:
        scenes.empty(connection)
        scenes.add_nodes(connection, 50, max_jobs=1)
        scenes.add_jobs(connection, 50, status="running", age=3_600)
        if jobs:
            scenes.add_jobs(connection, jobs, age=30)
    scenes.settle(engine)


def walk(engine: Engine, runner: Runner) -> Walk:
    """Everything is walked once more, because something has changed."""
    passes: list[float] = []
    work = runner.works[Manager.TASK]

    def timed(under_way: Pass) -> Ended:
        began = perf_counter()
        try:
            return work(under_way)
        finally:
            passes.append(perf_counter() - began)

    with engine.begin() as connection:
        raise_counter(connection)
    gc.collect()
    timed_runner = replace(runner, works={**runner.works, Manager.TASK: timed})
    result = "budget"  # past its time budget a trigger leaves the rest to the next one
    while result == "budget":
        result = timed_runner.trigger(Manager.TASK)
    if result != "complete":
        raise AssertionError(f"a walk ended as {result}")
    return Walk(passes)


def _fruitless(name: str, runner: Runner) -> Figure:
    """A pass that finds that nothing has changed since everything was walked."""
    result, times = runner.trigger(Manager.TASK), []  # what the walk itself has changed
    for _ in range(ROUNDS):
        began = perf_counter()
        result = runner.trigger(Manager.TASK)
        times.append((perf_counter() - began) * 1000)
        if result != "fruitless":
            break
    words = f"{len(times)} rounds, {min(times):.1f} to {max(times):.1f} ms; {result}"
    return Figure(name, median(times), "ms", words)
