"""What a call to the server can end in, besides the errors of ``dispatcher.errors``.

A refusal is raised as the same error that the server raised: ``InvalidRequest`` (400, 413),
``NotFound`` (404), ``NotCancelable`` (405), ``Conflict`` (409), ``Unavailable`` (503).
"""

from __future__ import annotations

from dispatcher.errors import DispatcherError


class ServerUnreachable(DispatcherError):
    """No answer: refused, no such name, broken off or too slow, for as long as was tried."""


class NotAllowed(DispatcherError):
    """The token is missing, unknown or not enough (401, 403)."""


class UnexpectedAnswer(DispatcherError):
    """An answer that this client does not know: a fault of the server, or another server.

    Attributes:
        code: the HTTP status code.
    """

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        self.code = code
