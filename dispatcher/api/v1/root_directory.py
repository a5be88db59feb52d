"""The root directory: playbooks, the inventory, files of variables, the SSH key.

Any number of processes may work on one: files are written beside their place and renamed into it,
so that a reader never sees half of one, and whoever changes something holds a lock on a file of
its own. That file's time tells every process that something was changed.
"""

from __future__ import annotations

import fcntl
import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dispatcher import clock
from dispatcher.domain.runner_inventory import SEED
from dispatcher.errors import DispatcherError

#: Names of hosts, groups and playbooks: no path, no option, no range, nothing that YAML would mangle.
NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:%+@-]{0,199}")
LOCK_FILE: Final = ".dispatcher.lock"
#: Seconds that a change waits for another one, in steps.
_PATIENCE: Final = 2.0
_STEP: Final = 0.02
_LARGEST: Final = 5_000_000
_DEEPEST: Final = 100


class Locked(DispatcherError):
    """Somebody else changes the root directory, for longer than is waited."""


class Unreadable(DispatcherError):
    """A file of the root directory that is not what it should be. The message names it."""


class RootDirectory:
    """A root directory.

    Args:
        path: made, with what belongs into it, when it is not there.
        ssh_key: private key; the root's own one is made when it is missing.
    """

    def __init__(self, path: Path, ssh_key: Path) -> None:
        self.path = path
        self.project = path / "project"
        self.inventory_file = path / "inventory" / "hosts"
        self.ssh_key = ssh_key
        self._lock_file = path / LOCK_FILE

    def prepare(self) -> None:
        """Make what is missing.

        Raises:
            OSError: that is not possible.
            Locked: another process does so, for too long.
        """
        for directory in (self.project, self.inventory_file.parent, self.path / "env"):
            directory.mkdir(parents=True, exist_ok=True)
        with self.changing():
            if not self.inventory_file.exists():
                write_whole(self.inventory_file, SEED)
            public = self.ssh_key.with_name(self.ssh_key.name + ".pub")
            own = self.ssh_key.is_relative_to(self.path)
            if own and not self.ssh_key.exists() and not public.exists():
                _make_key(self.ssh_key, public)

    # -- reading

    def playbooks(self) -> list[str]:
        """Names of the playbooks."""
        found = (p.name for p in self.project.glob("*.yml") if p.is_file())
        return sorted(name for name in found if NAME.fullmatch(name))

    def has_playbook(self, name: str) -> bool:
        """Whether there is a playbook of this name, whatever the name."""
        if not NAME.fullmatch(name) or not (self.project / name).is_file():
            return False
        # a link may lead anywhere
        return (self.project / name).resolve().is_relative_to(self.project.resolve())

    def inventory(self) -> str:
        """Text of the inventory; that of an empty one when there is no file.

        Raises:
            Unreadable: no text.
        """
        return _text(self.inventory_file) or ""

    def other_inventory(self, name: str) -> str | None:
        """Text of a file of ``inventories``, whatever the name; None when there is none.

        Raises:
            Unreadable: no text.
        """
        directory = self.path / "inventories"
        if not NAME.fullmatch(name) or not (directory / name).is_file():
            return None
        # a link may lead anywhere
        inside = (directory / name).resolve().is_relative_to(directory.resolve())
        return _text(directory / name) if inside else None

    def host_variables_file(self, host: str) -> Path:
        """Where the variables of a host are."""
        return self.project / "host_vars" / host

    def group_variables_file(self, group: str) -> Path:
        """Where the variables of a group are."""
        return self.project / "group_vars" / f"{group}.yml"

    def public_key(self) -> str:
        """The public half of the SSH key; empty when there is none."""
        try:
            return self.ssh_key.with_name(self.ssh_key.name + ".pub").read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return ""

    def changed(self) -> int:
        """A number that is another one after each change by any process."""
        try:
            return self._lock_file.stat().st_mtime_ns
        except OSError:
            return 0

    # -- changing

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the lock.

        Raises:
            Locked: it was not had in time.
        """
        with open(self._lock_file, "ab") as lock:
            deadline = clock.monotonic() + _PATIENCE
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if clock.monotonic() > deadline:
                        raise Locked("Unable to lock the inventory file, try later") from None
                    clock.sleep(_STEP)
            yield
            os.utime(lock.fileno())


def read_variables(path: Path) -> Any:
    """The value in a file of variables; None when there is no file.

    Raises:
        Unreadable: it is not YAML.
    """
    text = _text(path)
    if text is None:
        return None
    try:
        value = yaml.load(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        raise Unreadable(f"{path.name}: not plain YAML") from None
    return {} if value is None else plain(value)


def plain(value: Any, depth: int = 0) -> Any:
    """A value of YAML as JSON has it: keys are texts, and what JSON has no form for is one too.

    Raises:
        Unreadable: nested too deeply, or in itself.
    """
    if depth > _DEEPEST:
        raise Unreadable("a value is nested too deeply")
    if isinstance(value, Mapping):
        return {str(key): plain(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(each, depth + 1) for each in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    return value if isinstance(value, float) and math.isfinite(value) else str(value)


def write_variables(path: Path, value: Any) -> None:
    """Write a file of variables; its directory is made when it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, yaml.safe_dump(value, default_flow_style=False, allow_unicode=True))


def write_whole(path: Path, text: str, *, mode: int = 0o640) -> None:
    """Replace a file in one step; it keeps its mode."""
    if path.exists():
        mode = path.stat().st_mode & 0o777
    handle, name = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _text(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
        if len(raw) > _LARGEST:
            raise Unreadable(f"{path.name}: more than {_LARGEST} bytes")
        return raw.decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise Unreadable(f"{path.name}: {reason}") from None


def _make_key(private: Path, public: Path) -> None:
    key = Ed25519PrivateKey.generate()
    write_whole(
        public,
        key.public_key()
        .public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        .decode()
        + " runner-service\n",
        mode=0o644,
    )
    write_whole(
        private,
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        ).decode(),
        mode=0o600,
    )
