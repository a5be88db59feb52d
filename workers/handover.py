"""The local socket over which the Celery worker hands ids to the agent: one JSON line each.

A line is a hint like the message it came from. Who cannot hand it over in a second drops it: the
agent's own poll finds the rows.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from dispatcher import logs

VERSION: Final = 1
SEND_TIMEOUT: Final = 1.0
#: More than the longest message's pairs (docs/messages.md) take as JSON.
_LONGEST_LINE: Final = 64 * 1024
SOCKET_NAME: Final = "agent.sock"

Pair = tuple[int, UUID]


@dataclass(frozen=True)
class Handed:
    """What one line said.

    Attributes:
        start: waiting jobs to claim.
        cancel: running jobs whose flag is to be read now.
        ignored: name of a task whose message had an unknown version or form.
    """

    start: tuple[Pair, ...] = ()
    cancel: tuple[Pair, ...] = ()
    ignored: str = ""
    unreadable: bool = field(default=False)


def line(*, start: Sequence[Pair] = (), cancel: Sequence[Pair] = (), ignored: str = "") -> bytes:
    """The line that says this."""
    said: dict[str, Any] = {"v": VERSION}
    if start:
        said["start"] = [[job_id, str(dispatch_id)] for job_id, dispatch_id in start]
    if cancel:
        said["cancel"] = [[job_id, str(dispatch_id)] for job_id, dispatch_id in cancel]
    if ignored:
        said["ignored"] = ignored
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"


def read_line(raw: bytes) -> Handed:
    """What a line says; ``unreadable`` for another version or a broken form."""
    try:
        said = json.loads(raw)
        if said["v"] != VERSION:
            return Handed(unreadable=True)
        return Handed(
            start=_pairs(said.get("start", ())),
            cancel=_pairs(said.get("cancel", ())),
            ignored=str(said.get("ignored", ""))[:100],
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return Handed(unreadable=True)


def _pairs(raw: Sequence[Sequence[Any]]) -> tuple[Pair, ...]:
    return tuple((int(job_id), UUID(dispatch_id)) for job_id, dispatch_id in raw)


def hand_over(data_dir: Path, message: bytes) -> bool:
    """Send one line to the agent. Returns whether it was taken; never raises, at most 1 s."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as connection:
        connection.settimeout(SEND_TIMEOUT)
        try:
            _within_directory(connection.connect, data_dir)
            connection.sendall(message)
        except OSError:
            return False
        return True


def _within_directory(act: Callable[[str], None], data_dir: Path) -> None:
    """Name the socket through an open directory: its full path may be too long for an address."""
    directory = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        act(f"/proc/self/fd/{directory}/{SOCKET_NAME}")
    finally:
        os.close(directory)


class HandoverServer:
    """Listens on ``agent.sock`` and calls ``take`` for each line, in a thread of its own."""

    def __init__(self, data_dir: Path, take: Callable[[Handed], None]) -> None:
        self._data_dir = data_dir
        self._take = take
        self._log = logs.get(__name__)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._thread = threading.Thread(target=self._serve, name="handover", daemon=True)

    def start(self) -> None:
        """Listen. The agent's lock is held, so a socket that is there already is a dead one's."""
        (self._data_dir / SOCKET_NAME).unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            _within_directory(self._listener.bind, self._data_dir)
        finally:
            os.umask(before)
        self._listener.listen(64)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening; whatever is sent from now on is dropped by its sender."""
        with suppress(OSError):
            (self._data_dir / SOCKET_NAME).unlink()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with closing(connection):
                handed = self._read(connection)
            if handed is not None:
                self._take(handed)

    def _read(self, connection: socket.socket) -> Handed | None:
        connection.settimeout(SEND_TIMEOUT)
        raw = b""
        try:
            while not raw.endswith(b"\n") and len(raw) <= _LONGEST_LINE:
                piece = connection.recv(_LONGEST_LINE)
                if not piece:
                    break
                raw += piece
        except OSError as error:
            self._log.warning("a hand-over was cut off", error=str(error))
            return None
        return read_line(raw)
