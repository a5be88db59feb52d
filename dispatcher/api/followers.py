"""What wakes an open event stream: live notices, and one look at the database for all of them.

A stream that waits costs neither a thread nor a connection. Every :data:`POLL_SECONDS` one
statement reads the states of all followed jobs, because notices may be lost (docs/protocols.md
5.5); a job that has moved, or that could not be looked at, wakes its streams, which then read for
themselves.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, TypeVar

from anyio import CapacityLimiter, to_thread
from sqlalchemy import Engine

from dispatcher import logs
from dispatcher.broker.live import LiveListener, Notice
from dispatcher.db.engine import reading, unavailable_when_away
from dispatcher.db.job_state import JobState, read_states
from dispatcher.errors import Unavailable

log = logs.get(__name__)

T = TypeVar("T")

#: Seconds between two looks at the followed jobs.
POLL_SECONDS: Final = 2.0


class Signal:
    """Set when a followed job may have moved, or the server stops."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.stopping = False

    def set(self) -> None:
        self._event.set()

    async def wait(self, timeout: float) -> bool:
        """Wait until it is set, and clear it; false when ``timeout`` seconds went by."""
        try:
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


class Followers:
    """The open streams of one server; used from its event loop only.

    Args:
        engine: the server's pool; at most ``readers`` of its connections are used at once.
        listener: live notices; None: only the database is looked at.
        readers: most reads of streams at once, so that requests always find a connection.
    """

    def __init__(self, engine: Engine, listener: LiveListener | None, *, readers: int) -> None:
        self._engine = engine
        self._listener = listener
        self._limit = readers
        self._signals: dict[int, set[Signal]] = defaultdict(set)
        self._seen: dict[int, JobState] = {}
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listen and look while the block lasts."""
        self._loop = asyncio.get_running_loop()
        self._readers = CapacityLimiter(self._limit)
        if self._listener is not None:
            self._listener.start()
        poll = asyncio.create_task(self._poll())
        try:
            yield
        finally:
            poll.cancel()
            if self._listener is not None:
                await to_thread.run_sync(self._listener.stop)

    def stop_soon(self) -> None:
        """:meth:`stop` from another thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.stop)

    def stop(self) -> None:
        """End every stream: the server is about to stop."""
        self._stopping = True
        for signals in self._signals.values():
            for signal in signals:
                signal.stopping = True
                signal.set()

    @asynccontextmanager
    async def follow(self, job_id: int) -> AsyncIterator[Signal]:
        """Be woken when the job may have moved, from now on: subscribe first, then read."""
        signal = Signal()
        signal.stopping = self._stopping
        loop = asyncio.get_running_loop()

        def on_notice(_notice: Notice) -> None:
            loop.call_soon_threadsafe(signal.set)

        self._signals[job_id].add(signal)
        subscription = (
            None if self._listener is None else self._listener.subscribe(job_id, on_notice)
        )
        try:
            yield signal
        finally:
            if subscription is not None:
                subscription.close()
            self._signals[job_id].discard(signal)
            if not self._signals[job_id]:
                del self._signals[job_id]
                self._seen.pop(job_id, None)

    async def read(self, function: Callable[[], T]) -> T:
        """Run a read of a stream in a thread."""
        return await to_thread.run_sync(function, limiter=self._readers)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            jobs = list(self._signals)
            if not jobs:
                continue
            try:
                states = await self.read(partial(self._states, jobs))
            except Unavailable:
                continue  # the streams try by themselves; nobody is told that nothing came
            except Exception:
                log.exception("looking_at_followed_jobs_failed")
                continue
            for job_id in jobs:
                state = states.get(job_id)
                if state is None or state != self._seen.get(job_id):
                    for signal in self._signals.get(job_id, ()):
                        signal.set()
                if state is not None and job_id in self._signals:
                    self._seen[job_id] = state

    def _states(self, jobs: list[int]) -> dict[int, JobState]:
        with unavailable_when_away(), reading(self._engine) as connection:
            return read_states(connection, jobs)
