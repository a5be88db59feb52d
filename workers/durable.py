"""Files that must be whole after a crash: written aside, synced, renamed."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)


def draft_of(path: Path) -> Path:
    """Where a file's next content is written before it gets the file's name."""
    return path.with_name(f".{path.name}.new")


def write_durably(path: Path, content: bytes) -> None:
    """Replace a file's content so that a crash leaves the old one or the new one, mode 0600.

    The content may be secret: when it cannot be written, its draft is removed. A kill leaves it.
    """
    draft = draft_of(path)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(path: Path) -> None:
    """Make everything below a directory durable, with one call for its whole file system.

    A call of fsync for each file of a tree of thousands takes seconds.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(descriptor) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), str(path))
    finally:
        os.close(descriptor)
