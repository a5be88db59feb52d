"""What a running ``dispatcher up`` leaves for others to find: ``<data_dir>/stack.json`` and its lock.

Layout of the data directory:

    stack.json     addresses, processes and state of the stack, 0600
    up.lock        held (``lockf``) by the one ``dispatcher up`` of the directory
    token          the first API token, 0600          cluster.key    key for secrets at rest, 0600
    postgres/      the embedded PostgreSQL            valkey/        the embedded Valkey
    logs/          one file a process                 health/        what beat and control say
    nodes/<name>/  one data directory for each node of this machine, so that several can run
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from dispatcher.embedded.processes import ProcessMark
from dispatcher.errors import ConfigurationError
from dispatcher.settings import Settings

FORMAT = 1
Phase = Literal["starting", "ready", "stopping"]
#: A node's sockets and SSH control paths lie below its directory, and a socket's path is short.
_LONGEST_NODE_DIRECTORY = 24


@dataclass(frozen=True)
class ProcessState:
    """One process of the stack.

    Attributes:
        name: ``postgresql``, ``valkey`` or a role.
        mark: the process; None while it is down.
        state: ``starting``, ``ready``, ``down``.
        restarts: how often it had to be started again.
    """

    name: str
    mark: ProcessMark | None
    state: str
    restarts: int = 0


@dataclass(frozen=True)
class StackState:
    """The stack as ``dispatcher up`` last described it.

    Attributes:
        up: the process of ``dispatcher up``.
        phase: ``ready`` once every role was ready for the first time.
        api_url: base URL of the API with its real port; empty until it is chosen.
        database_url, broker_url: of the servers that the roles work with; empty until they run.
        key_file, token_file: paths.
        processes: servers and roles.
    """

    up: ProcessMark
    phase: Phase
    started: str
    key_file: Path
    token_file: Path
    api_url: str = ""
    database_url: str = ""
    broker_url: str = ""
    processes: tuple[ProcessState, ...] = ()

    @property
    def alive(self) -> bool:
        """Whether that ``dispatcher up`` runs."""
        return self.up.alive()

    def token(self) -> str | None:
        """The first API token; None when the file is gone or may not be read."""
        try:
            return self.token_file.read_text().strip() or None
        except OSError:
            return None

    def write(self, data_dir: Path) -> None:
        """Replace the description by this one."""
        content = asdict(replace(self, processes=())) | {
            "format": FORMAT,
            "key_file": str(self.key_file),
            "token_file": str(self.token_file),
            "processes": [asdict(process) for process in self.processes],
        }
        write_private(_path(data_dir), json.dumps(content, indent=1) + "\n")

    @classmethod
    def read(cls, data_dir: Path) -> Self | None:
        """What was last written there; None if nothing was, or it cannot be understood."""
        try:
            content: dict[str, Any] = json.loads(_path(data_dir).read_text())
            if content.pop("format") != FORMAT:
                return None
            up = ProcessMark.parse(content["up"])
            if up is None:
                return None
            processes = tuple(
                ProcessState(**(value | {"mark": ProcessMark.parse(value["mark"])}))
                for value in content["processes"]
            )
            read = {
                "up": up,
                "processes": processes,
                "key_file": Path(content["key_file"]),
                "token_file": Path(content["token_file"]),
            }
            return cls(**(content | read))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None


def _path(data_dir: Path) -> Path:
    return data_dir / "stack.json"


def make_data_dir(directory: Path) -> None:
    """Make the data directory and the one for logs; what is there stays as it is.

    As root others may pass through it, because PostgreSQL's account must.

    Raises:
        ConfigurationError: it cannot be made.
    """
    try:
        if not directory.is_dir():
            directory.mkdir(parents=True)
            directory.chmod(0o711 if os.geteuid() == 0 else 0o700)
        (directory / "logs").mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"DISPATCHER_DATA_DIR: {directory}: {error.strerror}") from None


def write_private(path: Path, content: str) -> None:
    """Write a file that only its owner reads, all of it or nothing."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


class UpLock:
    """The right to be the one ``dispatcher up`` of a data directory, until the process ends.

    A POSIX record lock: children do not inherit it, so none of them can keep it.
    """

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / "up.lock"
        self._descriptor: int | None = None

    def take(self) -> bool:
        """Take it, if nobody else holds it."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor
        return True

    def holder(self) -> str:
        """The pid of whoever took it last, for a message."""
        try:
            return self._path.read_text().strip() or "unknown"
        except OSError:
            return "unknown"

    def release(self) -> None:
        """Let go of it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def running_stack(data_dir: Path) -> StackState | None:
    """The stack that runs on this data directory, ready or not."""
    state = StackState.read(data_dir)
    return state if state is not None and state.alive else None


def settings_with_running_stack(settings: Settings) -> Settings:
    """Settings that reach the servers of a running ``dispatcher up``.

    What was set explicitly stays: with a database URL set nothing is changed.

    Returns:
        The settings with database, broker and key file of the stack; unchanged when none runs.
    """
    if settings.database_url is not None:
        return settings
    stack = running_stack(settings.data_dir)
    if stack is None or not stack.database_url:
        return settings
    return settings.model_copy(
        update={
            "database_url": stack.database_url,
            "broker_url": settings.broker_url or stack.broker_url,
            "key_file": settings.key_file or stack.key_file,
        }
    )


def node_data_dir(data_dir: Path, node: str) -> Path:
    """The data directory of one node of this machine: ``<data_dir>/nodes/<name>``.

    A long name is cut and gets a digest, so that paths of sockets below stay short enough.
    """
    if len(node) > _LONGEST_NODE_DIRECTORY:
        digest = hashlib.sha256(node.encode()).hexdigest()[:8]
        node = f"{node[: _LONGEST_NODE_DIRECTORY - 9]}-{digest}"
    return data_dir / "nodes" / node
