"""Renews the node's lease: its own thread, its own connection, one statement (docs/protocols.md 4)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sqlalchemy import Engine

from dispatcher import clock, logs
from dispatcher.db import node_rows
from dispatcher.db.clock_difference import note_clock
from dispatcher.errors import ConfigurationError
from dispatcher.metrics import LEASE_LEFT_SECONDS, LEASE_RENEWALS
from dispatcher.settings import Settings
from workers import lease_file

#: Seconds that fencing's margin must hold: a look, the ladder, a stalled machine (docs/protocols.md 4.7).
LOOK: Final = 1.0
STALL: Final = 10.0
#: Two clocks of one machine may drift apart by this part.
DRIFT: Final = 0.001
_RETRY_SECONDS: Final = 1.0


def assert_constants(settings: Settings) -> None:
    """Refuse settings under which a fenced node could still play when its jobs are given away.

    Raises:
        ConfigurationError: a relation does not hold; names it.
    """
    needed = LOOK + settings.stop_grace + STALL + DRIFT * settings.node_lost_after
    if settings.node_lost_margin < needed:
        raise ConfigurationError(
            f"DISPATCHER_NODE_LOST_MARGIN: {settings.node_lost_margin:g} s is too short: a look"
            f" ({LOOK:g} s), stop_grace ({settings.stop_grace:g} s), a stalled machine"
            f" ({STALL:g} s) and the clocks' drift need {needed:g} s"
        )


class NodeLease:
    """The lease under one epoch.

    Args:
        settings: heartbeat and fencing time.
        engine: one connection, used by nothing else.
        node_id, epoch: of the registration.
        on_refused: called once, in this thread, when a renewal is refused.
        on_suspect: called when a renewal ended a silence in which jobs were taken away.
    """

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        *,
        node_id: int,
        epoch: int,
        on_refused: Callable[[], None],
        on_suspect: Callable[[], None],
    ) -> None:
        self._heartbeat = settings.heartbeat
        self._fencing_seconds = settings.fencing_seconds
        self._path: Path = lease_file.lease_path(settings.data_dir)
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._node_id = node_id
        self._epoch = epoch
        self._on_refused = on_refused
        self._on_suspect = on_suspect
        self._log = logs.get(__name__)
        self._stopping = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def start(self, registered_sent: float) -> None:
        """Begin renewing.

        Args:
            registered_sent: CLOCK_BOOTTIME just before the registration was sent: the first lease.
        """
        lease_file.write(self._path, registered_sent + self._fencing_seconds)
        self._thread.start()

    def stop(self) -> None:
        """Renew no more; the lease goes on until it lapses, and playbooks with it."""
        self._stopping.set()
        self._thread.join(timeout=2)

    def left(self) -> float:
        """Seconds until playbooks must be stopped; zero or less once lapsed."""
        return lease_file.remaining(self._path)

    def _run(self) -> None:
        wait = self._heartbeat
        while not self._stopping.wait(wait):
            began = clock.monotonic()
            wait = min(_RETRY_SECONDS, self._heartbeat)
            try:
                if not self._renew():
                    LEASE_RENEWALS.labels("refused").inc()
                    self._on_refused()
                    return
                wait = max(0.05, self._heartbeat - (clock.monotonic() - began))
            except Exception as error:
                # whatever it was, this thread must live: without it the lease lapses
                LEASE_RENEWALS.labels("failed").inc()
                self._engine.dispose()  # after a fail-over the old connection may be a standby's
                self._note_failure(error)
            LEASE_LEFT_SECONDS.set(self.left())

    def _renew(self) -> bool:
        with self._engine.connect() as connection:
            sent, sent_wall = clock.boottime(), clock.now()
            renewed = node_rows.renew_lease(connection, node_id=self._node_id, epoch=self._epoch)
            answered_wall = clock.now()
        if renewed is None:
            return False
        # Only now is the commit confirmed; the deadline counts from when it was sent.
        lease_file.write(self._path, sent + self._fencing_seconds)
        LEASE_RENEWALS.labels("renewed").inc()
        note_clock(sent_wall, renewed.at, answered_wall)
        if self._failing:
            self._failing = False
            self._log.info("the lease is renewed again")
        if renewed.was_suspect:
            self._on_suspect()
        return True

    def _note_failure(self, error: Exception) -> None:
        if not self._failing:
            self._failing = True
            self._log.warning(
                "the lease cannot be renewed",
                error=logs.in_short(error),
                seconds_left=round(self.left(), 1),
            )
