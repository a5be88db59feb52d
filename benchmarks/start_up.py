"""How long ``dispatcher up`` takes until every role is ready: on nothing, and on its own data."""

from __future__ import annotations

from statistics import median
from time import perf_counter

from benchmarks.figures import Figure
from benchmarks.servers import short_directory
from tests.stack import running_stack

ROUNDS = 3


def measure() -> list[Figure]:
    first, later = [], []
    for _ in range(ROUNDS):
        with short_directory() as directory:
            for times in (first, later):
                began = perf_counter()
                with running_stack(directory / "stack"):
                    times.append(perf_counter() - began)
    return [
        Figure("up_ready_first", median(first), "s", f"{ROUNDS} rounds, {_spread(first)}"),
        Figure("up_ready_later", median(later), "s", f"{ROUNDS} rounds, {_spread(later)}"),
    ]


def _spread(times: list[float]) -> str:
    return f"{min(times):.1f} to {max(times):.1f} s"
