"""Request bodies: bounded while they are read, and JSON that PostgreSQL can hold.

Python's JSON reader takes NaN, half a surrogate pair and NUL, which jsonb and text refuse; here
they are refused with the name of the field, before anything is stored.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Coroutine
from typing import Any, Final

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from dispatcher.errors import InvalidRequest

#: Levels of lists and objects inside each other.
MAX_DEPTH: Final = 64


class JsonRequest(Request):
    """A request whose JSON is checked when it is read."""

    async def json(self) -> Any:
        """The body's value.

        Raises:
            InvalidRequest: not JSON, or a value that cannot be stored.
        """
        if not hasattr(self, "_json"):
            self._json = read_json(await self.body())
        return self._json


class JsonRoute(APIRoute):
    """A route whose endpoint is given a :class:`JsonRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of this route."""
        inner = super().get_route_handler()

        async def with_checked_json(request: Request) -> Response:
            return await inner(JsonRequest(request.scope, request.receive))

        return with_checked_json


def read_json(raw: bytes) -> Any:
    """Read a body.

    Raises:
        InvalidRequest: not JSON, or a value that cannot be stored, by field.
    """
    try:
        value = json.loads(raw)
    except RecursionError:
        raise InvalidRequest({"body": "nested too deeply"}) from None
    except ValueError as error:  # malformed, not UTF-8, a number of thousands of digits
        raise InvalidRequest({"body": f"not JSON: {error}"}) from None
    if isinstance(value, dict):
        for name, member in value.items():
            _check(member, name, 1)
            _check_text(name, "body")
    else:
        _check(value, "body", 1)
    return value


def _check(value: Any, field: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise InvalidRequest({field: "nested too deeply"})
    match value:
        case str():
            _check_text(value, field)
        case float() if not math.isfinite(value):
            raise InvalidRequest({field: "not a finite number"})
        case dict():
            for name, member in value.items():
                _check_text(name, field)
                _check(member, field, depth + 1)
        case list():
            for member in value:
                _check(member, field, depth + 1)


def _check_text(value: str, field: str) -> None:
    if "\0" in value:
        raise InvalidRequest({field: "contains a NUL character"})
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidRequest({field: "contains half a surrogate pair"}) from None
