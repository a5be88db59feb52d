"""A TCP proxy that breaks connections: what a network does to a client that follows a job."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class Proxy:
    """A running proxy.

    Attributes:
        url: where it listens.
        cuts: connections broken so far.
        refusing: while true, new connections are broken at once.
    """

    url: str
    cuts: int = 0
    refusing: bool = False
    _open: set[socket.socket] = field(default_factory=set)


@contextmanager
def cutting_proxy(target: str, *, after: tuple[int, int], seed: int = 1) -> Iterator[Proxy]:
    """Forward to ``target`` (a base URL) while the block lasts.

    Args:
        after: bounds of the bytes that a connection answers before it is broken.
    """
    address = urlsplit(target)
    assert address.hostname is not None
    assert address.port is not None
    server = (address.hostname, address.port)
    choose = random.Random(seed)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = Proxy(f"http://127.0.0.1:{listener.getsockname()[1]}")

        def accept() -> None:
            while True:
                try:
                    near, _ = listener.accept()
                except OSError:
                    return
                if proxy.refusing:
                    _break(near)
                    continue
                far = socket.create_connection(server)
                proxy._open |= {near, far}
                budget = choose.randint(*after)
                threading.Thread(target=_forward, args=(near, far), daemon=True).start()
                threading.Thread(
                    target=_forward, args=(far, near, budget, proxy), daemon=True
                ).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield proxy
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for each in list(proxy._open):
                _break(each)


def _forward(
    source: socket.socket, target: socket.socket, budget: int = -1, proxy: Proxy | None = None
) -> None:
    """Copy until the end, or until ``budget`` bytes are over: then both sides break."""
    with contextlib.suppress(OSError):
        while chunk := source.recv(4096 if budget < 0 else min(4096, max(1, budget))):
            target.sendall(chunk)
            if budget < 0:
                continue
            budget -= len(chunk)
            if budget <= 0:
                assert proxy is not None
                proxy.cuts += 1
                break
    _break(source)
    _break(target)


def _break(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
