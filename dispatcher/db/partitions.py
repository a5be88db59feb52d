"""Partitions of ``job_event``, one for each day on which jobs were created (docs/protocols.md 5.2)."""

from __future__ import annotations

from datetime import date, timedelta

from sqlalchemy import Connection, text


def partition_name(day: date) -> str:
    """Name of a day's partition."""
    return f"job_event_{day:%Y%m%d}"


def ensure_partitions(connection: Connection, *, days_ahead: int = 3) -> list[str]:
    """Make the partitions of today (by the database's clock) and of the days ahead.

    The statements wait at most the transaction's ``lock_timeout``; recovery tries again.

    Returns:
        Names of the partitions that were made.
    """
    today: date = connection.execute(
        text("SELECT (dispatcher_now() AT TIME ZONE 'UTC')::date")
    ).scalar_one()
    wanted = [today + timedelta(days=n) for n in range(days_ahead + 1)]
    present = set(
        connection.scalars(
            text(
                "SELECT relname FROM pg_class JOIN pg_inherits ON inhrelid = pg_class.oid"
                " WHERE inhparent = 'job_event'::regclass"
            )
        )
    )
    made = []
    for day in wanted:
        name = partition_name(day)
        if name not in present:
            connection.execute(
                text(
                    f"CREATE TABLE IF NOT EXISTS {name} PARTITION OF job_event"
                    f" FOR VALUES FROM ('{day}') TO ('{day + timedelta(days=1)}')"
                )
            )
            made.append(name)
    return made
