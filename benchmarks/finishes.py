"""1,000 finishes of jobs of one template, from eight connections at once: none may deadlock."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from uuid import UUID

from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError

from benchmarks import scenes
from benchmarks.figures import Figure
from benchmarks.instant_node import InstantNodes
from benchmarks.servers import control
from benchmarks.workflows import template

FINISHES = 1_000
AT_ONCE = 8


def measure() -> list[Figure]:
    """How many finishes were given up, with everything that goes with them running beside."""
    with control() as (engine, settings):
        with engine.begin() as connection:
            scenes.add_nodes(connection, 10)
            template(connection, "chain", chain=True)
            job_template = connection.scalar(text("SELECT max(id) FROM job_template"))
            scenes.add_jobs(connection, FINISHES, status="running", job_template_id=job_template)
        with InstantNodes(engine, settings, lasts=None).running() as nodes:
            began = perf_counter()
            failed = _finish_all(engine, nodes)
            took = perf_counter() - began
    words = f"of {FINISHES:,} by {AT_ONCE} at once, {FINISHES / took:.0f} a second"
    return [Figure("finishes_given_up", failed, "count", words)]


def _finish_all(engine: Engine, nodes: InstantNodes) -> int:
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT id, dispatch_id FROM job WHERE status = 'running'"))
        pairs = [(row[0], row[1]) for row in rows]
    parts: Sequence[list[tuple[int, UUID]]] = [pairs[n::AT_ONCE] for n in range(AT_ONCE)]

    def finish(part: list[tuple[int, UUID]]) -> int:
        failed = 0
        for pair in part:
            try:
                nodes.finish([pair])
            except OperationalError:  # a deadlock, or a lock that did not come in time
                failed += 1
        return failed

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return sum(pool.map(finish, parts))
