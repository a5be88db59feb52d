"""The change counter: whether anything that a planner looks at has moved (docs/protocols.md 7.1)."""

from __future__ import annotations

from sqlalchemy import Connection, text

from dispatcher.db.tables import CHANGE_SLOTS


def raise_counter(connection: Connection) -> None:
    """Note that something changed. Always the last statement of its transaction."""
    connection.execute(
        text("UPDATE change SET value = value + 1 WHERE slot = pg_backend_pid() % :slots"),
        {"slots": CHANGE_SLOTS},
    )


def read_counter(connection: Connection) -> int:
    """The sum, to be read in the same snapshot as what was planned on."""
    return int(connection.scalar(text("SELECT sum(value)::bigint FROM change")) or 0)
