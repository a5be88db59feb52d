"""The playbook's parent: a fork of the supervisor between it and ansible-playbook.

It is what is left to act when the supervisor is killed: the parent-death signal wakes it, it is
the subreaper of everything below it, and it looks at the node's lease just before ansible-playbook
is executed and every second after (docs/protocols.md 4.4 and 4.6).

Forked, not executed through a shim on PATH: that costs 5 ms instead of 23 ms and 2 MB instead of
6 MB for each run. The price is that nothing here may raise into the supervisor's code, and that
inherited descriptors are closed by hand.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from dispatcher import processes
from workers import lease_file, process_tree
from workers.last_words import print_fault

#: Seconds that what ansible-playbook left behind (SSH masters, daemons) has after SIGTERM.
LEFTOVER_GRACE = 0.5
LEASE_PERIOD = 1.0
#: Shells' codes: the command was found but not executed; it was not found.
CANNOT_EXECUTE, NOT_FOUND = 126, 127
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_AWAITED = frozenset({signal.SIGCHLD, *_PASSED_ON})


class Board:
    """What the wrapper tells the supervisor: memory that both share, made before the fork."""

    _HEAD = struct.Struct("<iiii")
    _ROOM = 1000

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, self._HEAD.size + 4 * self._ROOM)

    @property
    def main_pid(self) -> int:
        """ansible-playbook's pid while it lives; 0 before and after."""
        return self._read(0)

    @main_pid.setter
    def main_pid(self, pid: int) -> None:
        self._write(0, pid)

    @property
    def main_status(self) -> int | None:
        """ansible-playbook's wait status; None while it has not ended."""
        status = self._read(1)
        return None if status == 0 else status - 1

    @main_status.setter
    def main_status(self, status: int) -> None:
        self._write(1, status + 1)

    @property
    def fenced(self) -> bool:
        """The wrapper found the lease lapsed. Never unset."""
        return bool(self._read(2))

    @fenced.setter
    def fenced(self, fenced: bool) -> None:
        self._write(2, int(fenced))

    @property
    def killed(self) -> set[int]:
        """The processes that the wrapper had to kill."""
        count = min(self._read(3), self._ROOM)
        return set(struct.unpack_from(f"<{count}i", self._memory, self._HEAD.size))

    def add_killed(self, pids: Sequence[int]) -> None:
        """Note processes that had to be killed."""
        count = self._read(3)
        for pid in pids[: self._ROOM - count]:
            struct.pack_into("<i", self._memory, self._HEAD.size + 4 * count, pid)
            count += 1
        self._write(3, count)

    def _read(self, field: int) -> int:
        value: int = struct.unpack_from("<i", self._memory, 4 * field)[0]
        return value

    def _write(self, field: int, value: int) -> None:
        struct.pack_into("<i", self._memory, 4 * field, value)


@dataclass(frozen=True)
class Command:
    """What is executed, and what the wrapper watches.

    Attributes:
        path: the program; ``argv`` begins with its name.
        supervisor: the process that forks the wrapper, noted before.
    """

    path: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    directory: str
    lease_file: Path
    supervisor: int


def become_wrapper(command: Command, board: Board) -> NoReturn:
    """Called in the fork, its terminal set up. Ends with ansible-playbook's code, 128 + signal."""
    code = CANNOT_EXECUTE
    try:
        code = _wrap(command, board)
    except BaseException:
        # into the run's own output: there is nobody above this frame
        print_fault()
    finally:
        os._exit(code)


def _wrap(command: Command, board: Board) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    if not processes.die_with_parent(command.supervisor, signal.SIGTERM):
        return CANNOT_EXECUTE
    processes.become_subreaper()
    # the supervisor's life is an flock that only it may hold
    process_tree.close_inherited()
    wrapper = os.getpid()
    main = os.fork()
    if main == 0:
        _execute(command, wrapper, board)
    board.main_pid = main
    while True:
        arrived = signal.sigtimedwait(_AWAITED, LEASE_PERIOD)
        if os.getppid() != command.supervisor:
            process_tree.sweep(grace=0)
            return CANNOT_EXECUTE
        if lease_file.remaining(command.lease_file) <= 0:
            board.fenced = True
            board.add_killed(process_tree.sweep(grace=0).killed)
            return CANNOT_EXECUTE
        _, ended = process_tree.reap()
        if main in ended:
            board.main_pid = 0
            board.main_status = ended[main]
            board.add_killed(process_tree.sweep(LEFTOVER_GRACE).killed)
            return _code(ended[main])
        if arrived is not None and arrived.si_signo in _PASSED_ON:
            os.kill(main, arrived.si_signo)


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _execute(command: Command, wrapper: int, board: Board) -> NoReturn:
    code = CANNOT_EXECUTE
    try:
        # the terminal's session ends with the wrapper: the hang-up that follows is no news
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        # ignored by Python, inherited by exec; and the supervisor's own handlers
        for signum in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.chdir(command.directory)
        if not processes.die_with_parent(wrapper, signal.SIGTERM):
            os._exit(code)
        if lease_file.remaining(command.lease_file) <= 0:
            board.fenced = True
            os._exit(code)
        os.execve(command.path, list(command.argv), dict(command.environment))
    except OSError as error:
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_EXECUTE
        os.write(2, f"{command.path}: {error.strerror}\n".encode())
    finally:
        os._exit(code)
