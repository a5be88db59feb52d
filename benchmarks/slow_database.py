"""The same figures with 5 ms added to every query, by a proxy in front of the database.

The shape holds: a pass waits for its statements, whose number does not grow with the jobs.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter

from benchmarks.figures import Figure
from benchmarks.reactions import ends
from benchmarks.servers import control, managers
from benchmarks.task_pass import JOBS, rounds
from dispatcher.broker.messages import Manager
from schedulers.passes.manager_pass import Runner

DELAY = 0.005
ROUNDS = 5


def measure() -> list[Figure]:
    """A whole pass, its first submission, a pass with nothing to do, and what follows an end."""
    (taken,) = rounds(delay=DELAY, number=1)
    with managers(DELAY) as (_, runner):
        while runner.trigger(Manager.TASK) != "fruitless":
            pass
        times = [_fruitless(runner) for _ in range(ROUNDS)]
    with control(DELAY) as (engine, settings):
        of_job, of_update = ends(engine, settings)
    return [
        Figure("slow_task_pass_10000", taken.whole, "s", f"{JOBS:,} jobs, one round"),
        Figure("slow_first_submission", taken.first * 1000, "ms"),
        Figure("slow_fruitless_pass", median(times) * 1000, "ms", f"{ROUNDS} rounds"),
        Figure("slow_job_end_to_start_p95", of_job.value, "ms", of_job.comparison),
        Figure("slow_update_end_to_start_p95", of_update.value, "ms", of_update.comparison),
    ]


def _fruitless(runner: Runner) -> float:
    began = perf_counter()
    runner.trigger(Manager.TASK)
    return perf_counter() - began
