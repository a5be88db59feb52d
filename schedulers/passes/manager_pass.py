"""One pass of a manager: lease, wake token, work, measure, release, run again if asked meanwhile.

The frame is the same for all managers; what a pass does between taking and giving back the lease
is its *work* (``windows.py`` for those that walk a backlog). Whatever a transaction owes the broker
is published after it has ended, within the pass's one round: a dead or frozen broker costs a pass
about 2 s (docs/protocols.md 1.6).
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from sqlalchemy import Connection, Engine

from dispatcher import clock, logs
from dispatcher.broker.messages import Manager, Owed, wake
from dispatcher.broker.publish import Publisher, Round
from dispatcher.db.change import raise_counter
from dispatcher.db.engine import reading, transaction
from dispatcher.db.schema_check import SchemaWatch
from dispatcher.errors import LeaseLost
from dispatcher.metrics import (
    MANAGER_DECISIONS,
    MANAGER_LAST_PASS,
    MANAGER_PASSES,
    MANAGER_PHASE,
)
from dispatcher.settings import Settings
from schedulers.passes import manager_lease
from schedulers.passes.holder import Holder
from schedulers.passes.manager_lease import Lease, Walk

log = logs.get(__name__)

PHASES: Final = ("lock", "load", "plan", "apply", "commit", "submit")
Phase = Literal["lock", "load", "plan", "apply", "commit", "submit"]


@dataclass(frozen=True)
class Applied:
    """What one transaction of a pass has changed.

    Attributes:
        owed: to the broker, once it is committed.
        counts: decisions that took effect, by kind.
        changed: whether anything moved that a planner looks at; raises the change counter.
        skipped: rows that somebody else had locked; the pass has not walked everything then.
    """

    owed: Owed = field(default_factory=Owed)
    counts: Mapping[str, int] = field(default_factory=dict)
    changed: bool = False
    skipped: int = 0

    def __add__(self, other: Applied) -> Applied:
        return Applied(
            self.owed + other.owed,
            Counter(self.counts) + Counter(other.counts),
            self.changed or other.changed,
            self.skipped + other.skipped,
        )


@dataclass(frozen=True)
class Ended:
    """How the work of a pass ended.

    Attributes:
        result: ``complete``, ``fruitless`` or ``budget`` (stopped early; asks for another pass).
        done_at_change: the change counter up to which everything was walked; None: not everything.
        next_due: the earliest time at which something depends on the clock alone.
        walk: what the next pass, which goes on where this one stopped, is to know.
    """

    result: Literal["complete", "fruitless", "budget"]
    done_at_change: int | None = None
    next_due: datetime | None = None
    walk: Walk | None = None


class Pass:
    """A pass under way: its lease, its time budget, its round with the broker, its clockwork."""

    def __init__(self, runner: Runner, manager: Manager, lease: Lease, deadline: float) -> None:
        self.settings = runner.settings
        self.manager = manager
        self.lease = lease
        self.phases: dict[str, float] = dict.fromkeys(PHASES, 0.0)
        self.skipped = 0
        self._engine = runner.engine
        self._stopping = runner.stopping
        self._round: Round = runner.publisher.round()
        self._deadline = deadline

    def must_stop(self) -> bool:
        """Whether the budget is spent, or the process is to end: looked at between windows."""
        return clock.monotonic() >= self._deadline or self._stopping()

    @contextmanager
    def timed(self, phase: Phase) -> Iterator[None]:
        """Add the block's time to a phase."""
        started = clock.monotonic()
        try:
            yield
        finally:
            self.phases[phase] += clock.monotonic() - started

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A transaction that sees one moment; the lease is renewed first.

        Raises:
            LeaseLost: somebody has taken the lease.
        """
        with (
            self.timed("load"),
            transaction(
                self._engine,
                statement_timeout=self.settings.manager_statement_timeout,
                isolation="REPEATABLE READ",
                # it writes a renewal and the window's ids: a crash of the server that loses them
                # has ended the pass too
                durable=False,
            ) as connection,
        ):
            manager_lease.renew(connection, self.lease)
            yield connection

    def apply(self, write: Callable[[Connection], Applied]) -> Applied:
        """Run ``write`` in a transaction, commit, and publish what it owes.

        Args:
            write: changes rows conditionally; the lease is renewed before it, and the change
                counter is raised after it, as the last statement.

        Raises:
            LeaseLost: somebody has taken the lease; nothing was written.
        """
        started = clock.monotonic()
        written = started
        try:
            with transaction(
                self._engine, statement_timeout=self.settings.manager_statement_timeout
            ) as connection:
                manager_lease.renew(connection, self.lease)
                applied = write(connection)
                if applied.changed:
                    raise_counter(connection)
                written = clock.monotonic()
        finally:
            self.phases["apply"] += written - started
            self.phases["commit"] += clock.monotonic() - written
        self.skipped += applied.skipped
        for kind, count in applied.counts.items():
            MANAGER_DECISIONS.labels(str(self.manager), kind).inc(count)
        self.publish(applied.owed)
        return applied

    def publish(self, owed: Owed) -> None:
        """Publish what a committed transaction owes; after a first failure it is only counted."""
        with self.timed("submit"):
            self._round.publish(owed)

    def delete_wake_token(self) -> None:
        """Open the door for wake-ups again, before anything is loaded; warms the connection too."""
        with self.timed("submit"):
            self._round.delete_token(self.manager)


Work = Callable[[Pass], Ended]


@contextmanager
def _uncollected() -> Iterator[None]:
    """No search for garbage in cycles meanwhile.

    A pass makes a hundred thousand values that end with their windows, none of them in a cycle;
    searching them took as long as planning. What a pass may read is bounded.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@dataclass(frozen=True)
