"""What ``/proc`` says about processes of this machine, and what the kernel does for their families.

A process is known by its pid **and** its start time: a pid alone may belong to somebody else by now.
"""

from __future__ import annotations

import ctypes
import os
import signal
from dataclasses import dataclass
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
# loaded here, so that nothing is looked up between a fork and what must follow it at once
_prctl: Final = ctypes.CDLL(None, use_errno=True).prctl


@dataclass(frozen=True, slots=True)
class Process:
    """A line of ``/proc/<pid>/stat``: state ``R S D T Z …``, start in clock ticks since boot."""

    pid: int
    parent: int
    session: int
    state: str
    start: int

    @property
    def alive(self) -> bool:
        """Whether it is more than an entry that its parent has not reaped yet."""
        return self.state not in "ZX"


def read(pid: int) -> Process | None:
    """What ``/proc`` says about a process, a zombie too; None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # the name in parentheses may itself hold blanks and parentheses
    rest = line[line.rindex(b")") + 2 :].split()
    return Process(pid, int(rest[1]), int(rest[3]), rest[0].decode(), int(rest[19]))


def start_of(pid: int) -> int | None:
    """When a living process was started, in clock ticks since boot; None if gone or a zombie."""
    found = read(pid)
    return found.start if found is not None and found.alive else None


def everyone() -> list[Process]:
    """Every process that can be seen, zombies too."""
    found = (read(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [process for process in found if process is not None]


def ancestry(pid: int) -> list[int]:
    """A living process, its parent, and so on up to the first one; empty if it is gone."""
    line = []
    while pid and (found := read(pid)) is not None and found.alive:
        line.append(pid)
        pid = found.parent
    return line


def descendants(root: int) -> list[Process]:
    """All living descendants of a process, parents before children; zombies are left out."""
    children: dict[int, list[Process]] = {}
    for process in everyone():
        children.setdefault(process.parent, []).append(process)
    tree: list[Process] = []
    pending = [root]
    while pending:
        for child in children.get(pending.pop(), ()):
            pending.append(child.pid)
            if child.alive:
                tree.append(child)
    return tree


def become_subreaper() -> None:
    """Become the parent of every descendant that loses its own.

    Raises:
        OSError: the kernel refuses.
    """
    _set(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int, signum: signal.Signals) -> bool:
    """Ask for a signal when the parent's forking thread ends.

    Args:
        parent: the process that forked, noted before the fork.

    Returns:
        False if it is gone already: the signal will never come.
    """
    _set(_PR_SET_PDEATHSIG, int(signum))
    return os.getppid() == parent


def _set(option: int, value: int) -> None:
    if _prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
