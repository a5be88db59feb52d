"""Ending what an earlier ``dispatcher up`` left behind when it was killed.

Roles get a signal when their parent dies, and so do the servers; what is found here did not heed
it in time, or was left by a role that was killed itself. Supervisors of playbooks are in sessions
of their own: they are left alone, the node's next agent adopts them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path

from dispatcher import clock
from dispatcher.embedded.processes import ProcessMark, session_members, start_ticks
from dispatcher.embedded.state import StackState

_PATIENCE = 6.0


def stop_left_overs(state: StackState, data_dir: Path) -> list[str]:
    """End the roles of an earlier stack and what belongs to their sessions.

    Callers hold the directory's lock. Servers have records of their own and are not touched.

    Returns:
        Names of the roles of which something was left.
    """
    left: dict[str, list[ProcessMark]] = {}
    for process in state.processes:
        if process.mark is None or process.name in ("postgresql", "valkey"):
            continue
        found = [mark for mark in _session(process.mark, data_dir) if mark.alive()]
        if found:
            left[process.name] = found
    marks = [mark for found in left.values() for mark in found]
    _send(marks, signal.SIGTERM)
    deadline = clock.monotonic() + _PATIENCE
    while any(mark.alive() for mark in marks) and clock.monotonic() < deadline:
        clock.sleep(0.05)
    for mark in marks:
        mark.stop([(signal.SIGKILL, 2.0)])
    return list(left)


def _send(marks: Iterable[ProcessMark], number: signal.Signals) -> None:
    for mark in marks:
        mark.stop([(number, 0.0)])


def _session(leader: ProcessMark, data_dir: Path) -> list[ProcessMark]:
    """The role and whatever else is in its session.

    The kernel gives a session's number to nobody else while the session has a member, but a new
    session may have it afterwards: hence the start times, and the look at the data directory.
    """
    if leader.boot_id != clock.boot_id():
        return []
    if start_ticks(leader.pid) not in (None, leader.start):
        return []
    marks = [leader]
    for pid in session_members(leader.pid):
        mark = ProcessMark.of(pid)
        if mark and mark.start >= leader.start and _works_on(pid, data_dir):
            marks.append(mark)
    return marks


def _works_on(pid: int, data_dir: Path) -> bool:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    wanted = b"DISPATCHER_DATA_DIR=" + os.fsencode(data_dir)
    return any(v == wanted or v.startswith(wanted + b"/") for v in variables)
