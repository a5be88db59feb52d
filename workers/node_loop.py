"""The agent's claiming thread: one look at the rows every ``cancel_poll``, and at once when told.

Nothing depends on a message: what was lost is found by the next look.
"""

from __future__ import annotations

import threading
from typing import Final

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from dispatcher import clock, logs
from dispatcher.actions.register_node import set_accepting
from dispatcher.broker.messages import Manager, wake
from dispatcher.db import node_rows
from dispatcher.db.change import raise_counter
from dispatcher.db.engine import is_away, transaction
from dispatcher.db.schema_check import check_schema
from dispatcher.errors import RunDirectoryError, SchemaError
from dispatcher.metrics import MESSAGES_IGNORED, NODE_ACCEPTING
from dispatcher.settings import Settings
from workers.claim import Claimer
from workers.courier import Courier
from workers.handover import Handed, Pair
from workers.recover_runs import Recovery
from workers.runs import Phase, Runs, Verdict
from workers.shipper import Shipper
from workers.trouble import why_behind, why_unfit

_AWAY_SECONDS: Final = (0.2, 0.5, 1.0, 2.0)
_SCHEMA_EVERY: Final = 60.0


class NodeLoop:
    """Claims, reads flags, compares, and says whether the node takes jobs."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        runs: Runs,
        claimer: Claimer,
        recovery: Recovery,
        shipper: Shipper,
        courier: Courier,
        *,
        node_id: int,
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._runs = runs
        self._claimer = claimer
        self._recovery = recovery
        self._shipper = shipper
        self._courier = courier
        self._node_id = node_id
        self._log = logs.get(__name__)
        self._arrived = threading.Event()
        self._lock = threading.Lock()
        self._starts: list[Pair] = []
        self._cancels: list[Pair] = []
        self._stopping = False
        self._failures = 0
        self._polled_at = self._checked_at = self._schema_at = -1e9
        self._suspect_ended = False
        self._unfit = self._stop_words = self._schema_words = ""
        self._said = ""
        #: How runs end that are claimed but not started, once nothing may start any more.
        self.refusal: Verdict | None = None
        self._thread = threading.Thread(target=self._run, name="claims", daemon=True)

    # -- from other threads

    @property
    def away(self) -> bool:
        """Whether the database did not answer when it was last needed."""
        return self._failures > 0

    @property
    def not_accepting(self) -> str:
        """Why no jobs are claimed; empty when they are."""
        return self._stop_words or self._schema_words or self._unfit

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """End the thread after the round in hand."""
        self._stopping = True
        self._arrived.set()
        self._thread.join(timeout)

    def wake(self) -> None:
        """Something is ready, or room came: look at once."""
        self._arrived.set()

    def take(self, handed: Handed) -> None:
        """What the Celery worker handed over."""
        if handed.unreadable or handed.ignored:
            MESSAGES_IGNORED.labels(handed.ignored or "hand-over").inc()
        with self._lock:
            self._starts += handed.start
            self._cancels += handed.cancel
        self._arrived.set()

    def suspect_ended(self) -> None:
        """A renewal ended a silence in which this node's waiting jobs were returned."""
        self._suspect_ended = True
        self._arrived.set()

    def stop_claiming(self, words: str) -> None:
        """Claim no more, and return what waits here."""
        self._stop_words = words
        self._arrived.set()

    # -- the thread

    def _run(self) -> None:
        while not self._stopping:
            self._arrived.wait(self._pause())
            self._arrived.clear()
            self._round()

    def _pause(self) -> float:
        if self._failures:
            return _AWAY_SECONDS[min(self._failures, len(_AWAY_SECONDS)) - 1]
        return max(0.0, self._polled_at + self._settings.cancel_poll - clock.monotonic())

    def _round(self) -> None:
        """One look; whatever goes wrong, the next one comes."""
        with self._lock:
            starts, self._starts = self._starts, []
            cancels, self._cancels = self._cancels, []
        try:
            self._claimer.offer(starts)
            self._look_at_machine()
            self._say_accepting()
            if clock.monotonic() - self._polled_at >= self._settings.cancel_poll or (
                self._shipper.refused.is_set()
            ):
                self._poll()
            elif cancels:
                self._claimer.stop_canceled(cancels)
            if not self.not_accepting and self._claimer.claim():
                self._arrived.set()
            self._claimer.start_ready(self.refusal)
            self._note_success()
        except SQLAlchemyError as error:
            self._note_failure(error)
        except (OSError, RunDirectoryError) as error:
            # no directory can be made: say so, and look again with the next check
            self._unfit = str(error)
            self._checked_at = clock.monotonic()
            self._log.error("no job can be taken", error=str(error))
        except Exception:
            self._log.exception("a look at this node's jobs failed")
            self._failures += 1

    def _poll(self) -> None:
        self._polled_at = clock.monotonic()
        suspicious = self._shipper.refused.is_set()
        self._shipper.refused.clear()
        before = [(run, run.phase) for run in self._runs.all()]
        with transaction(self._engine) as connection:
            rows = node_rows.active_jobs(connection, self._node_id, uptime=clock.boottime())
            if self._suspect_ended:
                raise_counter(connection)
        if self._suspect_ended:
            self._suspect_ended = False
            self._courier.owe(wake(Manager.TASK))
        self._claimer.see(rows)
        compared = self._recovery.compare(rows, before, suspicious=suspicious)
        self._claimer.prepare(compared.prepare)
        self._courier.owe(self._recovery.finish_lost(compared.lost))
        self._claimer.prepare(self._recovery.take_over())
        self._recovery.remove_old()
        if compared.again:
            self._shipper.wake()

    def take_over(self) -> None:
        """Decide about everything that an earlier agent left, before the thread starts."""
        self._claimer.prepare(self._recovery.take_over())

    # -- whether the node takes jobs

    def _look_at_machine(self) -> None:
        now = clock.monotonic()
        if now - self._checked_at >= self._settings.heartbeat:
            self._checked_at = now
            unfit = why_unfit(self._settings.data_dir) or why_behind(
                self._runs.at(Phase.STARTED), self._settings.spool_quota_bytes
            )
            if unfit != self._unfit:
                self._log.warning("the node's fitness changed", reason=unfit or "fit again")
            self._unfit = unfit
        if now - self._schema_at >= _SCHEMA_EVERY or self._failures:
            self._schema_at = now
            with transaction(self._engine) as connection:
                try:
                    check_schema(connection)
                    self._schema_words = ""
                except SchemaError as error:
                    self._schema_words = str(error)

    def _say_accepting(self) -> None:
        """Write a changed reason; while there is one, return what was started here regardless."""
        words = self.not_accepting
        NODE_ACCEPTING.set(0 if words else 1)
        if words == self._said and not (words and self._claimer.queued):
            return
        with transaction(self._engine) as connection:
            said = set_accepting(connection, self._node_id, words)
        self._said = words
        self._claimer.forget_all()
        self._courier.owe(said.owed)
        if said.returned:
            self._log.info("waiting jobs returned", jobs=said.returned, reason=words)

    @property
    def said(self) -> str:
        """The reason that the database has."""
        return self._said

    # -- the database

    def _note_success(self) -> None:
        if self._failures:
            self._failures = 0
            self._log.info("the database answers again")
            for run in self._runs.all():
                run.offset = -1
            self._shipper.wake()

    def _note_failure(self, error: SQLAlchemyError) -> None:
        if not self._failures:
            self._log.warning(
                "a look at this node's jobs failed", error=logs.in_short(error), away=is_away(error)
            )
        self._engine.dispose()  # after a fail-over the old connection may be a standby's
        self._failures += 1
        self._polled_at = -1e9
        self._shipper.refused.clear()
