"""The database's clock, which every decision is made by, moved for a test."""

from __future__ import annotations

from sqlalchemy import Engine, text

from dispatcher.db.engine import transaction


def move_clock(engine: Engine, offset: float) -> None:
    """Move it by so many seconds from the real time; 0 puts it right again."""
    with transaction(engine) as connection:
        connection.execute(
            text(
                "CREATE OR REPLACE FUNCTION dispatcher_now() RETURNS timestamptz"
                " LANGUAGE sql VOLATILE PARALLEL SAFE"
                f" AS $$ SELECT clock_timestamp() + interval '{offset:.3f} s' $$"
            )
        )
