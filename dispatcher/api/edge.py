"""The outermost layer: paths, request ids, body bounds, product headers, metrics, last-resort 500."""

from __future__ import annotations

import re
import uuid
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dispatcher import clock, logs
from dispatcher.api.errors import unexpected
from dispatcher.errors import InvalidRequest
from dispatcher.metrics import REQUEST_SECONDS, REQUESTS
from dispatcher.settings import Settings

#: The dialect that REST v2 speaks, as its clients look for it (they warn about anything else).
DIALECT_NAME: Final = "AWX"
DIALECT_VERSION: Final = "24.6.1"

_HEADERS: Final = (
    (b"x-api-product-name", DIALECT_NAME.encode()),
    (b"x-api-product-version", DIALECT_VERSION.encode()),
    (b"x-content-type-options", b"nosniff"),
)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_UPLOAD: Final = re.compile(r"/api/v2/content/[^/]+/")
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Edge:
    """Wraps the application.

    Args:
        settings: bounds of request bodies.
    """

    def __init__(self, app: ASGIApp, *, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        _complete_path(scope)
        answer = _Answer(scope, send)
        with logs.bound(request_id=answer.request_id):
            try:
                await self._app(scope, self._bounded(scope, receive), answer.send)
            except ClientDisconnect:
                pass  # nobody is left to be answered
            except Exception as error:
                if answer.status is not None:
                    raise  # the server cuts the connection: the caller sees an answer that is not whole
                await unexpected(Request(scope), error)(scope, receive, answer.send)
            finally:
                answer.measure()

    def _bounded(self, scope: Scope, receive: Receive) -> Receive:
        """``receive`` that refuses a body beyond its bound as soon as that is known."""
        upload = scope["method"] in ("PUT", "POST") and _UPLOAD.fullmatch(scope["path"])
        limit = self._settings.max_bundle_bytes if upload else self._settings.max_body_bytes
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        received = int(announced) if announced.isdigit() and int(announced) > limit else 0

        async def bounded() -> Message:
            nonlocal received
            if received <= limit:
                message = await receive()
                received += len(message.get("body", b""))
                if received <= limit:
                    return message
            field = "content" if upload else "body"
            raise InvalidRequest({field: f"larger than {limit} bytes"})

        return bounded


def _complete_path(scope: Scope) -> None:
    """Every v2 route answers with and without its last slash, never by a redirect."""
    if scope["path"].startswith("/api/v2") and not scope["path"].endswith("/"):
        scope["path"] += "/"
        scope["raw_path"] = scope.get("raw_path", b"") + b"/"


class _Answer:
    """One answer on its way out, and what is measured of it."""

    def __init__(self, scope: Scope, send: Send) -> None:
        given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        self.request_id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        self.status: int | None = None
        self._scope = scope
        self._send: Callable[[Message], Awaitable[None]] = send
        self._started = clock.monotonic()
        self._measured = False
        scope.setdefault("state", {})["request_id"] = self.request_id

    async def send(self, message: Message) -> None:
        """Pass a message on; the first one gets our headers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [
                *message.get("headers", ()),
                *_HEADERS,
                (b"x-request-id", self.request_id.encode()),
            ]
            if (b"content-type", b"text/event-stream; charset=utf-8") in message["headers"]:
                self.measure()  # a stream's length says nothing about the server
        await self._send(message)

    def measure(self) -> None:
        """Count the answer, once."""
        if self._measured:
            return
        self._measured = True
        route = getattr(self._scope.get("route"), "path", "unmatched")
        method = self._scope["method"]
        # 499: the caller went away before there was an answer
        code = str(self.status or 499)
        REQUESTS.labels(method if method in _METHODS else "other", route, code).inc()
        REQUEST_SECONDS.labels(route).observe(clock.monotonic() - self._started)
