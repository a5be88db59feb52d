"""A content bundle (tar, zstd) unpacked into a directory that nothing can leave.

The server refused unsafe bundles when they were stored; a node does not rely on it, because a
database may be written by others than our API.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

import zstandard

from dispatcher.errors import DispatcherError

_PIECE = 1 << 20


class BundleError(DispatcherError):
    """A bundle is damaged, or holds what must not be unpacked."""


class _Verified(io.RawIOBase):
    """The bundle's bytes as a file, and their digest."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks: Iterator[bytes] = iter(chunks)
        self._rest = memoryview(b"")
        self._sha256 = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._sha256.update(chunk)
            self._rest = memoryview(chunk)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def digest(self) -> str:
        while self.read(_PIECE):
            pass
        return self._sha256.hexdigest()


def unpack(chunks: Iterable[bytes], digest: str, target: Path, *, limit: int) -> int:
    """Unpack a bundle.

    Args:
        chunks: its bytes.
        digest: their SHA-256, in hex.
        target: an empty directory.
        limit: most bytes, unpacked.

    Returns:
        Bytes of the files.

    Raises:
        BundleError: damaged, too large, or with a member that leaves ``target``.
    """
    source = _Verified(chunks)
    buffered = io.BufferedReader(source, _PIECE)
    try:
        with (
            zstandard.ZstdDecompressor().stream_reader(buffered, closefd=False) as plain,
            tarfile.open(fileobj=plain, mode="r|") as tar,
        ):
            size = _extract(tar, target, limit)
    except (tarfile.TarError, zstandard.ZstdError, EOFError, ValueError) as error:
        raise BundleError(f"content {digest[:12]}: cannot be unpacked: {error}") from None
    if source.digest() != digest:
        raise BundleError(f"content {digest[:12]}: its bytes are not those of its digest")
    return size


def _extract(tar: tarfile.TarFile, target: Path, limit: int) -> int:
    size = 0
    links: list[tuple[Path, str]] = []
    for member in tar:
        path = target / _inside(member.name)
        if member.isdir():
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            continue
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if member.issym():
            links.append((path, member.linkname))
        elif member.isreg():
            size += member.size
            if size > limit:
                raise BundleError(f"content: more than {limit} bytes when unpacked")
            _write(tar, member, path)
        else:
            raise BundleError(f"content: {member.name!r} is neither file, directory nor link")
    # Links are made when nothing more is written: no file can be written through one.
    for path, where in links:
        os.symlink(where, path)
    root = os.path.realpath(target)
    for path, where in links:
        if os.path.commonpath([root, os.path.realpath(path)]) != root:
            raise BundleError(f"content: the link {path.name!r} to {where!r} leaves the bundle")
    return size


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        raise BundleError(f"content: {name!r} leaves the bundle")
    return path


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    content = tar.extractfile(member)
    assert content is not None
    mode = 0o700 if member.mode & 0o100 else 0o600
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, mode), "wb") as file:
        while piece := content.read(_PIECE):
            file.write(piece)
