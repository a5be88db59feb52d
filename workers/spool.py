"""A run's events on disk, between the supervisor that writes them and the agent that ships them.

Segments ``<20-digit global start offset>.seg`` hold records: length (u32), CRC-32 of the payload
(u32), both little-endian, and the payload. A payload is one kind byte and its data:

* ``E``: one event as a COPY text line, newline included, that begins with the column ``counter``.
  Shipping is concatenation: ``prefix + prefix.join(lines)`` with the prefix ``job_day TAB job_id TAB``;
* ``Z``: the end record, JSON ``{"total": n}``.

An offset counts bytes from the start of the run, over all segments. A torn last record is what a
killed writer leaves behind (docs/protocols.md 5.3).
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path

from dispatcher.errors import RunDirectoryError

SEGMENT_BYTES = 16 << 20
#: No record is longer: PostgreSQL refuses a field of one gigabyte.
MAX_RECORD = 1 << 30
_HEADER = struct.Struct("<II")
_EVENT, _END = b"E", b"Z"


class SpoolError(RunDirectoryError):
    """The spool cannot be written (a full disk), or what it holds does not fit together."""


@dataclass(frozen=True, slots=True)
class SpooledEvent:
    """One event: the columns of ``job_event`` from ``counter`` on, in the table's order.

    Attributes:
        counter: 1, 2, 3 … without a gap.
        created: when Ansible made it, with time zone.
        start_line, end_line: the run's output lines that ``stdout`` holds, end excluded.
        event_data: JSON text, clean of NUL and of unpaired surrogates.
    """

    counter: int
    uuid: str
    parent_uuid: str
    event: str
    created: datetime
    stdout: str
    start_line: int
    end_line: int
    verbosity: int
    failed: bool
    changed: bool
    host_name: str
    play: str
    task: str
    role: str
    sanitized: bool
    truncated: bool
    event_data: str


COLUMNS = tuple(field.name for field in fields(SpooledEvent))


def _escaped(text: str) -> str:
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    return text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def copy_line(event: SpooledEvent) -> bytes:
    """The event as a line of COPY's text format, from ``counter`` on, newline included."""
    return (
        f"{event.counter}\t{_escaped(event.uuid)}\t{_escaped(event.parent_uuid)}\t"
        f"{_escaped(event.event)}\t{event.created.isoformat()}\t{_escaped(event.stdout)}\t"
        f"{event.start_line}\t{event.end_line}\t{event.verbosity}\t"
        f"{'t' if event.failed else 'f'}\t{'t' if event.changed else 'f'}\t"
        f"{_escaped(event.host_name)}\t{_escaped(event.play)}\t{_escaped(event.task)}\t"
        f"{_escaped(event.role)}\t{'t' if event.sanitized else 'f'}\t"
        f"{'t' if event.truncated else 'f'}\t{_escaped(event.event_data)}\n"
    ).encode()


def _segment(directory: Path, start: int) -> Path:
    return directory / f"{start:020d}.seg"


def _segments(directory: Path) -> list[tuple[int, Path]]:
    """(start offset, path) of each segment, in order."""
    try:
        names = sorted(entry for entry in os.listdir(directory) if entry.endswith(".seg"))
    except FileNotFoundError:
        return []
    return [(int(name[:-4]), directory / name) for name in names]


