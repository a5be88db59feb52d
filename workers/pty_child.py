"""A playbook's process and its terminal, as ansible-runner drives them.

Stands where ansible-runner uses ``pexpect.spawn`` (the same few members), for three reasons: the
child is forked through :mod:`workers.wrapper`; the supervisor looks at its clocks between two
reads; and pexpect keeps all output of a run in memory, copying it at every time-out.
"""

from __future__ import annotations

import codecs
import errno
import os
import select
import shutil
import signal
import struct
import termios
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path
from typing import Any, Protocol

from dispatcher import clock
from workers import process_tree
from workers.wrapper import CANNOT_EXECUTE, Board, Command, become_wrapper

#: Seconds between two looks at clocks and files while the playbook runs.
TICK = 0.15
#: What Ansible's banners are as wide as.
ROWS, COLUMNS = 24, 80
_READ = 1 << 16


class Output(Protocol):
    """ansible-runner's filter of the output."""

    def write(self, data: str) -> Any: ...


@dataclass(frozen=True)
class Hooks:
    """What the supervisor wants to be told.

    Attributes:
        output: each piece of text, before ansible-runner sees it.
        tick: called at least every :data:`TICK` seconds; it signals, it never waits.
    """

    output: Callable[[str], None]
    tick: Callable[[], None]


class PtyChild:
    """Forks the wrapper on a new terminal; the constructor returns when it runs.

    Raises:
        FileNotFoundError: the command is in no directory of the environment's PATH.
    """

    def __init__(
        self,
        command: str,
        args: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        lease_file: Path,
        board: Board,
        hooks: Hooks,
    ) -> None:
        path = shutil.which(command, path=env.get("PATH", os.defpath))
        if path is None:
            raise FileNotFoundError(errno.ENOENT, f"no {command} on PATH")
        to_run = Command(path, [command, *args], env, cwd, lease_file, os.getpid())
        self.exitstatus: int | None = None
        self.logfile_read: Output | None = None
        self._board, self._hooks = board, hooks
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._next_tick = 0.0
        self._eof = False
        self._terminal, slave = os.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._modes = self._local_modes()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.login_tty(slave)
                become_wrapper(to_run, board)
            finally:  # whatever happens, the supervisor's code does not go on here
                os._exit(CANNOT_EXECUTE)
        os.close(slave)

    # -- what ansible-runner calls

    def isalive(self) -> bool:
        """Whether the wrapper, and so anything of the playbook, still runs."""
        if self.exitstatus is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self.exitstatus = code if code >= 0 else 128 - code
        return self.exitstatus is None

    def expect(self, patterns: object, *, timeout: float, searchwindowsize: int = 0) -> int:
        """Read until the output has ended and the wrapper is gone.

        Patterns are there for passwords, which are never typed; the time-out is the supervisor's
        affair. Both are accepted and ignored.
        """
        poll = select.poll()
        poll.register(self._terminal, select.POLLIN)
        while not self._eof:
            if poll.poll(max(0.0, self._next_tick - clock.monotonic()) * 1000):
                self._read()
            self._tick()
        while self.isalive():
            signal.sigtimedwait({signal.SIGCHLD}, TICK)
            self._tick()
        return 0

    def close(self) -> None:
        """Let go of the terminal."""
        if self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1

    # -- what the supervisor asks

    def asks(self) -> bool:
        """Whether the terminal's modes are those of a program that reads an answer."""
        return self._terminal >= 0 and self._local_modes() != self._modes

    def _local_modes(self) -> int:
        modes: int = termios.tcgetattr(self._terminal)[3]
        return modes & (termios.ICANON | termios.ECHO)

    def _tick(self) -> None:
        if clock.monotonic() < self._next_tick:
            return
        self._hooks.tick()
        if not self._eof and not self.isalive():
            # the wrapper was killed: what it left is ours now, and may hold the terminal open
            self._board.add_killed(process_tree.sweep(grace=0).killed)
            self._drain()
        self._next_tick = clock.monotonic() + TICK

    def _drain(self) -> None:
        """Read what is there, and no more: nobody says when the last writer will be gone."""
        os.set_blocking(self._terminal, False)
        try:
            while not self._eof:
                self._read()
        except BlockingIOError:
            self._eof = True

    def _read(self) -> None:
        try:
            raw = os.read(self._terminal, _READ)
        except OSError as error:
            if error.errno != errno.EIO:  # what Linux answers when the last writer is gone
                raise
            raw = b""
        text = self._decoder.decode(raw, final=not raw)
        if text:
            self._hooks.output(text)
            if self.logfile_read is not None:
                self.logfile_read.write(text)
        self._eof = not raw
