"""Child processes that die with their parent, and processes of an earlier life that are found again.

A process is known by its pid **and** its start time: a pid alone may belong to somebody else by now.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Self

from dispatcher import clock
from dispatcher.processes import everyone, start_of

_LEASH = Path(__file__).with_name("leash.py")


@dataclass(frozen=True)
class ProcessMark:
    """One process, and never another one that got its pid later."""

    pid: int
    start: int
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """The mark of a living process."""
        start = start_of(pid)
        return None if start is None else cls(pid, start, clock.boot_id())

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The mark that :meth:`write` left; None if there is none or it cannot be read."""
        try:
            return cls.parse(json.loads(path.read_text()))
        except (OSError, ValueError):
            return None

    @classmethod
    def parse(cls, value: Any) -> Self | None:
        """The mark from its JSON form."""
        match value:
            case {"pid": int(pid), "start": int(start), "boot_id": str(boot_id)}:
                return cls(pid, start, boot_id)
        return None

    def write(self, path: Path) -> None:
        """Leave the mark for a later process."""
        path.write_text(json.dumps(asdict(self)))

    def alive(self) -> bool:
        """Whether the very process still runs."""
        return self.boot_id == clock.boot_id() and start_of(self.pid) == self.start

    def stop(self, ladder: Sequence[tuple[int, float]]) -> bool:
        """Send signals until it has ended.

        Args:
            ladder: (signal, seconds to wait after it), in order.

        Returns:
            Whether it is gone.
        """
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            for number, seconds in ladder:
                if not self.alive():  # looked at after the open: the descriptor is this process
                    return True
                signal.pidfd_send_signal(descriptor, number)
                select.select([descriptor], [], [], seconds)
            return not self.alive()
        except ProcessLookupError:
            return True
        finally:
            os.close(descriptor)


def rest_of_session(leader: ProcessMark) -> list[ProcessMark]:
    """What lives on in the session that a process led, the process itself left out.

    The kernel gives a session's number to nobody else while the session has a member, but a new
    session may get it afterwards: then its leader has another start time.
    """
    if leader.boot_id != clock.boot_id() or start_of(leader.pid) not in (None, leader.start):
        return []
    members = [
        ProcessMark.of(process.pid)
        for process in everyone()
        if process.alive and process.session == leader.pid != process.pid
    ]
    return [mark for mark in members if mark is not None and mark.start >= leader.start]


@dataclass(frozen=True)
class Account:
    """Whom a child runs as."""

    name: str
    uid: int
    gid: int


def start_child(
    program: Sequence[str | Path],
    *,
    death_signal: signal.Signals,
    output: IO[bytes],
    environment: Mapping[str, str],
    account: Account | None = None,
    directory: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a direct child, in a session of its own, that gets a signal when this process dies.

    To be called from a thread that lives as long as the child shall: the kernel counts the end of
    the forking **thread** as the parent's death.

    Args:
        program: absolute path and arguments.
        death_signal: sent to the child when this process dies, however it dies.
        output: where its standard output and error go.
        account: whom it runs as; None: as this process.
        directory: its working directory; default ``/``.
    """
    uid, gid = (account.uid, account.gid) if account else (-1, -1)
    leash = [sys.executable, "-I", "-S", str(_LEASH), os.getpid(), int(death_signal), uid, gid]
    return subprocess.Popen(
        [str(word) for word in (*leash, "--", *program)],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=dict(environment),
        cwd=directory or "/",
        start_new_session=True,
    )


def reap_adopted(own: Collection[int]) -> None:
    """Reap adopted processes that have ended.

    Args:
        own: pids of children that this process started itself: their exit codes are for whoever
            started them. While one of them waits to be reaped, adopted ones may have to wait too.
    """
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid in own:
            return
        os.waitpid(ended.si_pid, os.WNOHANG)


def last_lines(log: Path, count: int = 5) -> str:
    """The end of a log, for an error message."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8_000))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(lines[-count:])
