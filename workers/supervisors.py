"""Starts supervisors, notices their ends, and ends those that give no sign of life."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from dispatcher import clock, logs
from dispatcher.domain.outcome import Outcome
from dispatcher.errors import ConfigurationError, DispatcherError, RunDirectoryError
from dispatcher.settings import Settings
from workers import lease_file
from workers.fork_server import ForkServer, ForkServerGone
from workers.runs import Phase, Run, Runs, Verdict
from workers.watched import Watched, record_of

#: Seconds without a sign of life after which a supervisor is killed (docs/protocols.md 4.4).
SILENT_LIMIT: Final = 15.0
#: Seconds past its own ladder that a supervisor has to write its result.
LATE: Final = 10.0
#: Seconds between two looks at signs of life.
LOOK_EVERY: Final = 1.0
#: Starts of a fork server that are tried before a run ends in error.
_TRIES: Final = 3
FENCED: Final = Verdict(
    Outcome.FENCED, "stopped: the node could not renew its lease in the database"
)


class Supervisors:
    """All supervisors of this node.

    Args:
        settings: data directory and ladder.
        node: its name.
        runs: the table of runs.
        on_end: called when a supervisor has ended, with its run at phase ENDING.
    """

    def __init__(
        self, settings: Settings, node: str, runs: Runs, on_end: Callable[[Run], None]
    ) -> None:
        self._data_dir = settings.data_dir
        self._node = node
        self._stop_grace = settings.stop_grace
        self._runs = runs
        self._on_end = on_end
        self._log = logs.get(__name__)
        self._lock = threading.Lock()
        self._watched: dict[int, Watched] = {}
        self._locks_only: list[Watched] = []
        self._server: ForkServer | None = None
        self._server_fd = -1
        self._epoll = select.epoll()
        self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll.register(self._wake_fd, select.EPOLLIN)
        self._looked_at = clock.monotonic()

    # -- starting

    def open(self) -> None:
        """Start the fork server. Without one, the first start tries again."""
        try:
            with self._lock:
                self._open()
        except ConfigurationError as error:
            self._log.error("no supervisor can be started", error=str(error))

    def _open(self) -> ForkServer:
        """The fork server; a new one when the last one has ended."""
        if self._server is not None:
            try:
                self._server.poll_exits()
            except (OSError, ForkServerGone):
                self._log.error("the fork server ended: a new one is started")
                self._close_server()
        if self._server is None:
            self._server = ForkServer.start(self._data_dir, self._node)
            self._server_fd = self._server.fileno()
            self._epoll.register(self._server_fd, select.EPOLLIN)
        return self._server

    def _open_patiently(self) -> ForkServer:
        """The fork server; one that ends while it starts is tried again: no run was asked for yet."""
        for left in reversed(range(_TRIES)):
            try:
                return self._open()
            except ConfigurationError as error:
                if not left:
                    raise
                self._log.warning("the fork server is started again", error=str(error))
        raise AssertionError

    def start(self, run: Run) -> None:
        """Ask for a supervisor.

        The run ends in error when that fails and nothing can have been started.
        """
        run.enter(Phase.STARTED)
        try:
            with self._lock:
                pid = self._open_patiently().start_supervisor(run.directory.path)
        except (OSError, DispatcherError) as error:
            self._log.error("no supervisor was started", error=str(error), **run.names)
            self.close()
            self._settle_failed_start(run, str(error))
            return
        self._note_deadline(run)
        self._watch(Watched.forked(run, pid))

    def _settle_failed_start(self, run: Run, words: str) -> None:
        """The fork server broke: either we win the start and end the run, or it was started."""
        if run.directory.take_start():
            run.verdict = Verdict(Outcome.INTERNAL, f"no supervisor could be started: {words}")
            self._end(run)
        else:
            self.adopt(run)

    def adopt(self, run: Run) -> None:
        """Watch a supervisor that is there already."""
        run.enter(Phase.STARTED)
        self._note_deadline(run)
        self._watch(Watched.found(run))

    def _note_deadline(self, run: Run) -> None:
        """When the run's own time-out must have ended it; its supervisor measures it too."""
        try:
            timeout = run.directory.read_job().timeout
        except RunDirectoryError as error:
            self._log.error("a run without a readable job", error=str(error), **run.names)
            return
        if timeout > 0:
            record = record_of(run)
            began = clock.boottime() if record is None else record.started_at
            run.deadline = began + timeout + self._stop_grace + LATE

    def _watch(self, watched: Watched) -> None:
        with self._lock:
            if watched.pidfd < 0:
                self._locks_only.append(watched)
            else:
                self._watched[watched.pidfd] = watched
                self._epoll.register(watched.pidfd, select.EPOLLIN)
        self.wake()

    # -- watching

    def wake(self) -> None:
        """End a :meth:`watch` that is under way."""
        os.eventfd_write(self._wake_fd, 1)

    def watch(self, timeout: float) -> None:
        """Wait for ends, at most ``timeout`` seconds; look at signs of life when it is time."""
        if self._locks_only:
            timeout = min(timeout, 0.1)
        for fd, _ in self._epoll.poll(timeout):
            if fd == self._wake_fd:
                with suppress(BlockingIOError):
                    os.eventfd_read(self._wake_fd)
            elif fd == self._server_fd:
                self._collect_exits()
            else:
                self._ended(fd)
        for watched in list(self._locks_only):
            if not watched.run.directory.is_alive():
                self._locks_only.remove(watched)
                self._end(watched.run)
        if clock.monotonic() - self._looked_at >= LOOK_EVERY:
            self._looked_at = clock.monotonic()
            self._look()

    def _collect_exits(self) -> None:
        """Let the fork server's news be read; ends themselves are seen on the pidfds.

        Under the lock: a start that is under way waits for its answer on the same socket.
        """
        with self._lock:
            try:
                if self._server is not None:
                    self._server.poll_exits()
            except (OSError, ForkServerGone):
                self._log.error("the fork server ended: the next start makes a new one")
                self._close_server()

    def _ended(self, pidfd: int) -> None:
        with self._lock:
            watched = self._watched.pop(pidfd, None)
            with suppress(OSError):
                self._epoll.unregister(pidfd)
        if watched is not None:
            watched.close()
            self._end(watched.run)

    def _end(self, run: Run) -> None:
        if run.enter(Phase.ENDING):
            self._on_end(run)

    def _look(self) -> None:
        """Kill supervisors that are silent, late, or go on under a lapsed lease."""
        lapsed = lease_file.remaining(lease_file.lease_path(self._data_dir)) <= 0
        for watched in [*self._watched.values(), *self._locks_only]:
            if lapsed:
                self.request_stop(watched.run, "fenced")
            verdict = self._why_kill(watched)
            if verdict is not None:
                self._kill(watched, verdict)

    def _why_kill(self, watched: Watched) -> Verdict | None:
        run = watched.run
        silent = watched.silent_for()
        if silent > SILENT_LIMIT:
            return Verdict(
                Outcome.INTERNAL,
                f"the run's supervisor gave no sign of life for {silent:.0f} s and was killed",
            )
        now = clock.boottime()
        if run.stop_asked_at is not None and now - run.stop_asked_at > self._stop_grace + LATE:
            return verdict_of_stop(run) or Verdict(Outcome.CANCELED, "canceled")
        if run.deadline is not None and now > run.deadline:
            return Verdict(Outcome.TIMEOUT, "stopped: the time-out was reached")
        return None

    # -- stopping

    def request_stop(self, run: Run, reason: str) -> None:
        """Ask a supervisor to stop its playbook by the ladder; the first reason stands."""
        if run.stop_asked_at is not None:
            return
        run.stop_asked_at = clock.boottime()
        self._log.info("stop requested", reason=reason, **run.names)
        try:
            run.directory.request_stop(reason)
        except RunDirectoryError as error:
            self._log.error("a stop could not be requested", error=str(error), **run.names)

    def kill(self, run: Run, verdict: Verdict) -> None:
        """Kill a run's supervisor, if it has one; the wrapper takes the playbook along."""
        for watched in [*self._watched.values(), *self._locks_only]:
            if watched.run is run:
                self._kill(watched, verdict)

    def kill_all(self, verdict: Verdict) -> None:
        """Kill every supervisor; their wrappers take the playbooks along."""
        for watched in [*self._watched.values(), *self._locks_only]:
            self._kill(watched, verdict)

    def _kill(self, watched: Watched, verdict: Verdict) -> None:
        run = watched.run
        if not watched.killed:
            watched.killed = True
            if not (run.directory.path / "result.json").exists():
                run.verdict = verdict
            self._log.warning("supervisor killed", why=verdict.explanation, **run.names)
        watched.send(signal.SIGCONT)
        watched.send(signal.SIGKILL)

    def close(self) -> None:
        """Let the fork server end; supervisors go on."""
        with self._lock:
            self._close_server()

    def _close_server(self) -> None:
        if self._server is not None:
            with suppress(OSError, ValueError):
                self._epoll.unregister(self._server_fd)
            self._server.close()
            self._server, self._server_fd = None, -1


def verdict_of_stop(run: Run) -> Verdict | None:
    """What a requested stop makes of a run that left no result."""
    reason = run.directory.stop_requested()
    if reason in ("cancel", "shutdown"):
        return Verdict(Outcome.CANCELED, "canceled")
    return FENCED if reason == "fenced" else None
