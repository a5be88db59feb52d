"""A bound in the client on every answer of the database.

The server's own time-outs hold while its process runs. One that is frozen (stopped, a machine out
of memory, a hung disk) answers nothing, while its kernel keeps the connection open; and one that is
gone behind a balancer that keeps the client's side open is never missed by TCP either. The caller's
thread and its place in the pool would be held for ever: a node would claim nothing any more. One thread of the process looks at all
waiting connections and shuts down the socket of the late ones; libpq then reports a lost
connection, which :func:`dispatcher.db.engine.is_away` knows.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from psycopg2 import InterfaceError, OperationalError, extensions
from sqlalchemy import Connection

from dispatcher import clock, logs

#: Seconds for what takes the server no time: the pool's ping.
AT_ONCE: Final = 5.0
#: Seconds between the server's time-out and the client's.
_MARGIN: Final = 2.0
_LOOK_SECONDS: Final = 0.5

log = logs.get(__name__)


class Watchdog:
    """Which connections are waited for, and until when. A wait costs two entries under a lock."""

    def __init__(self) -> None:
        self.forget()
        # a child has neither the thread nor, for certain, a free lock
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Begin anew: no wait, no thread."""
        self._lock = threading.Lock()
        self._waits: dict[object, tuple[int, float]] = {}
        self._thread: threading.Thread | None = None

    @contextmanager
    def over(self, connection: extensions.connection, seconds: float) -> Iterator[None]:
        """Shut the connection's socket if the block takes longer."""
        # its own key: libpq closes a lost socket by itself, and its number is given out anew
        key, until = object(), clock.monotonic() + seconds
        with self._lock:
            self._waits[key] = (connection.fileno(), until)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._waits.pop(key, None)

    def _run(self) -> None:
        while True:
            clock.sleep(_LOOK_SECONDS)
            for _ in range(self._shut_late_ones()):
                log.warning("the database has not answered in time")

    def _shut_late_ones(self) -> int:
        now = clock.monotonic()
        with self._lock:  # under which a wait that is over has been taken out
            late = [key for key, (_, until) in self._waits.items() if until < now]
            for key in late:
                _shut(self._waits.pop(key)[0])
        return len(late)


def _shut(descriptor: int) -> None:
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as duplicate:
        duplicate.shutdown(socket.SHUT_RDWR)


_WATCHDOG: Final = Watchdog()


class WatchedConnection(extensions.connection):
    """A connection of psycopg2 on which no round trip takes longer than ``bound`` seconds."""

    bound: float = AT_ONCE

    def cursor(self, *args: Any, **options: Any) -> Any:
        """A cursor whose statements are watched."""
        options.setdefault("cursor_factory", _WatchedCursor)
        return super().cursor(*args, **options)

    def commit(self) -> None:
        """End the transaction."""
        with _WATCHDOG.over(self, self.bound):
            super().commit()

    # What SQLAlchemy does when a connection returns to the pool. On a lost one it is nothing: the
    # server has rolled back, and the pool's ping finds it. Raised there, it would fail a caller who
    # has its answer, and the connection's place in the pool would be gone for ever.

    def rollback(self) -> None:
        """Give the transaction up; a lost connection has none."""
        with suppress(OperationalError, InterfaceError), _WATCHDOG.over(self, self.bound):
            super().rollback()

    def set_isolation_level(self, level: int | None) -> None:
        """Change the isolation level; on a lost connection the next statement says that it is."""
        with suppress(OperationalError, InterfaceError), _WATCHDOG.over(self, self.bound):
            super().set_isolation_level(level)


class _WatchedCursor(extensions.cursor):
    def copy_expert(self, sql: Any, file: Any, size: int = 8192) -> None:
        with _WATCHDOG.over(self.connection, _bound(self)):
            super().copy_expert(sql, file, size)

    def execute(self, query: Any, vars: Any = None) -> None:
        with _WATCHDOG.over(self.connection, _bound(self)):
            super().execute(query, vars)

    def executemany(self, query: Any, vars_list: Any) -> None:
        with _WATCHDOG.over(self.connection, _bound(self)):
            super().executemany(query, vars_list)


def _bound(cursor: extensions.cursor) -> float:
    return getattr(cursor.connection, "bound", AT_ONCE)


@contextmanager
def bounded(connection: Connection, statement_timeout: float) -> Iterator[None]:
    """Allow each statement of the block what the server allows it, and a little.

    Nothing on a connection that is not watched.
    """
    driver: Any = connection.connection.dbapi_connection
    if not isinstance(driver, WatchedConnection):
        yield
        return
    driver.bound = statement_timeout + _MARGIN
    try:
        yield
    finally:
        driver.bound = AT_ONCE
