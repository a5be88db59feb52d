"""A TCP proxy between a process under test and a server, that can be cut, or lose an answer."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from sqlalchemy.engine import make_url

#: What a client of PostgreSQL says before it closes.
_GOODBYE: Final = b"X\0\0\0\4"


def in_front_of(database_url: str) -> tuple[TcpProxy, str]:
    """A proxy in front of a database server, and the database's URL through it."""
    url = make_url(database_url)
    host = url.query.get("host") or url.host or "127.0.0.1"
    port = url.port or 5432
    target: str | tuple[str, int] = (str(host), port)
    if str(host).startswith("/"):
        target = f"{host}/.s.PGSQL.{port}"
    proxy = TcpProxy(target)
    through = url.set(host="127.0.0.1", port=proxy.port, query={})
    return proxy, through.render_as_string(hide_password=False)


@dataclass(eq=False)
class _Pair:
    """A connection through the proxy.

    Attributes:
        doomed: its next answer is lost, and the connection with it.
        abandoned: nothing is passed on any more, not even its end.
        asked_at: when its client asked what has not been answered; None: it waits for nothing.
        answered: bytes that its server has sent.
    """

    client: socket.socket
    server: socket.socket
    doomed: bool = False
    abandoned: bool = False
    asked_at: float | None = None
    answered: int = 0


class TcpProxy:
    """Listens on loopback and forwards to ``target``; each direction of a connection is a thread.

    Args:
        target: host and port, or the path of a unix socket.
    """

    def __init__(self, target: str | tuple[str, int]) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._pairs: set[_Pair] = set()
        self._is_cut = False
        self._flowing = threading.Event()
        self._flowing.set()
        self._mark: bytes | None = None
        self.lost_answers = 0
        #: Of every half-open connection that was waited on: seconds until its client gave it up.
        self.given_up: list[float] = []
        #: Seconds that each piece is held up, in either direction.
        self.delay = 0.0
        #: Bytes that a server may answer on one connection before it is cut there; None: any number.
        self.allowed: int | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    def cut(self) -> None:
        """End every connection, and refuse new ones."""
        with self._lock:
            self._is_cut = True
            doomed = list(self._pairs)
        for pair in doomed:
            _end(pair.client)
            _end(pair.server)

    def restore(self) -> None:
        """Let connections through again."""
        with self._lock:
            self._is_cut = False
        self._flowing.set()

    def stall(self) -> None:
        """Keep connections open, but pass nothing on until :meth:`restore`."""
        self._flowing.clear()

    def abandon(self) -> None:
        """Make every open connection half-open: its server goes, its client is never told.

        New connections are forwarded as ever.
        """
        with self._lock:
            pairs = list(self._pairs)
        now = time.monotonic()
        for pair in pairs:
            if pair.asked_at is not None:
                pair.asked_at = now
            pair.abandoned = True
            _end(pair.server)

    def half_open(self) -> tuple[int, int]:
        """Connections that :meth:`abandon` met: how many clients wait on theirs, how many hold one."""
        with self._lock:
            held = [pair for pair in self._pairs if pair.abandoned]
        return sum(pair.asked_at is not None for pair in held), len(held)

    def lose_answer_to(self, mark: bytes) -> None:
        """End the next connection whose client sends ``mark``, once the server has answered it."""
        with self._lock:
            self._mark = mark

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()
        self.cut()
        self._flowing.set()

    def __enter__(self) -> TcpProxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._is_cut:
                client.close()
                continue
            try:
                server = self._connect()
            except OSError:
                client.close()
                continue
            pair = _Pair(client, server)
            with self._lock:
                self._pairs.add(pair)
            for is_client in (True, False):
                threading.Thread(target=self._forward, args=(pair, is_client), daemon=True).start()

    def _connect(self) -> socket.socket:
        if not isinstance(self._target, str):
            return socket.create_connection(self._target)
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.connect(self._target)
        return server

    def _forward(self, pair: _Pair, is_client: bool) -> None:
        source, sink = (pair.client, pair.server) if is_client else (pair.server, pair.client)
        with suppress(OSError):
            while piece := source.recv(65536):
                if pair.abandoned and piece == _GOODBYE:
                    break  # given up, whoever inherited the socket
                if is_client and pair.asked_at is None:
                    pair.asked_at = time.monotonic()
                elif not is_client and not pair.abandoned:
                    pair.asked_at = None
                if is_client and self._takes_mark(piece):
                    pair.doomed = True
                elif not is_client and pair.doomed:
                    self.lost_answers += 1
                    break
                self._flowing.wait()
                if self.delay:
                    time.sleep(self.delay)
                whole = len(piece)
                if not is_client and self.allowed is not None:
                    piece = piece[: max(0, self.allowed - pair.answered)]
                    pair.answered += len(piece)
                if not pair.abandoned:
                    sink.sendall(piece)
                if len(piece) < whole:
                    break
        if pair.abandoned and not is_client:
            source.close()
            return  # the client's side ends when the client gives up
        _end(source)
        _end(sink)
        with self._lock:
            self._pairs.discard(pair)
            if pair.abandoned and pair.asked_at is not None:
                self.given_up.append(time.monotonic() - pair.asked_at)
        source.close()

    def _takes_mark(self, piece: bytes) -> bool:
        with self._lock:
            if self._mark is None or self._mark not in piece:
                return False
            self._mark = None
            return True


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
