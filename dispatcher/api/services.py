"""What every endpoint works with: settings, the pool, the publisher, the followers' watch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy import Connection, Engine

from dispatcher.api.followers import Followers
from dispatcher.broker.publish import Publisher
from dispatcher.db.engine import reading, transaction, unavailable_when_away
from dispatcher.errors import Unavailable
from dispatcher.secrets import Cipher
from dispatcher.settings import Settings


@dataclass
class Services:
    """One for each application.

    Attributes:
        followers: wakes the open event streams.
        cipher: encrypts secret variables.
        unfit: why nothing may be written, as the role's last look at the schema found; else empty.
    """

    settings: Settings
    engine: Engine
    publisher: Publisher
    followers: Followers
    cipher: Cipher
    unfit: str = ""

    def check_writable(self) -> None:
        """Refuse to write to a schema that this code does not go with.

        Raises:
            Unavailable: the last look at the schema said so.
        """
        if self.unfit:
            raise Unavailable(self.unfit, retry_after=60)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction on the pool.

        Raises:
            Unavailable: the database is away, no connection came free in time, the outcome of
                the commit is unknown, or the schema does not fit.
        """
        self.check_writable()
        with unavailable_when_away(), transaction(self.engine) as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection of the pool for reads: each statement is its own transaction.

        Raises:
            Unavailable: the database is away, or no connection came free in time.
        """
        with unavailable_when_away(), reading(self.engine) as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A connection whose reads see one state of the database; it is not written to.

        Raises:
            Unavailable: the database is away, or no connection came free in time.
        """
        with (
            unavailable_when_away(),
            transaction(self.engine, isolation="REPEATABLE READ") as connection,
        ):
            yield connection


async def _services(request: Request) -> Services:
    found: Services = request.app.state.services
    return found


#: A parameter of endpoints. Async on purpose: it costs no hop to a thread.
ServicesParameter = Annotated[Services, Depends(_services)]
