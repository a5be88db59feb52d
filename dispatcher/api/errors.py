"""Errors become answers in the dialect's form; a traceback goes to the log, never to the caller.

| error | answer |
|---|---|
| InvalidRequest, a failed validation, a body that is too large | 400 ``{field: [message]}`` |
| NotFound, no such route | 404 ``{detail}`` |
| NotCancelable, a method the route does not have | 405 ``{detail}`` |
| Conflict | 409 ``{detail, code, …}``, Retry-After where it helps |
| Unavailable, a statement that took too long | 503 ``{detail}`` with Retry-After |
| anything else | 500 ``{detail}`` with the request's id |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DataError, DBAPIError
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from dispatcher import logs
from dispatcher.db.engine import is_away
from dispatcher.errors import (
    Conflict,
    DispatcherError,
    InvalidRequest,
    NotCancelable,
    NotFound,
    Unavailable,
)

log = logs.get(__name__)

#: PostgreSQL's classes for a canceled statement, a lock not had in time, a serialization failure.
_BUSY = ("57014", "55P03", "25P03", "40001", "40P01")
_FOREIGN_KEY = "23503"
_RETRY_AFTER = 5


class NotAuthenticated(DispatcherError):
    """No token, or one that is not valid (any more): HTTP 401."""


def install(app: FastAPI) -> None:
    """Register the answers of every error."""
    app.add_exception_handler(DispatcherError, _dispatcher_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(DBAPIError, _database_error)


def answer(
    status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """An error's answer."""
    return JSONResponse(dict(body), status_code=status, headers=dict(headers or {}))


async def _dispatcher_error(request: Request, error: Exception) -> JSONResponse:
    match error:
        case InvalidRequest():
            return answer(400, error.fields)
        case NotAuthenticated():
            return answer(401, {"detail": str(error)}, {"WWW-Authenticate": "Bearer"})
        case NotFound():
            return answer(404, {"detail": str(error) or "Not found."})
        case NotCancelable():
            detail = str(error) or "The job has ended already."
            return answer(405, {"detail": detail}, {"Allow": "GET"})
        case Conflict():
            body = {"detail": str(error), "code": error.code, **error.extra}
            return answer(409, body, _retry(error.retry_after))
        case Unavailable():
            return answer(503, {"detail": str(error)}, _retry(error.retry_after))
    return unexpected(request, error)


def _retry(seconds: int | None) -> dict[str, str]:
    return {} if seconds is None else {"Retry-After": str(seconds)}


def unexpected(request: Request, error: Exception) -> JSONResponse:
    """The answer to an error that nobody foresaw; the log has the traceback."""
    request_id = request.scope.get("state", {}).get("request_id", "")
    log.error("request_failed", exc_info=error)
    return answer(500, {"detail": f"Internal error; the log has it as request {request_id}."})


async def _database_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, DBAPIError)
    code = getattr(error.orig, "pgcode", None)
    if is_away(error):
        unavailable = Unavailable("the database is not available")
        return answer(503, {"detail": str(unavailable)}, _retry(unavailable.retry_after))
    if code in _BUSY:
        log.warning("statement_gave_up", code=code)
        return answer(503, {"detail": "the database is busy"}, _retry(_RETRY_AFTER))
    if code == _FOREIGN_KEY:
        gone = Conflict("something that this refers to was deleted meanwhile", code="gone")
        return await _dispatcher_error(request, gone)
    if isinstance(error, DataError):
        # what is known to lead here is checked as a field before (tests: test_odd_values.py)
        log.warning("value_refused_by_database", error=logs.in_short(error))
        return answer(400, {"detail": "a value of this request cannot be stored or compared"})
    return unexpected(request, error)


async def _validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    if any(found["loc"][0] == "path" for found in error.errors()):
        return answer(404, {"detail": "Not found."})
    fields: dict[str, list[str]] = defaultdict(list)
    for found in error.errors():
        name, message = _field_of(found["loc"]), found["msg"].removeprefix("Value error, ")
        if found["type"] == "json_invalid":
            message = f"not JSON: {found.get('ctx', {}).get('error', message)}"
        elif found["type"] == "extra_forbidden":
            message = "unknown field"
        elif found["type"] in ("model_attributes_type", "dict_type") and name == "body":
            message = "a JSON object is expected (Content-Type: application/json)"
        if message not in fields[name]:
            fields[name].append(message)
    return answer(400, fields)


def _field_of(location: Sequence[Any]) -> str:
    """The caller's name of a place: ``body.extra_vars`` is ``extra_vars``."""
    parts = [str(part) for part in location]
    if len(parts) > 1 and parts[0] == "body" and isinstance(location[1], int):
        return "body"  # the offset of a JSON error
    if len(parts) > 1 and parts[0] in ("body", "query", "path", "header"):
        parts = parts[1:]
    return ".".join(parts)


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, DispatcherError):
        # raised while FastAPI read the body, which it wraps
        return await _dispatcher_error(request, error.__cause__)
    headers = dict(error.headers or {})
    detail = error.detail
    if error.status_code == 404:
        detail = "Not found."
    elif error.status_code == 405:
        detail = f'Method "{request.method}" not allowed.'
        headers["Allow"] = ", ".join(sorted(_methods(request)))
    elif error.status_code == 400 and detail == "There was an error parsing the body":
        return answer(400, {"body": ["not JSON"]})
    return answer(error.status_code, {"detail": detail}, headers)


def _methods(request: Request) -> set[str]:
    """Every method that the path has, over all of its routes."""
    found: set[str] = set()
    for template, operations in request.app.openapi()["paths"].items():
        if compile_path(template)[0].match(request.scope["path"]):
            found |= {method.upper() for method in operations}
    return found
