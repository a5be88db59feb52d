"""Who this node is: the identity in its data directory, and the lock of its one agent."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from uuid import UUID, uuid4

from dispatcher import clock
from dispatcher.errors import ConfigurationError
from workers.durable import write_durably

_FORMAT = 1


def make_data_dir(path: Path) -> None:
    """Make the data directory, closed to others.

    Raises:
        ConfigurationError: it cannot be made or used.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in ("runs", "cache", "c", "health"):
            (path / name).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"DISPATCHER_DATA_DIR: {path}: {error.strerror}") from None


def identity(data_dir: Path) -> UUID:
    """The uuid of this data directory, made when it is first asked for.

    Raises:
        ConfigurationError: the file is there but cannot be read.
    """
    path = data_dir / "node.json"
    try:
        known = json.loads(path.read_text())
        return UUID(known["identity"])
    except FileNotFoundError:
        made = uuid4()
        write_durably(path, json.dumps({"format": _FORMAT, "identity": str(made)}).encode())
        return made
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigurationError(
            f"{path}: not a node's identity; remove it to make a new node"
        ) from None


def machine_id() -> str:
    """The machine's id of systemd or D-Bus; empty where there is none (many containers)."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            return Path(path).read_text().strip()
        except OSError:
            continue
    return ""


class AgentLock:
    """The right to be the one agent of a data directory, held until the process ends.

    A POSIX record lock, because a lock of the flock kind would be inherited by the fork server
    and by every supervisor, and outlive the agent with them (docs/protocols.md 3.5).
    """

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / "agent.lock"
        self._file: int | None = None

    def take(self, *, patience: float) -> None:
        """Take the lock.

        Args:
            patience: seconds that an agent which is ending may take to let go.

        Raises:
            ConfigurationError: another agent holds it.
        """
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = clock.monotonic() + patience
        while True:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if clock.monotonic() > deadline:
                    holder = os.pread(self._file, 32, 0).decode(errors="replace").strip()
                    raise ConfigurationError(
                        f"DISPATCHER_DATA_DIR: another agent (pid {holder or 'unknown'}) already"
                        f" runs on {self._path.parent}"
                    ) from None
                clock.sleep(0.1)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
