"""Brings spooled events into PostgreSQL, exactly once, and writes the final status with the last.

Nothing is remembered over a transaction: each one locks the progress rows and cuts its batches from
what they say (docs/protocols.md 5.1). Many runs share one transaction, each with a fair part of it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from dispatcher import clock, logs
from dispatcher.broker.messages import Owed
from dispatcher.db import event_store, run_summaries
from dispatcher.db.engine import transaction
from dispatcher.db.event_store import Advance, Progress
from dispatcher.domain.outcome import Outcome
from dispatcher.errors import RunDirectoryError
from dispatcher.metrics import EVENTS_STORED, SPOOL_LAG_BYTES, STORE_SECONDS
from workers import finish
from workers.courier import Courier
from workers.runs import Phase, Run, Runs, Verdict
from workers.spool import Batch, SpoolError, SpoolReader

#: Seconds between two looks at the spools of live runs, and between two stores of one of them.
LOOK_EVERY: Final = 0.05
FLUSH_SECONDS: Final = 0.1
#: Spooled bytes of a run that are stored at once.
FLUSH_BYTES: Final = 256 << 10
#: Bounds of one transaction, shared by its runs.
MOST_RUNS: Final = 50
MOST_EVENTS: Final = 5_000
MOST_BYTES: Final = 4 << 20
#: Failures of one run's own after which it ends without what cannot be stored.
MOST_STRIKES: Final = 6
_IDLE_SECONDS: Final = 1.0
_AWAY_SECONDS: Final = (0.2, 0.5, 1.0, 2.0)


@dataclass
class _Round:
    """One transaction: what goes in, and what is to be done once it is committed."""

    blocks: list[tuple[Progress, Sequence[bytes]]] = field(default_factory=list)
    steps: list[tuple[Run, Advance]] = field(default_factory=list)
    endings: list[tuple[Run, finish.Ending, int]] = field(default_factory=list)
    refused: list[Run] = field(default_factory=list)
    finished: finish.Finished = field(default_factory=lambda: finish.Finished((), Owed()))


class Shipper:
    """Ships all runs of a node, over one connection.

    Args:
        engine: one connection.
        runs: the table of runs.
        courier: tells followers and managers.
    """

    def __init__(self, engine: Engine, runs: Runs, courier: Courier) -> None:
        self._engine = engine
        self._runs = runs
        self._courier = courier
        self._log = logs.get(__name__)
        self._arrived = threading.Event()
        self._stopping = False
        self._failures = 0
        self._turn = 0
        #: Runs whose rows are not running any more; the agent compares and clears.
        self.refused = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shipper", daemon=True)

    @property
    def away(self) -> bool:
        """Whether the database did not answer when it was last needed."""
        return self._failures > 0

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """A run ended: look at once."""
        self._arrived.set()

    def stop(self, timeout: float = 5.0) -> None:
        """End after the transaction in hand; what is spooled stays for the next agent."""
        self._stopping = True
        self._arrived.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stopping:
            try:
                due = self._due()
                if due and self._ship(due):
                    continue
            except Exception:
                # whatever it was, this thread must live
                self._log.exception("a look at the spools failed")
            busy = self._runs.at(Phase.STARTED, Phase.ENDING, Phase.ENDED)
            self._arrived.wait(LOOK_EVERY if busy else _IDLE_SECONDS)
            self._arrived.clear()

    def _due(self) -> list[Run]:
        """Runs with something to store, in turns when there are more than fit."""
        now = clock.monotonic()
        due = []
        lag = 0
        for run in self._runs.at(Phase.STARTED, Phase.ENDING, Phase.ENDED):
            run.spooled = SpoolReader(run.directory.spool).size
            fresh = run.spooled - max(run.offset, 0)
            lag += fresh
            is_time = fresh >= FLUSH_BYTES or now - run.shipped_at >= FLUSH_SECONDS
            asked = run.phase is Phase.ENDED or run.offset < 0 or (fresh > 0 and is_time)
            if asked and now >= run.retry_at:
                due.append(run)
        SPOOL_LAG_BYTES.set(lag)
        if len(due) > MOST_RUNS:
            self._turn = (self._turn + MOST_RUNS) % len(due)
            due = (due[self._turn :] + due[: self._turn])[:MOST_RUNS]
        return due

    # -- one transaction

    def _ship(self, due: list[Run]) -> bool:
        """Store a batch of each; whether there is reason to go on at once."""
        try:
            progressed = self._store(due)
        except Exception as error:
            for run in due:
                run.offset = -1  # the commit's outcome is unknown: the row says where to go on
            if _is_of_the_data(error):
                return self._isolate(due, error)
            return self._wait_for_database(error)
        if self._failures:
            self._failures = 0
            self._log.info("events are stored again")
        return progressed

    def _store(self, due: Sequence[Run]) -> bool:
        with STORE_SECONDS.time():
            this = _Round()
            with transaction(self._engine) as connection:
                self._fill(connection, due, this)
                event_store.copy_events(connection, this.blocks)
                run_summaries.add_events(
                    connection, [(progress, len(lines)) for progress, lines in this.blocks]
                )
                event_store.advance(connection, [step for _, step in this.steps])
                if this.endings:
                    this.finished = finish.write_final(connection, this.endings)
        return self._committed(this)

    def _fill(self, connection: Connection, due: Sequence[Run], this: _Round) -> None:
        locked = event_store.lock_progress(connection, [run.pair for run in due])
        by_dispatch = {run.dispatch_id: run for run in due}
        this.refused = [by_dispatch[dispatch_id] for dispatch_id in locked.refused]
        share = max(1, len(locked.progress))
        for progress in locked.progress:
            run = by_dispatch[progress.dispatch_id]
            # read before the spool: what was ended then has nothing more to come
            ended = run.phase is Phase.ENDED
            batch = self._cut(run, progress, share, ended)
            stored = progress.stored + len(batch.lines)
            this.blocks.append((progress, batch.lines))
            if batch.next_offset != progress.spool_offset or run.offset < 0:
                this.steps.append((run, Advance(run.job_id, stored, batch.next_offset)))
            if ended and self._is_all(run, batch):
                ending = finish.checked(finish.ending_of(run), stored)
                this.endings.append((run, ending, stored))

    def _cut(self, run: Run, progress: Progress, share: int, ended: bool) -> Batch:
        """The next events from where the row says; none from a damaged spool."""
        try:
            return SpoolReader(run.directory.spool).read(
                progress.spool_offset,
                max_events=max(100, MOST_EVENTS // share),
                max_bytes=max(64 << 10, MOST_BYTES // share),
                cut=ended,
            )
        except SpoolError as error:
            self._log.error("a spool is damaged", error=str(error), **run.names)
            run.verdict = run.verdict or Verdict(Outcome.INTERNAL, f"damaged spool: {error}")
            return Batch([], progress.spool_offset, torn=True)

    @staticmethod
    def _is_all(run: Run, batch: Batch) -> bool:
        """Whether nothing comes behind a batch of a run that has ended."""
        return (
            batch.total is not None
            or batch.torn
            or batch.next_offset >= SpoolReader(run.directory.spool).size
        )

    def _committed(self, this: _Round) -> bool:
        """After the commit: files, counters, notices. Nothing here may undo anything."""
        final = {job.job_id for job in this.finished.jobs}
        EVENTS_STORED.inc(sum(len(lines) for _, lines in this.blocks))
        now = clock.monotonic()
        for run, step in this.steps:
            run.offset, run.stored = step.spool_offset, step.stored
            run.shipped_at = now
            run.strikes = 0
            if run.phase is Phase.STARTED:
                self._say_shipped(run)
            self._courier.live(run.job_id, step.stored, run.job_id in final)
        for run, ending, total in this.endings:
            if run.job_id in final:
                self._mark_final(run, ending, total)
        finish.count_final(this.finished)
        self._courier.owe(this.finished.owed)
        if this.refused:
            for run in this.refused:
                run.retry_at = now + _IDLE_SECONDS
            self.refused.set()
        return bool(this.steps or final)

    def _mark_final(self, run: Run, ending: finish.Ending, total: int) -> None:
        run.final_at = clock.boottime()
        run.enter(Phase.FINAL)
        self._courier.live(run.job_id, total, True)
        self._log.info("run ended", outcome=str(ending.outcome), events=total, **run.names)
        self._runs.moved()

    # -- trouble

    def _say_shipped(self, run: Run) -> None:
        """Tell the supervisor's quota; a full disk is the quota's matter, not the events'."""
        try:
            run.directory.write_shipped(run.offset)
        except RunDirectoryError as error:
            self._log.warning("a supervisor cannot be told", error=str(error), **run.names)

    def _wait_for_database(self, error: Exception) -> bool:
        """It is away, or refuses everybody: a new connection, after a while."""
        if not self._failures:
            self._log.warning("events cannot be stored now", error=logs.in_short(error))
        self._engine.dispose()
        pause = _AWAY_SECONDS[min(self._failures, len(_AWAY_SECONDS) - 1)]
        self._failures += 1
        self._arrived.clear()
        self._arrived.wait(pause)
        return False

    def _isolate(self, due: list[Run], error: Exception) -> bool:
        """One run's fault must not hold up the others: each on its own."""
        if len(due) == 1:
            self._strike(due[0], error)
            return False
        progressed = False
        for run in due:
            progressed = self._ship([run]) or progressed
        return progressed

    def _strike(self, run: Run, error: Exception) -> None:
        run.strikes += 1
        run.retry_at = clock.monotonic() + min(30.0, 0.5 * 2**run.strikes)
        self._log.error(
            "a run's events cannot be stored",
            error=logs.in_short(error),
            strikes=run.strikes,
            **run.names,
        )
        if run.strikes >= MOST_STRIKES:
            run.verdict = Verdict(
                Outcome.INTERNAL,
                f"the run's events cannot be stored ({type(error).__name__})",
            )
            self._give_up(run)

    def _give_up(self, run: Run) -> None:
        """End a run whose events the database refuses, with those that it took."""
        if run.phase is not Phase.ENDED:
            run.directory.request_stop("shutdown")
            return
        with transaction(self._engine) as connection:
            locked = event_store.lock_progress(connection, [run.pair])
            for progress in locked.progress:
                ending = finish.ending_of(run)
                finished = finish.write_final(
                    connection, [(run, ending, progress.stored)], bare=True
                )
        if locked.progress:
            self._mark_final(run, ending, progress.stored)
            self._courier.owe(finished.owed)


def _is_of_the_data(error: Exception) -> bool:
    """Whether the same would fail again and again because of what is stored.

    Classes 22 and 23 of SQLSTATE. A missing partition is of class 23 too, but will be made.
    """
    if not isinstance(error, DBAPIError):
        return True
    code = getattr(error.orig, "pgcode", None) or ""
    return code[:2] in ("22", "23") and "no partition of relation" not in str(error.orig)
