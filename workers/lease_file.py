"""The node's lease as the machine's own processes see it (docs/protocols.md 4.3).

The agent writes it after a renewal's commit was confirmed; agent, supervisors and wrappers read it
every second. Whatever cannot be read counts as lapsed.
"""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress
from pathlib import Path

from dispatcher import clock

FORMAT = 1
NAME = "node_lease.json"
#: Bytes of the file, filled up with spaces.
_SIZE = 256


def lease_path(data_dir: Path) -> Path:
    """Where the lease file of a node is."""
    return data_dir / NAME


def write(path: Path, deadline: float) -> None:
    """Mirror a confirmed renewal: temporary name, then rename.

    Two files of one size take turns: once both are there, a full disk keeps no renewal from being
    written, and silent playbooks from being stopped for it.

    Args:
        path: the lease file.
        deadline: CLOCK_BOOTTIME seconds: when the renewal was **sent**, plus the fencing time.
    """
    text = json.dumps({"format": FORMAT, "boot_id": clock.boot_id(), "deadline": deadline})
    temporary = path.with_name(path.name + ".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.pwrite(descriptor, text.encode().ljust(_SIZE), 0) != _SIZE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(descriptor)
    kept = path.with_name(path.name + ".old")
    with suppress(OSError):  # not every file system has hard links: then room is needed each time
        kept.unlink(missing_ok=True)
        os.link(path, kept)
    os.rename(temporary, path)
    with suppress(FileNotFoundError):
        os.rename(kept, temporary)


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
