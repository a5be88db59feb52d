"""What ``/proc`` says about processes of this machine.

A process is known by its pid **and** its start time: a pid alone may belong to somebody else by now.
"""

from __future__ import annotations

import os
from dataclasses import dataclass


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
