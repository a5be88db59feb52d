"""A directory becomes a content bundle: tar and zstd, equal bytes for equal content.

What the digest depends on: names, contents, links, the execute bit of the owner. What it does not:
times, owners, other permission bits, the order in which the file system lists names.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import IO, cast

import zstandard

from dispatcher.client.ignore import IGNORE_FILE, IgnoreRules
from dispatcher.errors import DispatcherError

#: Packed bundles up to this many bytes stay in memory, larger ones go to a temporary file.
_MEMORY_BYTES = 16 << 20
_CHUNK_BYTES = 1 << 20
_LEVEL = 6
DEFAULT_UNPACKED_LIMIT = 1_000_000_000


class PackError(DispatcherError):
    """The directory cannot become a bundle. The message names the path and what to do."""


@dataclass(frozen=True)
class Entry:
    """One file, directory or symbolic link that belongs to a bundle.

    Attributes:
        name: path inside the bundle, ``/`` as separator.
        path: where it is on this machine.
        kind: ``file``, ``directory`` or ``link``.
        size: bytes of a file, else 0.
        executable: whether the owner may execute it.
        target: what a link says.
    """

    name: str
    path: Path
    kind: str
    size: int = 0
    executable: bool = False
    target: str = ""


@dataclass(frozen=True)
class Bundle:
    """A packed directory. Use it as a context manager: it may hold a temporary file.

    Attributes:
        digest: sha256 of the compressed bytes, in hex.
        size: number of compressed bytes.
        unpacked_size: sum of the files' sizes.
        names: every member, in order.
    """

    digest: str
    size: int
    unpacked_size: int
    names: tuple[str, ...]
    _file: IO[bytes] = field(repr=False)

    def chunks(self) -> Iterator[bytes]:
        """The compressed bytes from the start; may be read again."""
        self._file.seek(0)
        while chunk := self._file.read(_CHUNK_BYTES):
            yield chunk

    def __enter__(self) -> Bundle:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()


def pack(directory: Path, *, unpacked_limit: int = DEFAULT_UNPACKED_LIMIT) -> Bundle:
    """Pack a directory.

    Args:
        directory: its content, not itself, becomes the bundle.
        unpacked_limit: bytes; a larger directory is refused before anything is read.

    Raises:
        PackError: a link that leaves the directory, a name that is not UTF-8, a device, socket or
            pipe, a file that cannot be read or changes meanwhile, or too many bytes.
    """
    entries = collect(directory)
    _check_size(entries, directory, unpacked_limit)
    # closed by the bundle, or here when packing fails
    file = cast(IO[bytes], tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES))  # noqa: SIM115
    try:
        with (
            zstandard.ZstdCompressor(level=_LEVEL).stream_writer(file, closefd=False) as out,
            tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar,
        ):
            for entry in entries:
                _add(tar, entry)
        digest, size = _measure(file)
    except BaseException:
        file.close()
        raise
    names = tuple(entry.name for entry in entries)
    return Bundle(digest, size, sum(entry.size for entry in entries), names, file)


def _measure(file: IO[bytes]) -> tuple[str, int]:
    """The digest and the number of bytes written so far."""
    size = file.tell()
    file.seek(0)
    digest = hashlib.sha256()
    while chunk := file.read(_CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest(), size


def collect(directory: Path) -> list[Entry]:
    """What of a directory belongs to its bundle, in the bundle's order.

    Raises:
        PackError: as :func:`pack` says, file contents excepted.
    """
    if not directory.is_dir():
        raise PackError(f"{directory}: is not a directory")
    rules = IgnoreRules(_ignore_lines(directory))
    return sorted(_walk(directory, directory, "", rules), key=lambda entry: entry.name)


def _ignore_lines(directory: Path) -> list[str]:
    try:
        return (directory / IGNORE_FILE).read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise PackError(f"{directory / IGNORE_FILE}: {error}") from None


def _walk(root: Path, directory: Path, prefix: str, rules: IgnoreRules) -> Iterator[Entry]:
    try:
        found = list(os.scandir(directory))
    except OSError as error:
        raise PackError(f"{directory}: {error.strerror}") from None
    for item in found:
        name = f"{prefix}{item.name}"
        path = Path(item.path)
        # A link to a directory is a link: never walked into, and no "directory" to a pattern.
        is_directory = item.is_dir(follow_symlinks=False)
        if rules.ignores(name, is_directory=is_directory):
            continue
        yield _entry(root, path, name)
        if is_directory:
            yield from _walk(root, path, f"{name}/", rules)


def _entry(root: Path, path: Path, name: str) -> Entry:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise PackError(f"{name!r}: the name is not UTF-8") from None
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(path)
        _check_link(root, path, name, target)
        return Entry(name, path, "link", target=target)
    if stat.S_ISDIR(status.st_mode):
        return Entry(name, path, "directory")
    if stat.S_ISREG(status.st_mode):
        executable = bool(status.st_mode & stat.S_IXUSR)
        return Entry(name, path, "file", status.st_size, executable)
    raise PackError(f"{path}: is neither a file, a directory nor a link; name it in {IGNORE_FILE}")


def _check_link(root: Path, path: Path, name: str, target: str) -> None:
    """Refuse a link that leaves the tree by its words, or by what it resolves to."""
    if os.path.isabs(target):
        raise PackError(f"{path}: is a link to the absolute path {target}; make it relative")
    within = os.path.normpath(str(PurePosixPath(name).parent / target))
    real = Path(os.path.realpath(path))
    if within == ".." or within.startswith("../") or not real.is_relative_to(root.resolve()):
        raise PackError(f"{path}: is a link to {target}, which is outside of {root}")


def _check_size(entries: list[Entry], directory: Path, limit: int) -> None:
    total = sum(entry.size for entry in entries)
    if total <= limit:
        return
    tops: dict[str, int] = {}
    for entry in entries:
        top = entry.name.split("/", 1)[0]
        tops[top] = tops.get(top, 0) + entry.size
    largest = max(tops, key=lambda top: tops[top])
    raise PackError(
        f"{directory}: holds {total:,} bytes, more than the {limit:,} allowed; the most are in "
        f"{largest} ({tops[largest]:,}): name what a run does not need in {IGNORE_FILE}"
    )


def _add(tar: tarfile.TarFile, entry: Entry) -> None:
    member = tarfile.TarInfo(entry.name)
    member.mode = 0o755 if entry.executable or entry.kind == "directory" else 0o644
    if entry.kind == "directory":
        member.type = tarfile.DIRTYPE
        tar.addfile(member)
    elif entry.kind == "link":
        member.type, member.linkname, member.mode = tarfile.SYMTYPE, entry.target, 0o777
        tar.addfile(member)
    else:
        member.size = entry.size
        try:
            with open(entry.path, "rb") as file:
                tar.addfile(member, file)
                grew = bool(file.read(1))
        except OSError as error:
            # tarfile raises a bare OSError when the file ends before its size
            raise PackError(
                f"{entry.path}: {error.strerror or 'changed while it was packed'}"
            ) from None
        if grew:
            raise PackError(f"{entry.path}: changed while it was packed")
