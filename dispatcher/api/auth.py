"""Who asks: the bearer token of a request, looked up anew each time, so that a revoked one is dead.

The token is looked up in the transaction that answers the request: an endpoint gets its connection
from its :class:`Caller`, and none before the token was found valid. A test calls every route
without a token and with a wrong one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy import Connection

from dispatcher.actions.tokens import principal_of
from dispatcher.api.errors import NotAuthenticated
from dispatcher.api.services import Services, ServicesParameter

bearer = HTTPBearer(
    scheme_name="token",
    description="An API token: `Authorization: Bearer dsp_…`. `dispatcher token create` makes one.",
    auto_error=False,
)


@dataclass(frozen=True)
class Caller:
    """Whoever sent a request.

    Attributes:
        services: what the server works with.
    """

    services: Services
    _token: str

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """The request's transaction.

        Raises:
            NotAuthenticated: the token is unknown, revoked or expired.
            Unavailable: see :meth:`Services.transaction`.
        """
        with self.named_transaction() as (connection, _):
            yield connection

    @contextmanager
    def named_transaction(self) -> Iterator[tuple[Connection, str]]:
        """The same, with the name behind the token."""
        with self.services.transaction() as connection:
            yield connection, self._named(connection)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection for reads only; raises the same."""
        with self.services.reading() as connection:
            self._named(connection)
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A connection for reads that must fit each other; raises the same."""
        with self.services.snapshot() as connection:
            self._named(connection)
            yield connection

    def check(self) -> None:
        """Check the token alone, for what begins without a connection."""
        with self.reading():
            pass

    def _named(self, connection: Connection) -> str:
        principal = principal_of(connection, self._token)
        if principal is None:
            raise NotAuthenticated("Invalid token.")
        return principal


async def _caller(
    services: ServicesParameter,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)],
) -> Caller:
    if credentials is None:
        raise NotAuthenticated("Authentication credentials were not provided.")
    return Caller(services, credentials.credentials)


#: A parameter of endpoints. Async on purpose: it costs no hop to a thread.
CallerParameter = Annotated[Caller, Depends(_caller)]
