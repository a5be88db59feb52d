"""Bringing a database's schema up to date. :mod:`dispatcher.db.schema_check` refuses one that is not."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import OperationalError

from dispatcher.db.partitions import ensure_partitions
from dispatcher.db.schema_check import NEWEST_REVISION, check_schema, current_revision
from dispatcher.errors import SchemaError

_MIGRATION_LOCK: Final = 0x0D15_BA7C
_LOCK_NOT_AVAILABLE: Final = "55P03"


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    config.attributes["connection"] = connection
    return config


def _is_ours(revision: str) -> bool:
    """Whether this package has the revision."""
    scripts = ScriptDirectory.from_config(_config())
    return any(script.revision == revision for script in scripts.walk_revisions())


def migrate(engine: Engine, *, wait: float = 120.0) -> list[str]:
    """Apply every missing migration, in one transaction; safe to run on several machines at once.

    The migrating transaction itself holds the lock, so a migration that is killed, or cut off from
    the database, holds up nobody: what it did is undone and the next one goes on.

    Args:
        engine: the database.
        wait: seconds to wait for another migration that is under way.

    Returns:
        The revision before and after; one element when nothing was to be done.

    Raises:
        SchemaError: another migration did not end in time, or newer code has made a schema that
            this one cannot work with.
    """
    with engine.connect() as connection, connection.begin():
        _lock(connection, wait)
        before = current_revision(connection)
        if before == NEWEST_REVISION:
            return [before]
        if before is not None and not _is_ours(before):
            # newer code was here: nothing to apply, if this code may still work with it
            check_schema(connection)
            return [before]
        command.upgrade(_config(connection), NEWEST_REVISION)
        ensure_partitions(connection)
        return [before or "(empty)", NEWEST_REVISION]


def _lock(connection: Connection, wait: float) -> None:
    """Wait for the one lock of all migrations, held until the transaction ends."""
    connection.execute(
        text(
            "SELECT set_config('lock_timeout', :wait, true),"
            # a frozen migration is ended by the server
            " set_config('idle_in_transaction_session_timeout', '60s', true)"
        ),
        {"wait": f"{max(1, int(wait * 1000))}ms"},
    )
    try:
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
    except OperationalError as error:
        if getattr(error.orig, "pgcode", None) != _LOCK_NOT_AVAILABLE:
            raise
        raise SchemaError("another migration is under way; it did not end in time") from None
    connection.execute(text("SELECT set_config('lock_timeout', '0', true)"))
