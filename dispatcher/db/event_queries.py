"""What the API reads of a job's events: always one partition, by a range of the primary key.

Events are stored in the order of their counters, and lines are numbered in that order: the first
line of an event is the last one of the event before. So the event at a line is found by bisection
over counters, and an order by line is the order by counter.
"""

from __future__ import annotations

from datetime import date
from typing import Any, Final

from sqlalchemy import Connection, RowMapping, select, text

from dispatcher.db.listing import Field, FieldType, Listing
from dispatcher.db.tables import job_event

#: Most events in one read of a follower, and of the output.
FOLLOW_EVENTS: Final = 500
OUTPUT_EVENTS: Final = 5_000

_FIELDS = {
    **{
        name: Field(job_event.c[name], FieldType.INTEGER)
        for name in ("counter", "start_line", "end_line", "verbosity")
    },
    "id": Field(job_event.c.counter, FieldType.INTEGER),
    **{
        name: Field(job_event.c[name], FieldType.TEXT)
        for name in (
            "event",
            "host_name",
            "play",
            "task",
            "role",
            "uuid",
            "parent_uuid",
            "stdout",
        )
    },
    **{
        name: Field(job_event.c[name], FieldType.BOOLEAN)
        for name in ("failed", "changed", "sanitized", "truncated")
    },
    "created": Field(job_event.c.created, FieldType.TIME),
}


def event_listing(job_day: date, job_id: int) -> Listing:
    """The events of one job."""
    return Listing(
        source=select(job_event).where(
            job_event.c.job_day == job_day, job_event.c.job_id == job_id
        ),
        fields=_FIELDS,
        search=("stdout",),
        key="counter",
        same_order={"start_line": "counter", "end_line": "counter", "id": "counter"},
    )


def read_event(
    connection: Connection, job_day: date, job_id: int, counter: int
) -> RowMapping | None:
    """One event."""
    statement = select(job_event).where(
        job_event.c.job_day == job_day,
        job_event.c.job_id == job_id,
        job_event.c.counter == counter,
    )
    return connection.execute(statement).mappings().one_or_none()


# Where a batch ends is decided by sizes alone, which are in the rows' headers; only then are its
# texts fetched.
_BATCH: Final = """
SELECT {columns} FROM job_event
WHERE job_day = :day AND job_id = :job AND counter > :after AND counter <= (
    SELECT max(counter) FROM (
        SELECT counter, sum(size) OVER (ORDER BY counter) - size AS before FROM (
            SELECT counter, {size} AS size FROM job_event
            WHERE job_day = :day AND job_id = :job AND counter > :after AND counter <= :upto
            ORDER BY counter LIMIT :events
        ) AS sizes
    ) AS sums WHERE before < :bytes
)
ORDER BY counter
"""
_FOLLOW = text(_BATCH.format(columns="*", size="octet_length(stdout) + pg_column_size(event_data)"))
_OUTPUT = text(
    _BATCH.format(columns="counter, start_line, end_line, stdout", size="octet_length(stdout)")
)


def _batch(
    job_day: date, job_id: int, after: int, upto: int, max_bytes: int, max_events: int
) -> dict[str, Any]:
    return {
        "day": job_day,
        "job": job_id,
        "after": after,
        "upto": upto,
        "events": max_events,
        "bytes": max_bytes,
    }


def read_following(
    connection: Connection,
    job_day: date,
    job_id: int,
    *,
    after: int,
    max_bytes: int = 1_000_000,
    max_events: int = FOLLOW_EVENTS,
) -> list[RowMapping]:
    """The events after counter ``after``, in order: at least one, if there is one.

    Args:
        max_bytes: no event is added once the batch has reached this size.
        max_events: most events of a batch.
    """
    parameters = _batch(job_day, job_id, after, 2**62, max_bytes, max_events)
    return list(connection.execute(_FOLLOW, parameters).mappings())


def read_output(
    connection: Connection,
    job_day: date,
    job_id: int,
    *,
    after: int,
    upto: int,
    max_bytes: int = 1_000_000,
) -> list[RowMapping]:
    """Like :func:`read_following`, but only counter, start_line, end_line, stdout, to ``upto``."""
    parameters = _batch(job_day, job_id, after, upto, max_bytes, OUTPUT_EVENTS)
    return list(connection.execute(_OUTPUT, parameters).mappings())


_LAST = text(
    "SELECT counter, end_line FROM job_event WHERE job_day = :day AND job_id = :job"
    " ORDER BY counter DESC LIMIT 1"
)


def read_last(connection: Connection, job_day: date, job_id: int) -> tuple[int, int]:
    """Counter and end line of the newest event; (0, 0) when there is none."""
    row = connection.execute(_LAST, {"day": job_day, "job": job_id}).one_or_none()
    return (0, 0) if row is None else (row[0], row[1])


_PROBE = text(
    "SELECT counter, end_line FROM job_event WHERE job_day = :day AND job_id = :job"
    " AND counter >= :counter ORDER BY counter LIMIT 1"
)


def counter_before_line(
    connection: Connection, job_day: date, job_id: int, *, line: int, last_counter: int
) -> int:
    """The highest counter whose event, and every one before it, ends at or before ``line``.

    Reading after it yields every event with output at or past ``line``; about twenty reads by
    primary key in a million events.
    """
    low, high = 0, last_counter
    while low < high:
        middle = (low + high + 1) // 2
        row = connection.execute(
            _PROBE, {"day": job_day, "job": job_id, "counter": middle}
        ).one_or_none()
        if row is not None and row[1] <= line:
            low = max(row[0], middle)
        else:
            high = middle - 1
    return min(low, last_counter)
