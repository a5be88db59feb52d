"""The embedded servers of one stack: those whose URLs are not set, kept running."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dispatcher import clock
from dispatcher.embedded.postgres import EmbeddedPostgres
from dispatcher.embedded.server import ServerProcess
from dispatcher.embedded.state import ProcessState
from dispatcher.embedded.valkey import EmbeddedValkey
from dispatcher.errors import ConfigurationError
from dispatcher.processes import descendants
from dispatcher.settings import Settings

#: Names in ``stack.json``, in the order in which they start.
NAMES = ("postgresql", "valkey")
_LONGEST_PAUSE = 30.0


class Servers:
    """PostgreSQL and Valkey below the data directory.

    Args:
        settings: a URL that is set means that its server is not ours.
        logs: directory of their logs.
        say: takes one line for whoever watches.
        canceled: looked at while a server starts.
    """

    def __init__(
        self,
        settings: Settings,
        logs: Path,
        *,
        say: Callable[[str], None],
        canceled: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._say = say
        self._canceled = canceled
        self._servers: dict[str, EmbeddedPostgres | EmbeddedValkey] = {}
        self._restarts = dict.fromkeys(NAMES, 0)
        self._pauses = dict.fromkeys(NAMES, 0.0)
        self._due = dict.fromkeys(NAMES, 0.0)
        directory = settings.data_dir
        if settings.database_url is None:
            self._servers["postgresql"] = EmbeddedPostgres(
                directory / "postgres", settings.embedded_user, log=logs / "postgresql.log"
            )
        if settings.broker_url is None:
            self._servers["valkey"] = EmbeddedValkey(directory / "valkey", log=logs / "valkey.log")

    def start(self) -> Settings:
        """Start them; the settings with every URL.

        Raises:
            ConfigurationError: one does not start; says why.
        """
        urls: dict[str, Any] = {"data_dir": self._settings.data_dir}
        for name, setting in zip(NAMES, ("database_url", "broker_url"), strict=True):
            if name in self._servers:
                urls[setting] = self._servers[name].start(canceled=self._canceled)
        return self._settings.model_copy(update=urls)

    def look(self) -> None:
        """Start again what has ended by itself; roles ride it out.

        One that does not start (a full disk) is tried again, with growing pauses.
        """
        for name, server in self._servers.items():
            if server.process.running():
                self._pauses[name] = 0.0
            elif clock.monotonic() >= self._due[name]:
                self._start_again(name, server)

    def _start_again(self, name: str, server: EmbeddedPostgres | EmbeddedValkey) -> None:
        self._restarts[name] += 1
        self._say(f"{server.process.name} does not run; it is started again")
        try:
            server.start(canceled=self._canceled)
            self._say(f"{server.process.name} runs again")
        except (ConfigurationError, OSError) as error:
            self._pauses[name] = min(2 * self._pauses[name] + 1, _LONGEST_PAUSE)
            self._due[name] = clock.monotonic() + self._pauses[name]
            self._say(f"{error}; next try in {self._pauses[name]:g} s")

    def stop(self) -> None:
        """Stop them, the database last."""
        for server in reversed(self._servers.values()):
            server.stop()

    def processes(self) -> list[ServerProcess]:
        """Each server's process."""
        return [server.process for server in self._servers.values()]

    def pids(self) -> set[int]:
        """The servers and everything below them."""
        marks = [process.mark for process in self.processes()]
        return {
            pid
            for mark in marks
            if mark is not None
            for pid in (mark.pid, *(each.pid for each in descendants(mark.pid)))
        }

    def describe(self) -> list[ProcessState]:
        """For ``stack.json``."""
        return [
            ProcessState(
                name,
                server.process.mark,
                "ready" if server.process.running() else "down",
                self._restarts[name],
            )
            for name, server in self._servers.items()
        ]
