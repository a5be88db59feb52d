"""What every role of the schedulers does first: wait for the database, and check its schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from dispatcher import clock, logs
from dispatcher.broker.celery_app import broker_url
from dispatcher.db.engine import database_url, is_away, transaction
from dispatcher.db.schema_check import check_schema
from dispatcher.health import Health
from dispatcher.settings import Settings

log = logs.get(__name__)

#: Seconds between two tries to reach the database.
RETRY_SECONDS: Final = 0.5
#: Seconds between two log lines that say that it is away.
SAY_EVERY: Final = 10.0


def check_settings(settings: Settings) -> None:
    """Refuse to start without a database or a broker.

    Raises:
        ConfigurationError: one of the two is not set.
    """
    database_url(settings)
    broker_url(settings)


def await_schema(engine: Engine, health: Health, stopping: Callable[[], bool]) -> bool:
    """Wait until the database answers, and check that its schema and this code go together.

    Returns:
        False when the process was told to end meanwhile.

    Raises:
        SchemaError: they do not.
    """
    said = -SAY_EVERY
    while not stopping():
        try:
            with transaction(engine) as connection:
                check_schema(connection)
            return True
        except DBAPIError as error:
            if not is_away(error):
                raise
            health.say({"database": "not reachable"})
            if clock.monotonic() - said >= SAY_EVERY:
                said = clock.monotonic()
                log.warning("waiting for the database", error=first_line(error))
            clock.sleep(RETRY_SECONDS)
    return False


def first_line(error: BaseException) -> str:
    """The first line of an error, for logs that need no traceback."""
    words = str(getattr(error, "orig", None) or error).strip()
    return words.splitlines()[0] if words else type(error).__name__
