"""One role of the stack as a child process: started, watched, started again when it ends."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from dispatcher import clock
from dispatcher.embedded.processes import ProcessMark, last_lines, start_child
from dispatcher.embedded.roles import Role
from dispatcher.embedded.state import ProcessState

#: Seconds before a role that ended is started again: doubled up to the last, forgotten when it
#: has run well for a while.
_BACKOFF: Final = (0.5, 8.0)
_RAN_WELL: Final = 30.0
#: What a role exits with when its settings or the schema do not fit.
REFUSED: Final = 2
_LOG_LIMIT: Final = 20_000_000


class RoleProcess:
    """A role and its process.

    Args:
        role: what is run.
        log: file that its output is appended to.
        environment: variables of the process; its settings are among them.
        directory: working directory.
    """

    def __init__(
        self, role: Role, *, log: Path, environment: Mapping[str, str], directory: Path
    ) -> None:
        self.role = role
        self.log = log
        self.restarts = 0
        self.state: Literal["down", "starting", "ready"] = "down"
        self._environment = environment
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._mark: ProcessMark | None = None
        self._started = 0.0
        self._due = 0.0
        self._last_code: int | None = None
        self._pause = _BACKOFF[0]

    def start(self) -> None:
        """Start the process."""
        keep_small(self.log)
        with self.log.open("ab") as output:
            # -P: modules of the same name in the working directory are not ours
            self._process = start_child(
                [sys.executable, "-P", *self.role.arguments],
                death_signal=signal.SIGTERM,
                output=output,
                environment=self._environment,
                directory=self._directory,
            )
        self._mark = ProcessMark.of(self._process.pid)
        self._started = clock.monotonic()
        self.state = "starting"

    def look(self) -> str | None:
        """Notice an end, a readiness, a restart that is due; act, and say what is worth saying."""
        if self._process is None:
            if clock.monotonic() >= self._due:
                self.restarts += 1
                self.start()
            return None
        code = self._process.poll()
        if code is not None:
            return self._ended(code)
        if self.state == "starting" and self.role.ready(self._process.pid):
            self.state = "ready"
            return f"{self.role.name} is ready" + (" again" if self.restarts else "")
        return None

    @property
    def refused(self) -> bool:
        """Whether its last run ended because settings or schema do not fit."""
        return self._process is None and self._last_code == REFUSED

    def _ended(self, code: int) -> str:
        ran = clock.monotonic() - self._started
        if ran >= _RAN_WELL:
            self._pause = _BACKOFF[0]
        pause = self._pause
        self._due = clock.monotonic() + pause
        self._pause = min(pause * 2, _BACKOFF[1])
        self._process = self._mark = None
        self._last_code = code
        self.state = "down"
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return f"{self.role.name} ended {how}; starts again in {pause:g} s. {self.last_words()}"

    def last_words(self) -> str:
        """The end of its log."""
        return last_lines(self.log, 3)

    @property
    def pid(self) -> int:
        """The process's pid; 0 while there is none."""
        return self._process.pid if self._process else 0

    def running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it runs."""
        if self._process is not None:
            self._process.send_signal(number)

    def describe(self) -> ProcessState:
        """For ``stack.json``."""
        return ProcessState(self.role.name, self._mark, self.state, self.restarts)


def keep_small(log: Path) -> None:
    """Set a log aside when it has grown large; one older part is kept.

    Copied and cut, because whoever writes it goes on with the same open file. Lines written in
    between are lost.
    """
    try:
        if log.stat().st_size <= _LOG_LIMIT:
            return
    except FileNotFoundError:
        return
    shutil.copyfile(log, log.with_name(f"{log.name}.1"))
    with log.open("r+b") as file:
        file.truncate(0)
