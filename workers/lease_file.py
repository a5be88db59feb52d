"""The node's lease as the machine's own processes see it (docs/protocols.md 4.3).

The agent writes it after a renewal's commit was confirmed; agent, supervisors and wrappers read it
every second. Whatever cannot be read counts as lapsed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from dispatcher import clock

FORMAT = 1
NAME = "node_lease.json"


def lease_path(data_dir: Path) -> Path:
    """Where the lease file of a node is."""
    return data_dir / NAME


def write(path: Path, deadline: float) -> None:
    """Mirror a confirmed renewal: temporary name, then rename.

    Args:
        path: the lease file.
        deadline: CLOCK_BOOTTIME seconds: when the renewal was **sent**, plus the fencing time.
    """
    text = json.dumps({"format": FORMAT, "boot_id": clock.boot_id(), "deadline": deadline})
    temporary = path.with_name(path.name + ".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
    os.rename(temporary, path)


def remaining(path: Path) -> float:
    """Seconds until playbooks must be stopped; zero or less once lapsed.

    A missing or unreadable file, another format and another boot are a lapse: 0.0.
    """
    try:
        lease = json.loads(path.read_bytes())
        if lease["format"] != FORMAT or lease["boot_id"] != clock.boot_id():
            return 0.0
        return float(lease["deadline"]) - clock.boottime()
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0
