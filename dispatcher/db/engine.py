"""Connections: how an engine is made, and how a transaction begins.

All time-outs are SET LOCAL at the start of each transaction: session settings leak through
pgbouncer in transaction mode (docs/protocols.md 2.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal

from psycopg2 import ProgrammingError
from psycopg2.extensions import make_dsn
from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DBAPIError,
    InterfaceError,
    OperationalError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout

from dispatcher import server_urls
from dispatcher.db.watchdog import WatchedConnection, bounded
from dispatcher.errors import ConfigurationError, Unavailable
from dispatcher.settings import Settings

#: Errors that may mean: the database cannot be reached, or ended the connection.
AWAY = (OperationalError, InterfaceError, PoolTimeout)


def database_url(settings: Settings) -> str:
    """The configured URL.

    Raises:
        ConfigurationError: none is set.
    """
    if settings.database_url is None:
        raise ConfigurationError(
            "DISPATCHER_DATABASE_URL: not set (dispatcher up starts an embedded database)"
        )
    return settings.database_url


def make_engine(
    settings: Settings,
    *,
    application_name: str,
    pool_size: int = 1,
    pool_timeout: float = 5.0,
    unacknowledged: float = 20.0,
    watched: bool = True,
) -> Engine:
    """An engine with a pool of fixed size; nothing is connected yet.

    Args:
        settings: where the database is.
        application_name: shown in ``pg_stat_activity``.
        pool_size: most connections; none beyond it is ever opened.
        pool_timeout: seconds to wait for a free one.
        unacknowledged: seconds after which a server whose machine does not answer counts as away.
        watched: whether each wait for a server that does not answer has a bound
            (dispatcher/db/watchdog.py); not for migrations, which take as long as they take.
    """
    given = server_urls.database_url(database_url(settings))
    url = make_url(given).set(drivername="postgresql+psycopg2")
    _check_parameters(url)
    engine = create_engine(
        url,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=pool_timeout,
        pool_pre_ping=True,
        hide_parameters=True,  # or an error's text shows extra vars and inventories
        connect_args={
            "application_name": application_name[:60],
            "connect_timeout": 5,
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            "tcp_user_timeout": int(unacknowledged * 1000),
            "target_session_attrs": "read-write",
            **({"connection_factory": WatchedConnection} if watched else {}),
        },
    )
    event.listen(engine, "before_cursor_execute", _with_time_outs, retval=True)
    return engine


def _check_parameters(url: URL) -> None:
    """Refuse what libpq would not understand, before the first connection.

    Raises:
        ConfigurationError: says what; shows no value.
    """
    try:
        make_dsn(**url.get_dialect()().create_connect_args(url)[1])
    except (ArgumentError, ProgrammingError, ValueError) as error:
        words = str(error).strip().splitlines()[0]
        raise ConfigurationError(f"DISPATCHER_DATABASE_URL: {words}") from None


@contextmanager
def transaction(
    engine: Engine,
    *,
    statement_timeout: float = 8.0,
    lock_timeout: float = 2.0,
    idle_timeout: float = 5.0,
    isolation: Literal["READ COMMITTED", "REPEATABLE READ"] = "READ COMMITTED",
    durable: bool = True,
) -> Iterator[Connection]:
    """One transaction with its time-outs (seconds); commits when the block ends without error.

    Args:
        engine: where.
        statement_timeout, lock_timeout, idle_timeout: of the server, for this transaction.
        isolation: what it sees.
        durable: False: nothing waits for the disk, and a crash of the server within the next second
            may undo it, though nobody sees it undone before.
    """
    with (
        engine.connect().execution_options(isolation_level=isolation) as connection,
        bounded(connection, statement_timeout),
        connection.begin(),
    ):
        connection.execute(
            text(
                "SELECT set_config('statement_timeout', :statement, true),"
                " set_config('lock_timeout', :lock, true),"
                " set_config('idle_in_transaction_session_timeout', :idle, true)"
                + ("" if durable else ", set_config('synchronous_commit', 'off', true)")
            ),
            {
                "statement": f"{int(statement_timeout * 1000)}ms",
                "lock": f"{int(lock_timeout * 1000)}ms",
                "idle": f"{int(idle_timeout * 1000)}ms",
            },
        )
        yield connection


#: In the same message as a statement they are one transaction with it, so they never leak.
_TIME_OUTS: Final = (
    "SELECT set_config('statement_timeout', '{statement}ms', true),"
    " set_config('lock_timeout', '{lock}ms', true);\n"
)


@contextmanager
def reading(
    engine: Engine, *, statement_timeout: float = 8.0, lock_timeout: float = 2.0
) -> Iterator[Connection]:
    """A connection on which each statement is a transaction of its own, with its time-outs (seconds).

    For reads that answer people: one round trip for a statement, where :func:`transaction` takes
    four. Statements do not see one snapshot, as they do not under read committed either.
    """
    prefix = _TIME_OUTS.format(
        statement=int(statement_timeout * 1000), lock=int(lock_timeout * 1000)
    )
    with (
        engine.connect().execution_options(
            isolation_level="AUTOCOMMIT", time_outs=prefix
        ) as connection,
        bounded(connection, statement_timeout),
    ):
        yield connection


def _with_time_outs(
    _connection: Connection,
    _cursor: Any,
    statement: str,
    parameters: Any,
    context: Any,
    _executemany: bool,
) -> tuple[str, Any]:
    prefix = None if context is None else context.execution_options.get("time_outs")
    return (statement if prefix is None else prefix + statement), parameters


def is_away(error: BaseException) -> bool:
    """Whether an error means that the database is unreachable or ended the connection."""
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    # the driver's own, of no kind: libpq lost its way in what the server sent
    if not isinstance(error, AWAY) and type(error) is not DatabaseError:
        return False
    # A statement that was canceled or waited too long for a lock is an OperationalError too:
    # only connection (08), resource (53) and shutdown (57P) classes mean "away".
    code = getattr(getattr(error, "orig", None), "pgcode", None)
    return code is None or code[:2] in ("08", "53") or code[:3] == "57P"


@contextmanager
def unavailable_when_away() -> Iterator[None]:
    """Turn "the database is away" into :class:`Unavailable`, for callers that answer people."""
    try:
        yield
    except (*AWAY, DatabaseError) as error:
        if not is_away(error):
            raise
        raise Unavailable("the database is not available") from error
