"""Walking a backlog by windows that grow: load, plan, apply, commit, submit, then the next one.

Each window is planned, applied, committed and submitted before the next is read, so that the first
start leaves a pass soon, memory is flat, and progress is saved by itself. One bad item never stops
the others: what raises is split until the culprit stands alone, and that one gets a strike.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Generic

from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from dispatcher import logs
from dispatcher.db.change import read_counter
from dispatcher.errors import LeaseLost
from schedulers.core.decision import Strike
from schedulers.passes import manager_lease
from schedulers.passes.backlog import Backlog, Cursors, DecisionT, ItemT, Window
from schedulers.passes.manager_lease import Walk
from schedulers.passes.manager_pass import Applied, Ended, Pass

log = logs.get(__name__)

#: Items of the first windows of a pass; the last number goes on.
SIZES: Final = (100, 500, 4_000)
#: Kills in a row over an open window at which it is halved.
KILLS_TO_HALVE: Final = 2


def walk(under_way: Pass, backlog: Backlog[ItemT, DecisionT]) -> Ended:
    """Walk the backlog from where the pass before stopped, until its end or a limit.

    Raises:
        LeaseLost: somebody has taken the lease; what was committed before stands.
    """
    return _Walk(under_way, backlog).run()


class _Walk(Generic[ItemT, DecisionT]):
    def __init__(self, under_way: Pass, backlog: Backlog[ItemT, DecisionT]) -> None:
        self._pass = under_way
        self._backlog = backlog
        self._lease = under_way.lease
        self._position: Cursors = under_way.lease.cursors
        self._walk: Walk | None = None
        self._windows = 0
        self._seen: set[int] = set()
        self._looked = under_way.lease.asked
        self._was_head = False

    def run(self) -> Ended:
        suspects = list(self._lease.window_jobs)
        window = self._first(suspects)
        if window is None:
            return Ended("fruitless")
        if suspects:
            self._clear(suspects, window.items)
            window = self._next()
        while True:
            self._settle(window)
            if not self._was_head and not window.cursors and not self._backlog.stopped_early:
                return self._completed()
            if (
                self._backlog.stopped_early
                or self._pass.must_stop()
                or len(self._seen) >= self._pass.settings.pass_rows
            ):
                return self._stopped()
            window = self._next()

    def _first(self, suspects: Sequence[int]) -> Window[ItemT] | None:
        """Everything the pass plans on, in one snapshot with the change counter.

        Returns:
            None when nothing has changed since everything was walked (docs/protocols.md 7.1).
        """
        with self._pass.snapshot() as connection:
            counter = read_counter(connection)
            if not suspects and self._is_fruitless(connection, counter):
                return None
            if self._lease.cursors:
                self._walk = manager_lease.read_walk(connection, self._lease)
            else:
                self._walk = Walk(counter, due=None)
            self._backlog.load(connection)
            if suspects:
                return Window(self._backlog.named(connection, suspects))
            return self._read(connection)

    def _is_fruitless(self, connection: Connection, counter: int) -> bool:
        if self._lease.done_at_change != counter or self._lease.cursors:
            return False
        due = connection.execute(
            text("SELECT coalesce(dispatcher_now() >= CAST(:due AS timestamptz), false)"),
            {"due": self._lease.next_due},
        ).scalar()
        return not due and not self._backlog.has_more(connection)

    def _next(self) -> Window[ItemT]:
        with self._pass.snapshot() as connection:
            return self._read(connection)

    def _read(self, connection: Connection) -> Window[ItemT]:
        """The next window: the head when something was asked for meanwhile, in turns.

        Always the head would starve the tail; never the head would let a backlog that cannot run
        delay what could (docs/protocols.md 7.4).
        """
        head = None if self._was_head else self._read_head(connection)
        self._was_head = head is not None
        if head is None:
            size = SIZES[min(self._windows, len(SIZES) - 1)]
            self._windows += 1
            found = self._backlog.read(connection, self._position, size)
            self._position = found.cursors
            window = Window(self._unseen(found.items), found.cursors)
        else:
            window = head
        self._open(connection, window.items)
        return window

    def _read_head(self, connection: Connection) -> Window[ItemT] | None:
        asked = manager_lease.requested(connection, self._lease.name)
        if asked <= self._looked:
            return None
        self._looked = asked
        items = self._unseen(self._backlog.read(connection, {}, SIZES[0]).items)
        return Window(items, self._position) if items else None

    def _unseen(self, items: Sequence[ItemT]) -> list[ItemT]:
        return [item for item in items if self._backlog.id_of(item) not in self._seen]

    def _open(self, connection: Connection, items: Sequence[ItemT]) -> None:
        ids = [self._backlog.id_of(item) for item in items]
        self._seen.update(ids)
        if ids:
            manager_lease.open_window(connection, self._lease, ids)

    def _clear(self, suspects: Sequence[int], present: Sequence[ItemT]) -> None:
        """Plan the window that a killed holder left open, before anything else.

        After two kills in a row it is planned by halves, each open by itself; a job that was open
        alone gets a strike instead (docs/protocols.md 2.6).
        """
        log.warning(
            "a window was left open",
            manager=self._lease.name,
            jobs=len(suspects),
            kills=self._lease.window_kills,
        )
        by_id = {self._backlog.id_of(item): item for item in present}
        pieces = [list(suspects)]
        if self._lease.window_kills >= KILLS_TO_HALVE:
            if len(suspects) == 1:
                self._strike(
                    [Strike(suspects[0], "the manager was killed while it planned this job")]
                )
                pieces = []
            else:
                half = (len(suspects) + 1) // 2
                pieces = [list(suspects[:half]), list(suspects[half:])]
        for piece in pieces:
            with self._pass.snapshot() as connection:
                self._seen.update(piece)
                manager_lease.open_window(connection, self._lease, piece)
            self._settle(
                Window([by_id[i] for i in piece if i in by_id], self._position), clear_kills=False
            )
        self._pass.apply(self._closing(self._position, clear_kills=True))

    def _settle(self, window: Window[ItemT], *, clear_kills: bool = True) -> None:
        """Plan a window and apply what was decided, and note where the next one begins."""
        planned = self._plan(window.items)
        self._strike([d for d in planned if isinstance(d, Strike)])
        decisions = [d for d in planned if not isinstance(d, Strike)]
        cursors = {} if self._backlog.stopped_early else window.cursors
        closing = self._closing(cursors, clear_kills=clear_kills)

        def write(connection: Connection) -> Applied:
            applied = self._backlog.apply(connection, decisions)
            closing(connection)
            return applied

        try:
            self._pass.apply(write)
        except Exception as error:
            if not _may_be_one_job(error) or not decisions:
                raise
            self._apply_by_halves(decisions, error)
            self._pass.apply(closing)

    def _closing(self, cursors: Cursors, *, clear_kills: bool) -> Any:
        def close(connection: Connection) -> Applied:
            manager_lease.close_window(
                connection, self._lease, cursors=cursors, clear_kills=clear_kills
            )
            return Applied()

        return close

    def _plan(self, items: Sequence[ItemT]) -> list[DecisionT | Strike]:
        try:
            with self._pass.timed("plan"):
                return list(self._backlog.plan(items))
        except Exception as error:
            # whatever a planner raises must cost one job, not the pass
            if len(items) == 1:
                return [Strike(self._backlog.id_of(items[0]), _words(error))]
            half = len(items) // 2
            return self._plan(items[:half]) + self._plan(items[half:])

    def _apply_by_halves(self, decisions: Sequence[DecisionT], error: Exception) -> None:
        """Apply what can be applied; the decision that raises alone gets a strike."""
        if len(decisions) == 1:
            self._strike([Strike(self._backlog.decided_about(decisions[0]), _words(error))])
            return
        half = len(decisions) // 2
        for piece in (decisions[:half], decisions[half:]):
            try:
                self._pass.apply(partial(self._backlog.apply, decisions=piece))
            except Exception as again:
                if not _may_be_one_job(again):
                    raise
                self._apply_by_halves(piece, again)

    def _strike(self, strikes: Sequence[Strike]) -> None:
        if not strikes:
            return
        for strike in strikes:
            log.error(
                "a job could not be handled",
                manager=self._lease.name,
                job_id=strike.job_id,
                error=strike.error,
            )
        self._pass.apply(lambda connection: self._backlog.strike(connection, strikes))

    def _completed(self) -> Ended:
        walk = self._walked()
        if walk is None:
            return Ended("complete")
        # whatever has changed since the head of the walk, in this pass or in those before, has made
        # the counter another one than this
        return Ended("complete", done_at_change=walk.change, next_due=walk.due)

    def _stopped(self) -> Ended:
        """The next pass goes on behind what this one has walked, or anew if it walked nothing."""
        return Ended("budget", walk=None if self._backlog.stopped_early else self._walked())

    def _walked(self) -> Walk | None:
        """The walk as it is after this pass.

        None: it cannot be relied on. What came before was walked by somebody who died, or a row
        was locked by somebody whose roll-back nobody would be told of.
        """
        if self._walk is None or self._pass.skipped:
            return None
        with self._pass.snapshot() as connection:
            dues = [self._walk.due, self._backlog.next_due(connection)]
        return Walk(self._walk.change, min((due for due in dues if due is not None), default=None))


def _may_be_one_job(error: Exception) -> bool:
    """Whether an error may come from one row of a batch; others are met by the next pass."""
    return not isinstance(error, LeaseLost | OperationalError)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
