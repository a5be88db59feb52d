"""One supervisor as the agent knows it: by a pidfd, never by a bare pid, which may be another's by now."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field

from dispatcher import clock, processes
from dispatcher.errors import RunDirectoryError
from workers.run_dir import SupervisorRecord
from workers.runs import Run


@dataclass
class Watched:
    """A supervisor that is watched.

    Attributes:
        pidfd: readable when the process has ended; -1: it is known by its lock alone.
        killed: it was sent a SIGKILL from here.
    """

    run: Run
    pidfd: int
    killed: bool = False
    _sign: int | None = None
    _sign_at: float = field(default_factory=clock.monotonic)

    @classmethod
    def forked(cls, run: Run, pid: int) -> Watched:
        """A supervisor that was started just now."""
        return cls(run, _pidfd(pid))

    @classmethod
    def found(cls, run: Run) -> Watched:
        """A supervisor that an earlier agent started, by what it wrote of itself."""
        record = record_of(run)
        pidfd = -1 if record is None else _pidfd(record.pid)
        if pidfd >= 0 and (record is None or not _is_same(record)):
            os.close(pidfd)
            pidfd = -1
        return cls(run, pidfd)

    def silent_for(self) -> float:
        """Look for its sign of life; seconds since the last new one."""
        sign = self.run.directory.sign_of_life()
        if sign != self._sign:
            self._sign, self._sign_at = sign, clock.monotonic()
        return clock.monotonic() - self._sign_at

    def send(self, signum: signal.Signals) -> None:
        """Signal it, if it is still there."""
        with suppress(ProcessLookupError):
            if self.pidfd >= 0:
                signal.pidfd_send_signal(self.pidfd, signum)
                return
            record = record_of(self.run)
            if record is not None and self.run.directory.is_alive() and _is_same(record):
                os.kill(record.pid, signum)

    def close(self) -> None:
        """Let go of it."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


def record_of(run: Run) -> SupervisorRecord | None:
    """What a supervisor wrote of itself under this boot, if it did."""
    try:
        record = run.directory.read_supervisor()
    except RunDirectoryError:
        return None
    return record if record is not None and record.boot_id == clock.boot_id() else None


def _is_same(record: SupervisorRecord) -> bool:
    """Whether the process is still the one that wrote the record."""
    found = processes.read(record.pid)
    return found is not None and found.start == record.pid_start


def _pidfd(pid: int) -> int:
    """A descriptor of a process; -1 when it is gone."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return -1