class Runner:
    """What a process needs to run passes.

    Attributes:
        engine: a pool of one connection.
        publisher: warmed at the start of the process.
        works: the work of each manager.
        stopping: whether the process was told to end.
        holder: made after the last fork.
        schema: whether this code may still write.
    """

    settings: Settings
    engine: Engine
    publisher: Publisher
    works: Mapping[Manager, Work]
    stopping: Callable[[], bool] = lambda: False
    holder: Holder = field(default_factory=Holder.of_this_process)
    schema: SchemaWatch = field(default_factory=SchemaWatch)

    def trigger(self, manager: Manager) -> str:
        """Run the manager, or leave a request with whoever is running it.

        Passes follow one another while requests arrive or a pass has stopped early, as long as
        the time budget of one lasts; past it the manager is woken by message.

        Returns:
            The result of the last pass: ``busy``, ``complete``, ``fruitless``, ``budget``,
            ``lease_lost``.

        Raises:
            SchemaError: a migration has made the schema one that this code must not write to.
        """
        if self.schema.due:
            with transaction(self.engine) as connection:
                self.schema.look(connection)
        deadline = clock.monotonic() + self.settings.manager_timeout
        manager_lease.request(self.engine, manager)
        result = "busy"
        while True:
            started = clock.monotonic()
            lease = manager_lease.take(
                self.engine, manager, self.holder, self.settings.manager_lease
            )
            if lease is None:
                if result == "busy":
                    MANAGER_PASSES.labels(str(manager), "busy").inc()
                return result
            result, again = self._run(manager, lease, started, deadline)
            if not again:
                return result
            if self.stopping() or clock.monotonic() >= deadline:
                self.publisher.publish(wake(manager))
                return result

    def _run(
        self, manager: Manager, lease: Lease, started: float, deadline: float
    ) -> tuple[str, bool]:
        """One pass under a lease: its result, and whether another one is asked for."""
        running = Pass(self, manager, lease, deadline)
        running.phases["lock"] = clock.monotonic() - started
        result = "error"
        try:
            running.delete_wake_token()
            with _uncollected():
                ended = self.works[manager](running)
            result = ended.result
            self._release(lease, ended)
        except LeaseLost as lost:
            # whoever has it goes on from what is committed; it answers the requests too
            log.warning("lease lost", manager=str(manager), reason=str(lost))
            result = "lease_lost"
            return result, False
        except Exception:
            self._give_up(lease)
            raise
        finally:
            self._measure(running, started, result)
        with reading(self.engine) as connection:
            asked = manager_lease.requested(connection, manager)
        return result, result == "budget" or asked > lease.asked

    def _release(self, lease: Lease, ended: Ended) -> None:
        # lost in a crash of the server: the lease ends by itself, and the pass comes once more
        with transaction(self.engine, durable=False) as connection:
            manager_lease.renew(connection, lease)
            if ended.result != "fruitless":
                manager_lease.finish_pass(
                    connection,
                    lease,
                    done_at_change=ended.done_at_change,
                    next_due=ended.next_due,
                    walk=ended.walk,
                )
            manager_lease.release(connection, lease, completed=True)

    def _give_up(self, lease: Lease) -> None:
        """After an error: give the lease back if the database still answers, else it expires."""
        try:
            with transaction(self.engine, lock_timeout=1.0) as connection:
                manager_lease.renew(connection, lease)
                manager_lease.release(connection, lease, completed=False)
        except Exception as error:
            log.debug("lease left to expire", manager=lease.name, error=repr(error))

    def _measure(self, running: Pass, started: float, result: str) -> None:
        manager = str(running.manager)
        for phase in PHASES:
            MANAGER_PHASE.labels(manager, phase).observe(running.phases[phase])
        MANAGER_PHASE.labels(manager, "total").observe(clock.monotonic() - started)
        MANAGER_PASSES.labels(manager, result).inc()
        if result in ("complete", "fruitless", "budget"):
            MANAGER_LAST_PASS.labels(manager).set(clock.now().timestamp())
