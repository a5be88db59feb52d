"""Health of roles that are no HTTP servers: a file always, and a small HTTP server with a port set.

``<data_dir>/health/<role>.json`` says whether the role is ready, why not, and when it said so. A
role writes it at least every :data:`BEAT_SECONDS`; a file older than :data:`STALE_AFTER` means that
the role is dead or frozen, whatever the file says.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from dispatcher import clock, logs
from dispatcher.errors import ConfigurationError
from dispatcher.settings import Settings

#: Seconds within which a live role says something new.
BEAT_SECONDS: Final = 5.0
#: Seconds after which what was said counts for nothing.
STALE_AFTER: Final = 30.0


@dataclass(frozen=True)
class Status:
    """What a role last said of itself.

    Attributes:
        role: ``beat``, ``control``, ``worker`` …
        ready: whether it can do its work now.
        reasons: why not, one word or sentence for each thing that is missing, by its name.
        pid: the process that said so.
        at: when (this machine's wall clock).
        age: seconds since then (clock of this boot); infinite when it was said before the boot.
        url: where it listens, for the role that is an HTTP server.
    """

    role: str
    ready: bool
    reasons: Mapping[str, str]
    pid: int
    at: datetime
    age: float
    url: str | None = None

    @property
    def alive(self) -> bool:
        """Whether it was said lately enough to count."""
        return self.age <= STALE_AFTER


def path(data_dir: Path, role: str) -> Path:
    """Where a role's file is."""
    return data_dir / "health" / f"{role}.json"


def read(data_dir: Path, role: str) -> Status | None:
    """What a role last said; None when it never did, or the file cannot be read."""
    try:
        said = json.loads(path(data_dir, role).read_text())
        same_boot = said["boot_id"] == clock.boot_id()
        return Status(
            role=role,
            ready=bool(said["ready"]),
            reasons={str(k): str(v) for k, v in said["reasons"].items()},
            pid=int(said["pid"]),
            at=datetime.fromisoformat(said["at"]),
            age=clock.boottime() - float(said["boottime"]) if same_boot else float("inf"),
            url=said.get("url"),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


class Health:
    """A role's own view of itself, kept in its file and served over HTTP when asked for.

    Args:
        settings: where the data directory is.
        role: the file's name; a node on a shared data directory adds its own.
        url: where the role listens, for whoever looks for it (the port may be any free one).
    """

    def __init__(self, settings: Settings, role: str, *, url: str | None = None) -> None:
        self._path = path(settings.data_dir, role)
        self._role = role
        self._url = url
        self._host = settings.metrics_host
        self._lock = threading.Lock()
        self._reasons: dict[str, str] = {"role": "starting"}
        self._said = -1e9
        self._unwritten = False
        self._server: ThreadingHTTPServer | None = None

    def say(self, reasons: Mapping[str, str]) -> None:
        """Set what is missing (nothing: ready), and write the file when that is new or old.

        Args:
            reasons: name → words, such as ``{"database": "not reachable"}``.
        """
        with self._lock:
            changed = dict(reasons) != self._reasons
            self._reasons = dict(reasons)
            if changed or clock.boottime() - self._said >= BEAT_SECONDS:
                self._write()

    def ready(self) -> bool:
        """Whether the last word was "ready", said lately enough to count."""
        return not self._reasons and self.alive()

    def alive(self) -> bool:
        """Whether the role's loop has come round lately."""
        return clock.boottime() - self._said <= STALE_AFTER

    def reasons(self) -> dict[str, str]:
        """What is missing."""
        return dict(self._reasons)

    def serve(self, port: int) -> int:
        """Serve ``/healthz``, ``/readyz`` and ``/metrics`` in a thread.

        Args:
            port: 0: no server.

        Returns:
            The port it listens on; 0 without a server.

        Raises:
            ConfigurationError: the port cannot be listened on.
        """
        if port == 0:
            return 0
        self._server = self._bound(port)
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.5}, daemon=True
        ).start()
        return int(self._server.server_address[1])

    def check_port(self, port: int) -> None:
        """See that ``port`` could be served now, in a process that leaves the serving to another.

        Raises:
            ConfigurationError: it cannot be listened on.
        """
        if port:
            self._bound(port).server_close()

    def _bound(self, port: int) -> ThreadingHTTPServer:
        try:
            return _server(self, self._host, port)
        except OSError as error:
            setting = f"DISPATCHER_{self._role.upper()}_METRICS_PORT"
            raise ConfigurationError(
                f"{setting}: {self._host}:{port}: {error.strerror or error}"
            ) from None

    def close(self) -> None:
        """Stop serving and remove the file: the role has ended in order."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        self._said = clock.boottime()
        content = {
            "role": self._role,
            "ready": not self._reasons,
            "reasons": self._reasons,
            "pid": os.getpid(),
            "at": clock.now().isoformat(),
            "boot_id": clock.boot_id(),
            "boottime": self._said,
            **({} if self._url is None else {"url": self._url}),
        }
        temporary = self._path.with_suffix(f".{os.getpid()}.new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(content))
            temporary.replace(self._path)
            self._unwritten = False
        except OSError as error:
            # a full disk must not end the role; a file that grows old says that something is wrong
            if not self._unwritten:
                logs.get(__name__).error("the health file cannot be written", error=str(error))
            self._unwritten = True


def metrics_text() -> bytes:
    """This process's metrics, or those of every process that shares ``PROMETHEUS_MULTIPROC_DIR``."""
    registry: CollectorRegistry = REGISTRY
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        registry = CollectorRegistry()
        MultiProcessCollector(registry)
    return generate_latest(registry)


def _server(health: Health, host: str, port: int) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, metrics_text(), CONTENT_TYPE_LATEST)
            elif self.path == "/healthz":
                self._state(health.alive())
            elif self.path == "/readyz":
                self._state(health.ready())
            else:
                self._answer(404, b"{}\n", "application/json")

        def _state(self, good: bool) -> None:
            body = {"ready": health.ready(), "reasons": health.reasons()}
            self._answer(
                200 if good else 503, json.dumps(body).encode() + b"\n", "application/json"
            )

        def _answer(self, code: int, body: bytes, content_type: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Requests of probes are not logged."""

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    return server
