"""Reading server-sent events (the ``text/event-stream`` format of the HTML standard)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Message:
    """One message.

    Attributes:
        event: its type; ``message`` when none was given.
        data: its lines, joined.
        id: the last id given up to here.
    """

    event: str
    data: str
    id: str


def read_messages(chunks: Iterable[bytes]) -> Iterator[Message]:
    """Messages out of a body's chunks, each as soon as it is complete.

    A message that the end cuts off is dropped, as the standard says.
    """
    event, last_id = "", ""
    data: list[str] = []
    for line in _lines(chunks):
        if not line:
            if data:
                yield Message(event or "message", "\n".join(data), last_id)
            event, data = "", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            event = value
        elif name == "data":
            data.append(value)
        elif name == "id" and "\0" not in value:
            last_id = value


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Lines without their ends: LF, CRLF or CR, also where a chunk ends between CR and LF."""
    rest = b""
    after_cr = False
    for chunk in filter(None, chunks):
        if after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        after_cr = chunk.endswith(b"\r")
        *whole, rest = (rest + chunk).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in whole:
            yield line.decode("utf-8", errors="replace")
