"""One server process as a direct child: started, waited for, stopped, found again after a crash."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dispatcher import clock
from dispatcher.embedded.processes import Account, ProcessMark, last_lines, start_child
from dispatcher.errors import ConfigurationError

_LOOK = 0.02


class ServerProcess:
    """The process of an embedded server.

    Args:
        name: for messages.
        record: file that holds its :class:`ProcessMark` while it may be running.
        log: file that its output is appended to.
        stop_ladder: signals that stop it, each with the seconds to wait.
        death_signal: what it gets when this process dies.
    """

    def __init__(
        self,
        name: str,
        *,
        record: Path,
        log: Path,
        stop_ladder: Sequence[tuple[int, float]],
        death_signal: signal.Signals,
    ) -> None:
        self.name = name
        self.log = log
        self._record = record
        self._ladder = stop_ladder
        self._death_signal = death_signal
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def mark(self) -> ProcessMark | None:
        """The running process."""
        if self._process is None or self._process.poll() is not None:
            return None
        return ProcessMark.of(self._process.pid)

    def stop_left_over(self) -> bool:
        """Stop the server that a crashed parent left behind. Callers hold the directory's lock.

        Returns:
            Whether there was one.

        Raises:
            ConfigurationError: it does not end.
        """
        mark = ProcessMark.read(self._record)
        found = mark is not None and mark.alive()
        if mark is not None and found and not mark.stop(self._ladder):
            raise ConfigurationError(
                f"{self.name}: an earlier server (pid {mark.pid}) does not end"
            )
        self._record.unlink(missing_ok=True)
        return found

    def start(
        self,
        program: Sequence[str | Path],
        *,
        environment: Mapping[str, str],
        account: Account | None = None,
        directory: Path | None = None,
    ) -> None:
        """Start the program and record it."""
        with self.log.open("ab") as output:
            self._process = start_child(
                program,
                death_signal=self._death_signal,
                output=output,
                environment=environment,
                account=account,
                directory=directory,
            )
        mark = ProcessMark.of(self._process.pid)
        if mark is not None:
            mark.write(self._record)

    def wait_ready(
        self,
        probe: Callable[[], bool],
        *,
        timeout: float,
        canceled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Wait until ``probe`` answers true.

        Args:
            probe: tries to reach the server.
            timeout: seconds.
            canceled: looked at meanwhile; true stops the server and raises.

        Raises:
            ConfigurationError: the server ended, or is not ready in time; with its last words.
        """
        deadline = clock.monotonic() + timeout
        while not probe():
            if not self.running():
                raise ConfigurationError(f"{self.name} did not start: {last_lines(self.log)}")
            if canceled() or clock.monotonic() > deadline:
                self.stop()
                raise ConfigurationError(
                    f"{self.name} was not ready within {timeout:.0f} s: {last_lines(self.log)}"
                )
            clock.sleep(_LOOK)

    @property
    def pid(self) -> int:
        """The child's pid; 0 before there was one."""
        return self._process.pid if self._process else 0

    def running(self) -> bool:
        """Whether the child runs."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """Stop the child by its ladder; it may have ended already."""
        if self._process is None:
            return
        if self._process.poll() is None:
            mark = ProcessMark.of(self._process.pid)
            if mark is not None:
                mark.stop(self._ladder)
            self._process.wait()
        self._process = None
        self._record.unlink(missing_ok=True)
