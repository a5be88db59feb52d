"""Processes that a killed supervisor left behind, found by the mark in their environment.

A wrapper sweeps when its supervisor dies; this is for the case that it was killed too.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

from dispatcher import clock, processes
from workers import process_tree
from workers.playbook_command import RUN_VARIABLE

#: Seconds in which a wrapper sweeps by itself (measured: 0.2 to 0.4).
OWN_SWEEP: Final = 1.0
_GIVE_UP: Final = 10.0
_LOOK_EVERY: Final = 0.05


def find(dispatch_id: str) -> list[processes.Process]:
    """Processes that belong to a run; zombies are left out."""
    mark = f"{RUN_VARIABLE}={dispatch_id}".encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            environment = Path("/proc", name, "environ").read_bytes()
        except OSError:
            continue  # gone, or another user's
        process = processes.read(int(name)) if mark in environment else None
        if process is not None and process.state not in "ZX":
            found.append(process)
    return found


def clear(dispatch_id: str, *, patience: float = OWN_SWEEP) -> int:
    """Wait until no process of a run is left; kill what is still there after ``patience``.

    Returns:
        How many were killed.

    Raises:
        OSError: one is stuck in the kernel.
    """
    began = clock.monotonic()
    killed: set[int] = set()
    while left := find(dispatch_id):
        waited = clock.monotonic() - began
        if waited > _GIVE_UP:
            raise OSError(f"process {left[0].pid} of {dispatch_id} cannot be killed")
        if waited >= patience:
            process_tree.send(left, signal.SIGCONT)
            killed.update(process_tree.send(left, signal.SIGKILL))
        clock.sleep(_LOOK_EVERY)
    return len(killed)
