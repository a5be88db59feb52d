"""Processes of one run, found and ended with all their descendants (docs/running.md, stop ladder).

A process that is a child-subreaper and has no child has no descendant either: whoever loses its
parent becomes a child of the nearest subreaper above. So :func:`reap` proves a tree empty without
looking at ``/proc``; ``/proc`` only says whom to signal.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from dispatcher import clock
from dispatcher.processes import Process, descendants

#: Seconds after which a sweep no longer waits for processes that it may not signal.
GIVE_UP = 10.0


def close_inherited() -> None:
    """Close every descriptor but 0, 1 and 2, in a fork that does not execute anything."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:  # the one that listed the directory
                pass


def send(processes: Iterable[Process], signum: signal.Signals) -> list[int]:
    """Signal each; the pids that took it. One of another account (``become``) takes none."""
    taken = []
    for process in processes:
        try:
            os.kill(process.pid, signum)
        except (ProcessLookupError, PermissionError):
            continue
        taken.append(process.pid)
    return taken


def reap() -> tuple[bool, dict[int, int]]:
    """Collect every child that has ended, without waiting.

    Returns:
        Whether a child is left, and wait statuses by pid.
    """
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False, ended
        if pid == 0:
            return True, ended
        ended[pid] = status


def stop_all(root: int, spared: Collection[int] = ()) -> None:
    """SIGSTOP every descendant; again until no new one turns up, because a fork may be under way."""
    stopped: set[int] = set()
    while True:
        fresh = [
            each
            for each in descendants(root)
            if each.pid not in stopped and each.pid not in spared and each.state != "T"
        ]
        if not fresh:
            return
        stopped |= {each.pid for each in fresh}
        send(fresh, signal.SIGSTOP)


def continue_all(root: int) -> None:
    """SIGCONT every descendant, children first, so that no parent waits for a stopped child."""
    send(reversed(descendants(root)), signal.SIGCONT)


@dataclass(frozen=True)
class Swept:
    """What a sweep did.

    Attributes:
        killed: processes that took a SIGKILL.
        survivors: processes of other accounts, which this one may not signal.
    """

    killed: tuple[int, ...] = ()
    survivors: tuple[int, ...] = ()


def sweep(grace: float, give_up: float = GIVE_UP) -> Swept:
    """End every descendant of this process, a subreaper, and reap until none is left.

    The caller has SIGCHLD blocked.

    Args:
        grace: seconds between SIGTERM and SIGKILL; 0: SIGKILL at once.
        give_up: seconds after which those that may not be signaled are left to themselves. One that
            takes the signal and does not die is stuck in the kernel, and waited for.
    """
    left, _ = reap()
    killed: set[int] = set()
    asked: set[int] = set()
    deadline = clock.monotonic() + grace
    pause = 0.02
    while left:
        found = descendants(os.getpid())
        if clock.monotonic() >= deadline:
            taken = send(found, signal.SIGKILL)
            killed.update(taken)
            if found and not taken and clock.monotonic() >= deadline + give_up:
                return Swept(tuple(sorted(killed)), tuple(each.pid for each in found))
        else:
            fresh = [each for each in found if each.pid not in asked]
            asked.update(send(fresh, signal.SIGTERM))
            send((each for each in fresh if each.state == "T"), signal.SIGCONT)
        # woken by each end; a process stuck in the kernel is asked about ever more seldom
        signal.sigtimedwait({signal.SIGCHLD}, pause)
        pause = min(pause * 1.2, 0.5)
        left, _ = reap()
    return Swept(tuple(sorted(killed)))
