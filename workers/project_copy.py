"""Content on a node's disk: a bundle unpacked with suspicion, and each run's own copy of it.

Nothing that a bundle holds can lie outside of its directory, lead out of it, be a device or carry a
set-id bit; a run may then change its copy as it likes, because copies share no inode.
"""

from __future__ import annotations

import errno
import io
import os
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path
from typing import TYPE_CHECKING

import zstandard

from dispatcher.domain.bundle import MOST_MEMBERS, MOST_WINDOW
from dispatcher.errors import DispatcherError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer as Buffer

_READ = 1 << 20
_FICLONE = 0x40049409
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsafeBundle(DispatcherError):
    """A bundle that is damaged, too large, or holds what may not be unpacked. Names the member."""


@dataclass(frozen=True)
class Unpacked:
    """What a bundle held.

    Attributes:
        size: bytes of all files.
    """

    members: int
    size: int


def unpack(
    chunks: Iterable[bytes], target: Path, *, max_bytes: int, max_members: int = MOST_MEMBERS
) -> Unpacked:
    """Unpack a tar.zst stream.

    Args:
        chunks: the compressed bytes, in order.
        target: a directory that does not exist yet; what is left of it after an error is the
            caller's to remove.
        max_bytes, max_members: bounds of what comes out.

    Raises:
        UnsafeBundle: see the class.
        OSError: the disk refuses.
    """
    target.mkdir(mode=0o700)
    reader = zstandard.ZstdDecompressor(max_window_size=MOST_WINDOW).stream_reader(
        io.BufferedReader(_Chunks(chunks), _READ), read_across_frames=True
    )
    members = size = 0
    try:
        with tarfile.open(fileobj=reader, mode="r|", errorlevel=2) as tar:
            for member in tar:
                members += 1
                size += member.size if member.isreg() else 0
                if members > max_members or size > max_bytes:
                    raise UnsafeBundle(
                        f"larger than {max_bytes} bytes or {max_members} members, unpacked"
                    )
                _extract(tar, member, target)
    except (tarfile.TarError, zstandard.ZstdError, EOFError) as error:
        raise UnsafeBundle(f"damaged: {error}") from error
    _refuse_leaving_links(target)
    return Unpacked(members, size)


def copy_tree(source: Path, target: Path) -> int:
    """Copy an unpacked tree; the files' bytes.

    Files are cloned where the file system can (reflink), else copied in the kernel; never linked.
    Files come out 0600, or 0700 when they can be executed, directories 0700.

    Raises:
        OSError: the disk refuses; what is left of the target is the caller's to remove.
    """
    target.mkdir(mode=0o700)
    size = 0
    pending = [(str(source), str(target))]
    while pending:
        directory, into = pending.pop()
        with os.scandir(directory) as entries:
            for entry in entries:
                path = os.path.join(into, entry.name)
                if entry.is_symlink():
                    os.symlink(os.readlink(entry.path), path)
                elif entry.is_dir():
                    os.mkdir(path, 0o700)
                    pending.append((entry.path, path))
                else:
                    size += _copy_file(entry.path, path)
    return size


class _Chunks(io.RawIOBase):
    """Chunks as a file that can be read."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks: Iterator[bytes] = iter(chunks)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        room = memoryview(buffer)
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        taken = self._rest[: len(room)]
        room[: len(taken)] = taken
        self._rest = self._rest[len(taken) :]
        return len(taken)


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    path = _place(member.name, target)
    if path is None:
        return  # the tree itself
    parent = path.parent
    _make_parents(parent, target, member.name)
    try:
        if member.isdir():
            if not path.is_dir() or path.is_symlink():
                path.mkdir(mode=0o700)
        elif member.issym():
            if member.linkname.startswith("/"):
                raise UnsafeBundle(f"{member.name}: an absolute link")
            os.symlink(member.linkname, path)
        elif member.islnk():
            origin = _place(member.linkname, target)
            if origin is None or origin.is_symlink() or not origin.is_file():
                raise UnsafeBundle(f"{member.name}: a link to what is no file of the bundle")
            _refuse_linked_parents(origin.parent, target, member.name)
            _copy_file(str(origin), str(path))
        elif member.isreg() and not member.issparse():
            _write_member(tar, member, path)
        else:
            raise UnsafeBundle(f"{member.name}: neither file, directory nor link")
    except FileExistsError:
        raise UnsafeBundle(f"{member.name}: twice in the bundle") from None


def _place(name: str, target: Path) -> Path | None:
    """Where a member belongs; None for the tree itself."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise UnsafeBundle(f"{name}: leads out of the bundle")
    return target.joinpath(*parts) if parts else None


def _make_parents(parent: Path, target: Path, name: str) -> None:
    _refuse_linked_parents(parent, target, name)
    try:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UnsafeBundle(f"{name}: below what is no directory") from None


def _refuse_linked_parents(parent: Path, target: Path, name: str) -> None:
    while parent != target:
        if parent.is_symlink():
            raise UnsafeBundle(f"{name}: below a link")
        parent = parent.parent


def _write_member(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    content = tar.extractfile(member)
    if content is None:
        raise UnsafeBundle(f"{member.name}: no content")
    with open(os.open(path, _NEW_FILE, _file_mode(member.mode)), "wb") as file:
        while chunk := content.read(_READ):
            file.write(chunk)


def _refuse_leaving_links(target: Path) -> None:
    """Only now, with every link in place, is it known where each one leads."""
    root = os.path.realpath(target)
    for directory, names, files in os.walk(target):
        for name in (*names, *files):
            path = os.path.join(directory, name)
            if os.path.islink(path):
                real = os.path.realpath(path)
                if real != root and not real.startswith(root + "/"):
                    raise UnsafeBundle(f"{os.path.relpath(path, target)}: leads out of the bundle")


def _file_mode(mode: int) -> int:
    return 0o700 if mode & 0o111 else 0o600


def _copy_file(source: str, target: str) -> int:
    origin = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        facts = os.fstat(origin)
        copy = os.open(target, _NEW_FILE, _file_mode(facts.st_mode))
        try:
            if facts.st_size and not _cloned(copy, origin):
                _copied(copy, origin, facts.st_size)
            os.utime(copy, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        finally:
            os.close(copy)
    finally:
        os.close(origin)
    return facts.st_size


def _cloned(copy: int, origin: int) -> bool:
    try:
        ioctl(copy, _FICLONE, origin)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        return False
    return True


def _copied(copy: int, origin: int, size: int) -> None:
    left = size
    while left > 0:
        done = os.sendfile(copy, origin, None, left)
        if done == 0:
            return
        left -= done
