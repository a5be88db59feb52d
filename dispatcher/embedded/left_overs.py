"""Ending what an earlier ``dispatcher up`` left behind when it was killed.

Roles get a signal when their parent dies, and so do the servers; what is found here did not heed
it in time, or was left by a role that was killed itself. It is killed, not asked: nothing that a
role holds is lost with it, and an agent that is asked stops its playbooks. Their supervisors are in
sessions of their own: they go on, and the node's next agent adopts them.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from dispatcher.embedded.processes import ProcessMark, rest_of_session
from dispatcher.embedded.servers import NAMES
from dispatcher.embedded.state import StackState


def stop_left_overs(state: StackState, data_dir: Path) -> list[str]:
    """End the roles of an earlier stack and what belongs to their sessions.

    Callers hold the directory's lock. Servers have records of their own and are not touched.

    Returns:
        Names of the roles of which something was left.
    """
    left = []
    for process in state.processes:
        if process.mark is None or process.name in NAMES:
            continue
        found = [mark for mark in _session(process.mark, data_dir) if mark.alive()]
        for mark in found:
            mark.stop([(signal.SIGKILL, 2.0)])
        if found:
            left.append(process.name)
    return left


def _session(leader: ProcessMark, data_dir: Path) -> list[ProcessMark]:
    """The role and whatever else is in its session and works on this data directory."""
    return [leader, *(m for m in rest_of_session(leader) if _works_on(m.pid, data_dir))]


def _works_on(pid: int, data_dir: Path) -> bool:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    wanted = b"DISPATCHER_DATA_DIR=" + os.fsencode(data_dir)
    return any(v == wanted or v.startswith(wanted + b"/") for v in variables)
