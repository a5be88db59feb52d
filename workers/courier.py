"""Tells others, after the commit: managers to wake, followers of new events.

In a thread of its own, so that a frozen broker holds up neither storing nor claiming. All of it
may be lost (docs/protocols.md 1).
"""

from __future__ import annotations

import threading

from dispatcher import clock
from dispatcher.broker.messages import Owed
from dispatcher.broker.publish import Publisher

#: Seconds between two looks whether the broker answers, when there is nothing to say.
_TRY_EVERY = 10.0


class Courier:
    """Publishes what other threads leave here; the newest notice of a job replaces older ones."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._lock = threading.Lock()
        self._arrived = threading.Event()
        self._stopping = False
        self._owed = Owed()
        self._live: dict[int, tuple[int, bool]] = {}
        self._reachable = True
        self._thread = threading.Thread(target=self._run, name="courier", daemon=True)

    @property
    def broker_reachable(self) -> bool:
        """Whether the broker answered when it was last needed."""
        return self._reachable

    def start(self) -> None:
        """Start the thread; it opens the connection."""
        self._thread.start()

    def stop(self, timeout: float = 3.0) -> None:
        """Publish what is left, then end."""
        self._stopping = True
        self._arrived.set()
        self._thread.join(timeout)

    def owe(self, owed: Owed) -> None:
        """Publish soon what a committed transaction owes."""
        if owed:
            with self._lock:
                self._owed += owed
            self._arrived.set()

    def live(self, job_id: int, stored: int, final: bool) -> None:
        """Say soon that events up to ``stored`` can be read."""
        with self._lock:
            self._live[job_id] = (stored, final)
        self._arrived.set()

    def _run(self) -> None:
        self._reachable = self._publisher.warm()
        tried = clock.monotonic()
        while True:  # a publisher never raises
            arrived = self._arrived.wait(_TRY_EVERY)
            self._arrived.clear()
            with self._lock:
                owed, self._owed = self._owed, Owed()
                live, self._live = self._live, {}
            if owed:
                self._reachable = self._publisher.publish(owed)
                tried = clock.monotonic()
            for job_id, (stored, final) in live.items():
                self._publisher.notify_live(job_id, stored, final)
            if not arrived and clock.monotonic() - tried >= _TRY_EVERY:
                self._reachable = self._publisher.warm()
                tried = clock.monotonic()
            if self._stopping and not self._arrived.is_set():
                return
