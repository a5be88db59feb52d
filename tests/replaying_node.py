"""A node that plays recorded events in place of Ansible: many runs at once, at next to no cost.

Runs come by the managers' decisions and are claimed, stored and finished by the real moves; events
go through a real spool and COPY, with the summaries, as a node's shipper stores them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, Engine, text

from dispatcher import clock
from dispatcher.db import event_store, job_moves, run_summaries
from dispatcher.db.change import raise_counter
from dispatcher.db.engine import transaction
from dispatcher.db.event_store import Advance, Progress
from dispatcher.domain.outcome import Outcome
from tests.factories import make_node
from workers.spool import COLUMNS, SpooledEvent, SpoolReader, SpoolWriter

_LOOK: Final = 0.05
_RENEW: Final = 1.0


@dataclass(frozen=True)
class Recording:
    """A real run's events.

    Attributes:
        before: events that come at once; the others come when the run has lasted long enough.
    """

    events: Sequence[SpooledEvent]
    before: int
    outcome: Outcome


def record(engine: Engine, uuid: str, *, pauses_in: str) -> Recording:
    """The events of a run that has ended.

    Args:
        pauses_in: the task that lasts.
    """
    columns = ", ".join(name for name in COLUMNS if name != "event_data")
    with engine.connect() as connection:
        job = connection.execute(
            text("SELECT id, job_day, outcome FROM job WHERE uuid = :uuid"), {"uuid": uuid}
        ).one()
        rows = connection.execute(
            text(
                f"SELECT {columns}, event_data::text AS event_data FROM job_event"
                " WHERE job_day = :day AND job_id = :job ORDER BY counter"
            ),
            {"day": job.job_day, "job": job.id},
        ).mappings()
        events = [SpooledEvent(**row) for row in rows]
    last = max(e.counter for e in events if e.task == pauses_in and e.event.endswith("_start"))
    return Recording(events, last, Outcome(job.outcome))


class _Run:
    """One run: its spool, when its second part is due, and whether something waits to be stored."""

    def __init__(self, job_id: int, recording: Recording, lasts: float, spool: Path) -> None:
        self.recording = recording
        self.due = clock.monotonic() + lasts
        self.ended = False
        self.fresh = True
        spool.mkdir()
        self.spool = spool
        self._writer = SpoolWriter(spool)
        self._write(recording.events[: recording.before])

    def go_on(self) -> None:
        """Write the second part, once it is time."""
        if not self.ended and clock.monotonic() >= self.due:
            self._write(self.recording.events[self.recording.before :])
            self._writer.end(len(self.recording.events))
            self._writer.close()
            self.ended = self.fresh = True

    def _write(self, events: Sequence[SpooledEvent]) -> None:
        for event in events:
            self._writer.append_event(replace(event, created=clock.now()))


class ReplayingNode:
    """A registered node.

    Args:
        engine: a pool of one at least.
        spools: an empty directory.
        chosen: what is replayed for a run, from its extra variables, and the seconds that it lasts.
    """

    def __init__(
        self,
        engine: Engine,
        spools: Path,
        chosen: Callable[[Mapping[str, Any]], tuple[Recording, float]],
        *,
        capacity: int = 2000,
    ) -> None:
        self._engine = engine
        self._spools = spools
        self._chosen = chosen
        self._runs: dict[tuple[int, UUID], _Run] = {}
        self._stopping = threading.Event()
        self.failure: BaseException | None = None
        with transaction(engine) as connection:
            self._node_id = make_node(connection, "replaying", capacity=capacity, max_jobs=1000)
            raise_counter(connection)

    @contextmanager
    def running(self) -> Iterator[None]:
        """The node works until the block ends; then it takes no more jobs."""
        thread = threading.Thread(target=self._work)
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            thread.join()
        if self.failure is not None:
            raise self.failure

    def _work(self) -> None:
        renewed = float("-inf")
        try:
            while not self._stopping.wait(_LOOK):
                self._claim()
                self._store()
                if clock.monotonic() - renewed > _RENEW:
                    renewed = clock.monotonic()
                    self._renew("UPDATE node_lease SET seq = seq + 1 WHERE node_id = :node")
            self._renew("UPDATE node SET enabled = false WHERE id = :node")
        except BaseException as error:
            self.failure = error

    def _renew(self, statement: str) -> None:
        with transaction(self._engine) as connection:
            connection.execute(text(statement), {"node": self._node_id})

    def _claim(self) -> None:
        with transaction(self._engine) as connection:
            waiting = connection.execute(
                text(
                    "SELECT job.id, dispatch_id, extra_vars FROM job"
                    " JOIN job_input ON job_id = job.id WHERE status = 'waiting' AND node_id = :node"
                ),
                {"node": self._node_id},
            ).all()
            pairs = [(job, dispatch) for job, dispatch, _ in waiting]
            claimed = job_moves.claim(connection, pairs, node_id=self._node_id, epoch=1)
        variables = {job: given for job, _, given in waiting}
        for each in claimed:
            recording, lasts = self._chosen(variables[each.job_id])
            spool = self._spools / str(each.dispatch_id)
            pair = (each.job_id, each.dispatch_id)
            self._runs[pair] = _Run(each.job_id, recording, lasts, spool)

    def _store(self) -> None:
        """What has come since the last look, of all runs in one transaction, as a shipper does it."""
        for run in self._runs.values():
            run.go_on()
        fresh = [pair for pair, run in self._runs.items() if run.fresh]
        if not fresh:
            return
        with transaction(self._engine) as connection:
            locked = event_store.lock_progress(connection, fresh).progress
            cut = [(p, self._cut(p)) for p in locked]
            blocks = [(p, batch.lines) for p, batch in cut if batch.lines]
            event_store.copy_events(connection, blocks)
            run_summaries.add_events(connection, [(p, len(lines)) for p, lines in blocks])
            event_store.advance(
                connection,
                [
                    Advance(p.job_id, p.stored + len(batch.lines), batch.next_offset)
                    for p, batch in cut
                    if batch.next_offset != p.spool_offset
                ],
            )
            ended = [p for p, batch in cut if batch.total is not None]
            self._finish(connection, ended)
        for progress in locked:
            self._runs[progress.job_id, progress.dispatch_id].fresh = False
        for progress in ended:
            del self._runs[progress.job_id, progress.dispatch_id]

    def _cut(self, progress: Progress) -> Any:
        run = self._runs[progress.job_id, progress.dispatch_id]
        return SpoolReader(run.spool).read(
            progress.spool_offset, max_events=5_000, max_bytes=4 << 20
        )

    def _finish(self, connection: Connection, ended: Sequence[Progress]) -> None:
        for progress in ended:
            run = self._runs[progress.job_id, progress.dispatch_id]
            job_moves.finish(
                connection,
                progress.job_id,
                dispatch_id=progress.dispatch_id,
                outcome=run.recording.outcome,
                explanation="",
            )
        if ended:
            raise_counter(connection)
