"""The members of a tar archive, found while its bytes stream by.

Reads what tar programs write for ordinary trees: ustar, pax and GNU long names. What else an
archive may hold (sparse files, volumes) is refused, and so is a header larger than any name: the
standard library's reader would take both into memory, whatever their size.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

BLOCK: Final = 512
#: Largest extended header, in bytes; longer than any path.
MOST_HEADER_BYTES: Final = 65_536
#: Type flags of the headers that say something about the next member.
_PAX: Final = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE)
_EXTENDED: Final = (*_PAX, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_KINDS: Final = {
    tarfile.REGTYPE: "file",
    tarfile.AREGTYPE: "file",
    tarfile.CONTTYPE: "file",
    tarfile.DIRTYPE: "directory",
    tarfile.SYMTYPE: "link",
    tarfile.LNKTYPE: "hard link",
    tarfile.CHRTYPE: "device",
    tarfile.BLKTYPE: "device",
    tarfile.FIFOTYPE: "pipe",
}


class TarError(ValueError):
    """The bytes are not an archive that is read here."""


@dataclass(frozen=True)
class Member:
    """One member of an archive.

    Attributes:
        name: as written.
        kind: ``file``, ``directory``, ``link``, ``hard link``, ``device``, ``pipe`` or ``unknown``.
        size: bytes of a file.
        mode: permission bits, set-id among them.
        target: of a link.
    """

    name: str
    kind: str
    size: int = 0
    mode: int = 0o644
    target: str = ""


class TarStream:
    """Feed it the archive; it answers the members whose headers have gone by."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._skip = 0
        self._extended: tarfile.TarInfo | None = None
        self._next: dict[str, str] = {}
        self._ended = False

    def feed(self, piece: bytes) -> Iterator[Member]:
        """The members that begin in the bytes so far.

        Raises:
            TarError: they are not such an archive.
        """
        view = memoryview(piece)
        while len(view):
            if self._ended:
                return
            if self._skip:
                skipped = min(self._skip, len(view))
                self._skip -= skipped
                view = view[skipped:]
                continue
            taken = min(self._wanted() - len(self._pending), len(view))
            self._pending += view[:taken]
            view = view[taken:]
            if len(self._pending) == self._wanted():
                block = bytes(self._pending)
                self._pending.clear()
                yield from self._block(block)

    def close(self) -> None:
        """Say that no more bytes come.

        Raises:
            TarError: the archive is cut off.
        """
        if not self._ended and (self._pending or self._skip or self._extended or self._next):
            raise TarError("the archive is cut off")

    def _wanted(self) -> int:
        return BLOCK if self._extended is None else _padded(self._extended.size)

    def _block(self, block: bytes) -> Iterator[Member]:
        if self._extended is not None:
            header, self._extended = self._extended, None
            self._read_extended(header, block[: header.size])
            return
        if block.count(0) == BLOCK:
            self._ended = True
            return
        try:
            header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            raise TarError(f"not a tar archive: {error}") from None
        if header.size < 0:
            raise TarError("a member has a negative size")
        if header.type in _EXTENDED:
            if not 0 < header.size <= MOST_HEADER_BYTES:
                raise TarError("an extended header has an impossible size")
            self._extended = header
        else:
            yield self._member(header)

    def _member(self, header: tarfile.TarInfo) -> Member:
        said, self._next = self._next, {}
        if any(key.startswith("GNU.sparse.") for key in said):
            raise TarError("sparse files are not allowed")
        kind = _KINDS.get(header.type, "unknown")
        try:
            size = int(said.get("size", header.size))
        except ValueError:
            size = -1
        if size < 0:
            raise TarError("a member has no possible size")
        # links and directories carry no bytes, whatever their size says
        self._skip = _padded(size) if kind in ("file", "unknown") else 0
        return Member(
            name=said.get("path", header.name),
            kind=kind,
            size=size if kind == "file" else 0,
            mode=header.mode,
            target=said.get("linkpath", header.linkname),
        )

    def _read_extended(self, header: tarfile.TarInfo, content: bytes) -> None:
        if header.type == tarfile.XGLTYPE:
            # nothing that concerns a member is said for all of them (git writes a comment here)
            if set(_pax_records(content)) & {"path", "linkpath", "size"}:
                raise TarError("a global header that renames members is not allowed")
        elif header.type in _PAX:
            self._next |= _pax_records(content)
        else:
            key = "path" if header.type == tarfile.GNUTYPE_LONGNAME else "linkpath"
            self._next[key] = _text(content.split(b"\0", 1)[0])


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _pax_records(content: bytes) -> dict[str, str]:
    """Records of the form ``<length of all of it> <key>=<value>\\n``."""
    records: dict[str, str] = {}
    while content.strip(b"\0"):
        length_text, _, _ = content.partition(b" ")
        if not length_text.isdigit() or len(length_text) > 6:
            raise TarError("a pax header is damaged")
        length = int(length_text)
        if not len(length_text) + 1 < length <= len(content):
            raise TarError("a pax header is damaged")
        record, content = content[len(length_text) + 1 : length], content[length:]
        key, equals, value = record.partition(b"=")
        if not equals or not value.endswith(b"\n"):
            raise TarError("a pax header is damaged")
        records[_text(key)] = _text(value[:-1])
    return records
