"""A whole pass of the TaskManager, load to last submission: 10,000 pending jobs on 50 nodes.

All of them start. Real lease, snapshot, commits and broker; the first submission is timed where it
has been sent, and SQL statements are counted on their way to the server.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import median
from time import perf_counter

from kombu import Producer
from sqlalchemy import Engine, event, text

from benchmarks import scenes
from benchmarks.figures import Figure
from benchmarks.servers import managers
from dispatcher.broker.celery_app import make_app
from dispatcher.broker.messages import Manager, Owed
from dispatcher.broker.publish import Publisher
from dispatcher.db.change import raise_counter
from schedulers.passes.manager_pass import Runner

JOBS = 10_000
NODES = 50
ROUNDS = 5


@dataclass
class Taken:
    """What one pass took: seconds in all, seconds to the first submission, SQL statements."""

    whole: float
    first: float
    statements: int


@dataclass
class Clocked:
    """A runner whose submissions and statements are looked at."""

    runner: Runner
    sent: list[float] = field(default_factory=list)
    statements: int = 0

    @classmethod
    def of(cls, runner: Runner) -> Clocked:
        """The runner with a publisher that notes when each submission has been sent."""
        publisher = _Noting(make_app(runner.settings, profile="publisher"))
        publisher.warm()
        made = cls(replace(runner, publisher=publisher))
        publisher.sent = made.sent
        event.listen(runner.engine, "before_cursor_execute", made._count)
        return made

    def _count(self, *_: object) -> None:
        self.statements += 1

    def trigger(self, manager: Manager) -> Taken:
        """Run a manager."""
        self.sent.clear()
        self.statements = 0
        began = perf_counter()
        self.runner.trigger(manager)
        whole = perf_counter() - began
        return Taken(whole, self.sent[0] - began if self.sent else whole, self.statements)


class _Noting(Publisher):
    sent: list[float]

    def messages(self, owed: Owed) -> list[tuple[str, Callable[[Producer], None]]]:
        return [(kind, self._noted(kind, send)) for kind, send in super().messages(owed)]

    def _noted(self, kind: str, send: Callable[[Producer], None]) -> Callable[[Producer], None]:
        def noted(producer: Producer) -> None:
            send(producer)
            if kind == "start":
                self.sent.append(perf_counter())

        return noted


def measure() -> list[Figure]:
    """Seconds of the pass, milliseconds to the first submission, statements for each job."""
    taken = rounds(delay=0)
    few = rounds(delay=0, jobs=JOBS // 10, number=1)[0]
    whole, first = median(t.whole for t in taken), median(t.first for t in taken)
    spread = f"{min(t.whole for t in taken):.2f} to {max(t.whole for t in taken):.2f} s"
    statements = taken[0].statements
    return [
        Figure("task_pass_10000", whole, "s", f"{ROUNDS} rounds, {spread}; AWX: 76 s"),
        Figure("task_pass_first_submission", first * 1000, "ms", "AWX, of 1,000: 8 s"),
        Figure(
            "task_pass_statements",
            statements,
            "count",
            f"{few.statements} for {JOBS // 10:,} jobs; AWX: 60,000",
        ),
    ]


def rounds(*, delay: float, jobs: int = JOBS, number: int = ROUNDS) -> list[Taken]:
    """Passes over so many jobs that all start, each on fresh rows."""
    with managers(delay) as (engine, runner):
        clocked = Clocked.of(runner)
        return [_round(engine, clocked, jobs) for _ in range(number)]


def _round(engine: Engine, clocked: Clocked, jobs: int) -> Taken:
    with engine.begin() as connection:
        scenes.empty(connection)
        scenes.add_nodes(connection, NODES)
        scenes.add_jobs(connection, jobs, age=30)
        raise_counter(connection)
    scenes.settle(engine)
    taken = clocked.trigger(Manager.TASK)
    with engine.connect() as connection:
        started = connection.scalar(text("SELECT count(*) FROM job WHERE status = 'waiting'"))
    if started != jobs:
        raise AssertionError(f"{started} of {jobs} jobs were started")
    return taken
