"""Partitions of ``job_event``, one for each day on which jobs were created (docs/protocols.md 5.2)."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from sqlalchemy import Connection, text


def partition_name(day: date) -> str:
    """Name of a day's partition."""
    return f"job_event_{day:%Y%m%d}"


def ensure_partitions(connection: Connection, *, days_ahead: int = 3) -> list[str]:
    """Make the partitions of today (by the database's clock) and of the days ahead.

    One that is made locks all of ``job_event`` for a moment: with a short time-out, like a drop.

    Returns:
        Names of the partitions that were made.
    """
    today: date = connection.execute(
        text("SELECT (dispatcher_now() AT TIME ZONE 'UTC')::date")
    ).scalar_one()
    wanted = [today + timedelta(days=n) for n in range(days_ahead + 1)]
    present = _present(connection)
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


def expired_days(connection: Connection, *, age: float) -> list[date]:
    """Days with a partition, each of whose jobs ended more than ``age`` seconds ago, oldest first."""
    days = sorted(day for day in map(_day_of, _present(connection)) if day is not None)
    rows = connection.execute(
        text(
            """
            SELECT day FROM unnest(CAST(:days AS date[])) AS day,
                (SELECT dispatcher_now() - make_interval(secs => :age) AS since) AS s
            WHERE day < (since AT TIME ZONE 'UTC')::date AND NOT EXISTS (
                SELECT FROM job WHERE job_day = day AND (finished IS NULL OR finished >= since))
            ORDER BY day
            """
        ),
        {"days": days, "age": age},
    )
    return list(rows.scalars())


def empty_partition(connection: Connection, day: date) -> None:
    """Give back a day's room. Locks that day's partition only: nobody writes there any more."""
    connection.execute(text(f"TRUNCATE {partition_name(day)}"))


def drop_partition(connection: Connection, day: date) -> None:
    """Remove a day's partition. Locks all of ``job_event`` for a moment: with a short time-out."""
    connection.execute(text(f"DROP TABLE {partition_name(day)}"))


def _present(connection: Connection) -> set[str]:
    return set(
        connection.scalars(
            text(
                "SELECT relname FROM pg_class JOIN pg_inherits ON inhrelid = pg_class.oid"
                " WHERE inhparent = 'job_event'::regclass"
            )
        )
    )


def _day_of(name: str) -> date | None:
    """The day of a partition; None: a table that is not one of ours."""
    try:
        day = datetime.strptime(name, "job_event_%Y%m%d").date()
    except ValueError:
        return None
    return day if partition_name(day) == name else None
