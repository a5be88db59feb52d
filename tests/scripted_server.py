"""An HTTP server that answers as a test says: for the faults that a real one cannot be asked for."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """What to answer; ``code`` 0 closes the connection without a word."""

    code: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def scripted_server(script: Callable[[Asked], Answer]) -> Iterator[tuple[str, list[Asked]]]:
    """Serve while the block lasts: (base URL, the requests so far)."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            request = Asked(self.command, self.path, dict(self.headers), self._body())
            asked.append(request)
            answer = script(request)
            if answer.code == 0:
                self.close_connection = True
                return
            raw = (
                answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            )
            self.send_response(answer.code)
            for name, value in {"Content-Length": str(len(raw)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw)

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", "0")))
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        do_GET = do_POST = do_PUT = _answer

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
