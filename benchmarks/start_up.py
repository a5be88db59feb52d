"""How long ``dispatcher up`` takes until every role is ready, on nothing and on its own data; and
how long until nothing of it is left."""

from __future__ import annotations

from statistics import median
from time import perf_counter

from benchmarks.figures import Figure, spread
from benchmarks.servers import short_directory
from tests.stack import running_stack

ROUNDS = 3


def measure() -> list[Figure]:
    first, later, stopped = [], [], []
    for _ in range(ROUNDS):
        with short_directory() as directory:
            for times in (first, later):
                began = perf_counter()
                with running_stack(directory / "stack"):
                    times.append(perf_counter() - began)
                    began = perf_counter()
                stopped.append(perf_counter() - began)
    return [
        Figure("up_ready_first", median(first), "s", spread(first, "s")),
        Figure("up_ready_later", median(later), "s", spread(later, "s")),
        Figure("up_stopped", median(stopped), "s", spread(stopped, "s")),
    ]
