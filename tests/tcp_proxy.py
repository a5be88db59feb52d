"""A TCP proxy between a process under test and a server, that can be cut, slow, or lose an answer."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import closing, suppress
from types import TracebackType

from sqlalchemy.engine import make_url


def in_front_of(database_url: str, *, delay: float = 0.0) -> tuple[TcpProxy, str]:
    """A proxy in front of a database server, and the database's URL through it.

    Args:
        database_url: of the server.
        delay: as :class:`TcpProxy` takes it.
    """
    url = make_url(database_url)
    host = url.query.get("host") or url.host or "127.0.0.1"
    port = url.port or 5432
    target: str | tuple[str, int] = (str(host), port)
    if str(host).startswith("/"):
        target = f"{host}/.s.PGSQL.{port}"
    proxy = TcpProxy(target, delay=delay)
    through = url.set(host="127.0.0.1", port=proxy.port, query={})
    return proxy, through.render_as_string(hide_password=False)


class TcpProxy:
    """Listens on loopback and forwards to ``target``; each direction of a connection is a thread.

    Args:
        target: host and port, or the path of a unix socket.
        delay: seconds that each message of a client waits before it is passed on: a longer way.
    """

    def __init__(self, target: str | tuple[str, int], *, delay: float = 0.0) -> None:
        self._target = target
        self._delay = delay
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._is_cut = False
        self._flowing = threading.Event()
        self._flowing.set()
        self._mark: bytes | None = None
        self.lost_answers = 0
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
            doomed = list(self._open)
        for each in doomed:
            _end(each)

    def restore(self) -> None:
        """Let connections through again."""
        with self._lock:
            self._is_cut = False
        self._flowing.set()

    def stall(self) -> None:
        """Keep connections open, but pass nothing on until :meth:`restore`."""
        self._flowing.clear()

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
            with self._lock:
                self._open |= {client, server}
            doomed = threading.Event()
            for source, sink, is_client in ((client, server, True), (server, client, False)):
                threading.Thread(
                    target=self._forward, args=(source, sink, is_client, doomed), daemon=True
                ).start()

    def _connect(self) -> socket.socket:
        if not isinstance(self._target, str):
            return socket.create_connection(self._target)
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.connect(self._target)
        return server

    def _forward(
        self, source: socket.socket, sink: socket.socket, is_client: bool, doomed: threading.Event
    ) -> None:
        with closing(source), suppress(OSError):
            while piece := source.recv(1 << 20):
                if is_client and self._delay:
                    time.sleep(self._delay)
                if is_client and self._takes_mark(piece):
                    doomed.set()
                elif not is_client and doomed.is_set():
                    self.lost_answers += 1
                    break
                self._flowing.wait()
                sink.sendall(piece)
        _end(source)
        _end(sink)
        with self._lock:
            self._open -= {source, sink}

    def _takes_mark(self, piece: bytes) -> bool:
        with self._lock:
            if self._mark is None or self._mark not in piece:
                return False
            self._mark = None
            return True


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