class SpoolWriter:
    """Appends records; one writer, started once, by the supervisor.

    Raises:
        SpoolError: something was spooled here before, or a write failed; what is on disk then ends
            with the last whole record.
    """

    def __init__(self, directory: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        if _segments(directory):
            raise SpoolError(f"{directory}: spooled into before")
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._start = 0
        self._size = 0
        self._file = self._open(0)

    @property
    def offset(self) -> int:
        """The bytes written so far."""
        return self._start + self._size

    def append_event(self, event: SpooledEvent) -> None:
        """Write one event. It survives the death of this process, not that of the machine."""
        self._append(_EVENT + copy_line(event))

    def end(self, total: int) -> None:
        """Write the end record, and force all segments to disk."""
        self._append(_END + json.dumps({"total": total}).encode())
        self.close()

    def close(self) -> None:
        """Force the last segment to disk and let go of it."""
        if self._file >= 0:
            try:
                os.fsync(self._file)
            finally:
                os.close(self._file)
                self._file = -1

    def _open(self, start: int) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        return os.open(_segment(self._directory, start), flags, 0o600)

    def _append(self, payload: bytes) -> None:
        if len(payload) > MAX_RECORD:
            raise SpoolError(f"a record of {len(payload)} bytes")
        record = _HEADER.pack(len(payload), zlib.crc32(payload)) + payload
        try:
            if self._size and self._size + len(record) > self._segment_bytes:
                self.close()
                self._start, self._size = self.offset, 0
                self._file = self._open(self._start)
            written = os.write(self._file, record)
            while written < len(record):
                written += os.write(self._file, record[written:])
        except OSError as error:
            if self._file >= 0:
                os.ftruncate(self._file, self._size)
            raise SpoolError(f"{self._directory}: {error.strerror}") from error
        self._size += len(record)


@dataclass(frozen=True)
class Batch:
    """What one read found.

    Attributes:
        lines: COPY text lines from ``counter`` on, each with its newline.
        next_offset: where the next read begins, once these are stored.
        total: the end record's count; None while it has not been reached.
        torn: bytes behind ``next_offset`` make no whole record (yet).
    """

    lines: list[bytes]
    next_offset: int
    total: int | None = None
    torn: bool = False


class SpoolReader:
    """Reads records from any offset on; keeps nothing in memory between two reads."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def size(self) -> int:
        """The bytes on disk, a torn record included."""
        segments = _segments(self._directory)
        return segments[-1][0] + segments[-1][1].stat().st_size if segments else 0

    def read(
        self,
        offset: int,
        *,
        max_events: int = 500,
        max_bytes: int = 4 << 20,
        cut: bool = False,
    ) -> Batch:
        """The next events.

        Args:
            offset: a ``next_offset`` of before, or 0.
            max_events, max_bytes: bounds; one event is read whatever its size.
            cut: the supervisor is dead: a torn last record is cut off the file.

        Raises:
            SpoolError: the offset is in no segment.
        """
        segments = _segments(self._directory)
        lines: list[bytes] = []
        position, room = offset, max_bytes
        for index, (start, path) in enumerate(segments):
            last = index + 1 == len(segments)
            if not last and segments[index + 1][0] <= position:
                continue
            if position < start:
                raise SpoolError(f"{self._directory}: no segment holds offset {position}")
            with open(path, "rb") as file:
                file.seek(position - start)
                while len(lines) < max_events and (room > 0 or not lines):
                    payload = _record(file.read(_HEADER.size), file.read)
                    if payload is None:
                        break
                    if payload[:1] == _END:
                        position += _HEADER.size + len(payload)
                        return Batch(lines, position, total=json.loads(payload[1:])["total"])
                    lines.append(payload[1:])
                    position += _HEADER.size + len(payload)
                    room -= len(payload)
                else:
                    return Batch(lines, position)
                torn = os.fstat(file.fileno()).st_size > position - start
            if torn:
                if cut:
                    os.truncate(path, position - start)
                    for _, later in segments[index + 1 :]:
                        later.unlink()
                return Batch(lines, position, torn=True)
        return Batch(lines, position)


def _record(header: bytes, read: Callable[[int], bytes]) -> bytes | None:
    """The payload that follows a header; None when header or payload are not whole."""
    if len(header) < _HEADER.size:
        return None
    length, crc = _HEADER.unpack(header)
    if not 0 < length <= MAX_RECORD:
        return None
    payload = read(length)
    if len(payload) < length or zlib.crc32(payload) != crc:
        return None
    return payload
