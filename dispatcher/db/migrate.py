"""Bringing a database's schema up to date. :mod:`dispatcher.db.schema_check` refuses one that is not."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

from dispatcher import clock
from dispatcher.db.partitions import ensure_partitions
from dispatcher.db.schema_check import check_schema
from dispatcher.errors import SchemaError

_FIRST_MIGRATION_LOCK: Final = 0x0D15_BA7C
_LEASE_SECONDS: Final = 600


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    config.attributes["connection"] = connection
    return config


def head_revision() -> str:
    """The newest revision in this package."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None
    return head


def _is_ours(revision: str) -> bool:
    """Whether this package has the revision."""
    scripts = ScriptDirectory.from_config(_config())
    return any(script.revision == revision for script in scripts.walk_revisions())


def _current_revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("schema_revision"):
        return None
    revision: str | None = connection.scalar(text("SELECT version_num FROM schema_revision"))
    return revision


def migrate(engine: Engine, *, wait: float = 120.0) -> list[str]:
    """Apply every missing migration; safe to run on several machines at once.

    The first migration holds a lock of its transaction, the later ones the lease row ``migrate``.

    Args:
        engine: the database.
        wait: seconds to wait for another migration that is under way.

    Returns:
        The revision before and after; one element when nothing was to be done.

    Raises:
        SchemaError: another migration did not end in time, or newer code has made a schema that
            this one cannot work with.
    """
    deadline = clock.monotonic() + wait
    with engine.connect() as connection:
        while True:
            with connection.begin():
                before = _current_revision(connection)
                if before is None:
                    connection.execute(
                        text("SELECT pg_advisory_xact_lock(:key)"), {"key": _FIRST_MIGRATION_LOCK}
                    )
                    if _current_revision(connection) is None:
                        command.upgrade(_config(connection), head_revision())
                        ensure_partitions(connection)
                        return ["(empty)", head_revision()]
                    continue
                if before == head_revision():
                    return [before]
                if not _is_ours(before):
                    # newer code was here: nothing to apply, if this code may still work with it
                    check_schema(connection)
                    return [before]
                taken = _take_lease(connection)
            if taken:
                break
            if clock.monotonic() > deadline:
                raise SchemaError("another migration is under way; it did not end in time")
            clock.sleep(0.5)
        try:
            with connection.begin():
                command.upgrade(_config(connection), "head")
        finally:
            with connection.begin():
                connection.execute(
                    text(
                        "UPDATE manager_lease SET expires_at = dispatcher_now() WHERE manager = 'migrate'"
                    )
                )
        return [before, head_revision()]


def _take_lease(connection: Connection) -> bool:
    taken = connection.execute(
        text(
            "UPDATE manager_lease SET epoch = epoch + 1,"
            " expires_at = dispatcher_now() + make_interval(secs => :seconds)"
            " WHERE manager = 'migrate' AND expires_at <= dispatcher_now()"
        ),
        {"seconds": _LEASE_SECONDS},
    )
    return taken.rowcount == 1
