"""The one form of answers: ``{"status", "msg", "data"}``, and what HTTP code goes with a status word.

Everything that v1 refuses is a :class:`Refused`; whatever else is raised becomes an answer here too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy.exc import DataError, DBAPIError
from starlette.responses import Response

from dispatcher import logs
from dispatcher.api.errors import NotAuthenticated
from dispatcher.api.v1.root_directory import Locked, Unreadable
from dispatcher.client.pack import PackError
from dispatcher.db.engine import is_away
from dispatcher.domain.inventory import InventoryError
from dispatcher.domain.runner_inventory import CannotChange
from dispatcher.errors import Conflict, DispatcherError, InvalidRequest, NotFound, Unavailable

log = logs.get(__name__)

CODES: Final[Mapping[str, int]] = {
    "OK": 200,
    "STARTED": 202,
    "INVALID": 400,
    "NOAUTH": 401,
    "FORBIDDEN": 403,
    "NOCONN": 404,
    "NOTFOUND": 404,
    "UNKNOWN": 404,
    "NOT ACTIVE": 404,
    "LOCKED": 409,
    "UNSUPPORTED": 415,
    "FAILED": 500,
    "TIMEOUT": 504,
}
_BUSY: Final = ("57014", "55P03", "25P03", "40001", "40P01")


@dataclass(frozen=True)
class Answer:
    """An answer.

    Attributes:
        status: a word of :data:`CODES`.
        code: another HTTP code than the word's.
        page: text in place of the envelope, with its media type.
    """

    status: str = "OK"
    msg: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    code: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    page: tuple[str, str] | None = None

    def response(self) -> Response:
        """The same for the wire."""
        code = CODES[self.status] if self.code is None else self.code
        if code == 304:
            return Response(status_code=code, headers=dict(self.headers))
        if self.page is not None:
            text, media_type = self.page
            return Response(text, media_type=media_type, headers=dict(self.headers))
        content = {"status": self.status, "msg": self.msg, "data": self.data}
        return Response(
            json.dumps(content, default=str) + "\n",
            status_code=code,
            media_type="application/json",
            headers=dict(self.headers),
        )


class Refused(DispatcherError):
    """A request that is answered with another word than OK."""

    def __init__(
        self, status: str, msg: str, data: Mapping[str, Any] | None = None, **more: Any
    ) -> None:
        super().__init__(msg)
        self.answer = Answer(status, msg, data or {}, **more)


#: What clients pass over, and ask again after.
_TRY_AGAIN: Final = {"Retry-After": "5"}


def answer_to(error: Exception, request_id: str) -> Answer:
    """The answer to an error. A traceback goes to the log, never to the caller."""
    match error:
        case Refused():
            return error.answer
        case InvalidRequest():
            return Answer("INVALID", str(error))
        case NotAuthenticated():
            return Answer("NOAUTH", str(error), headers={"WWW-Authenticate": "Bearer"})
        case NotFound():
            return Answer("NOTFOUND", str(error) or "Not found")
        case Locked() | Conflict():
            return Answer("LOCKED", str(error))
        case Unreadable() | CannotChange() | PackError():
            return Answer("INVALID", str(error))
        case InventoryError():
            return Answer("INVALID", f"the inventory cannot be read: {error}")
        case Unavailable():
            return Answer("UNKNOWN", str(error), code=503, headers=_TRY_AGAIN)
        case DBAPIError():
            return _database_answer(error, request_id)
        case OSError():
            log.error("root_directory_failed", error=logs.in_short(error))
            msg = f"the root directory cannot be used: {error.strerror or 'unknown reason'}"
            return Answer("FAILED", msg, code=503, headers=_TRY_AGAIN)
    return _unexpected(error, request_id)


def _database_answer(error: DBAPIError, request_id: str) -> Answer:
    if is_away(error) or getattr(error.orig, "pgcode", None) in _BUSY:
        return Answer("UNKNOWN", "the database is not available", code=503, headers=_TRY_AGAIN)
    if isinstance(error, DataError):
        return Answer("INVALID", "a value of this request cannot be stored or compared")
    return _unexpected(error, request_id)


def _unexpected(error: Exception, request_id: str) -> Answer:
    log.error("request_failed", exc_info=error)
    return Answer("FAILED", f"Internal error; the log has it as request {request_id}.")
