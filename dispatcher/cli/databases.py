"""Which database and broker a command works with: those that are set, or the running stack's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine

from dispatcher.db.engine import make_engine, transaction, unavailable_when_away
from dispatcher.embedded.state import settings_with_running_stack
from dispatcher.errors import ConfigurationError
from dispatcher.settings import Settings


def with_servers(settings: Settings) -> Settings:
    """The settings with a database and a broker: those that are set, or the running stack's.

    Raises:
        ConfigurationError: neither.
    """
    found = settings_with_running_stack(settings)
    if found.database_url is None:
        raise ConfigurationError(
            "DISPATCHER_DATABASE_URL: not set, and no embedded stack runs in"
            f" {settings.data_dir} (dispatcher up starts one)"
        )
    return found


@contextmanager
def engine_of(settings: Settings) -> Iterator[Engine]:
    """An engine with one connection, given back when the block ends."""
    engine = make_engine(settings, application_name="dispatcher-cli", watched=False)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def on_database(settings: Settings) -> Iterator[Connection]:
    """A transaction on the database that is set, or the running stack's."""
    with (
        engine_of(with_servers(settings)) as engine,
        unavailable_when_away(),
        transaction(engine) as connection,
    ):
        yield connection
