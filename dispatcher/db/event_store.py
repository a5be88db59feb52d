"""A run's events and what it left behind, as a node stores them (docs/protocols.md 5).

Everything here happens in a transaction that began with :func:`lock_progress`: the rows that it
returned are running under the dispatch that was named, and stay so until the commit.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final
from uuid import UUID

import psycopg2
from psycopg2.extras import Json
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from dispatcher.db import tables
from dispatcher.db.node_rows import Pair, arrays

SUMMARY_COUNTS: Final = ("ok", "changed", "failures", "dark", "skipped", "rescued", "ignored")
_COPY: Final = (
    f"COPY job_event ({', '.join(c.name for c in tables.job_event.columns)})"
    " FROM STDIN WITH (FORMAT text, ENCODING 'UTF8')"
)


@dataclass(frozen=True)
class Progress:
    """How much of a run is stored.

    Attributes:
        stored: events; the next one has the counter ``stored + 1``.
        spool_offset: where the next batch begins.
    """

    job_id: int
    dispatch_id: UUID
    job_day: date
    stored: int
    spool_offset: int


@dataclass(frozen=True)
class Locked:
    """What :func:`lock_progress` found.

    Attributes:
        progress: rows that are locked now.
        refused: runs whose row is not running under their dispatch: nothing may be stored. A row
            that somebody else has locked at the moment is in neither; it is asked for again.
    """

    progress: tuple[Progress, ...]
    refused: frozenset[UUID]


def lock_progress(connection: Connection, pairs: Sequence[Pair]) -> Locked:
    """Lock the progress rows of runs, and their jobs against any move.

    It never waits for a lock, so a cancel under way and this can not block one another.
    """
    rows = connection.execute(
        text(
            """
            SELECT p.job_id, p.dispatch_id, p.job_day, p.stored, p.spool_offset
            FROM unnest(CAST(:jobs AS bigint[]), CAST(:dispatches AS uuid[]))
                AS v(job_id, dispatch_id)
            JOIN job ON job.id = v.job_id AND job.dispatch_id = v.dispatch_id
            JOIN job_progress p ON p.job_id = v.job_id AND p.dispatch_id = v.dispatch_id
            WHERE job.status = 'running'
            ORDER BY job.id
            FOR SHARE OF job SKIP LOCKED
            FOR UPDATE OF p SKIP LOCKED
            """
        ),
        arrays(pairs),
    )
    progress = tuple(Progress(*row) for row in rows)
    locked = {row.dispatch_id for row in progress}
    missing = [pair for pair in pairs if pair[1] not in locked]
    refused: frozenset[UUID] = frozenset()
    if missing:
        refused = frozenset(d for _, d in missing) - _running(connection, missing)
    return Locked(progress, refused)


def _running(connection: Connection, pairs: Sequence[Pair]) -> frozenset[UUID]:
    rows = connection.execute(
        text(
            """
            SELECT job.dispatch_id
            FROM unnest(CAST(:jobs AS bigint[]), CAST(:dispatches AS uuid[]))
                AS v(job_id, dispatch_id)
            JOIN job ON job.id = v.job_id AND job.dispatch_id = v.dispatch_id
            WHERE job.status = 'running'
            """
        ),
        arrays(pairs),
    )
    return frozenset(rows.scalars())


def copy_events(connection: Connection, blocks: Iterable[tuple[Progress, Sequence[bytes]]]) -> int:
    """Store events of any number of runs with one COPY.

    Args:
        blocks: for each run its COPY text lines, from the column ``counter`` on, newline included.

    Returns:
        Bytes that were sent.

    Raises:
        DBAPIError: as for every other statement.
    """
    pieces: list[bytes] = []
    for progress, lines in blocks:
        if lines:
            prefix = f"{progress.job_day}\t{progress.job_id}\t".encode()
            pieces += (prefix, prefix.join(lines))
    if not pieces:
        return 0
    content = b"".join(pieces)
    raw: Any = connection.connection.dbapi_connection
    try:
        with raw.cursor() as cursor:
            cursor.copy_expert(_COPY, io.BytesIO(content))
    except psycopg2.Error as error:
        # past SQLAlchemy, which would have done this for a statement of its own
        gone = bool(raw.closed)
        if gone:
            connection.invalidate(error)
        raise DBAPIError.instance(
            _COPY, None, error, psycopg2.Error, hide_parameters=True, connection_invalidated=gone
        ) from error
    return len(content)


@dataclass(frozen=True)
class Advance:
    """Where a run's progress stands once a batch is in."""

    job_id: int
    stored: int
    spool_offset: int


def advance(connection: Connection, steps: Sequence[Advance]) -> None:
    """Move the stored counters on, in the transaction that stored the events."""
    if not steps:
        return
    connection.execute(
        text(
            """
            UPDATE job_progress SET stored = v.stored, spool_offset = v.spool_offset
            FROM unnest(CAST(:jobs AS bigint[]), CAST(:stored AS bigint[]),
                        CAST(:offsets AS bigint[])) AS v(job_id, stored, spool_offset)
            WHERE job_progress.job_id = v.job_id
            """
        ),
        {
            "jobs": [s.job_id for s in steps],
            "stored": [s.stored for s in steps],
            "offsets": [s.spool_offset for s in steps],
        },
    )


def store_summaries(connection: Connection, job_id: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store the recap of all hosts in one statement.

    Args:
        rows: ``host_name``, ``failed`` and :data:`SUMMARY_COUNTS` of each host.
    """
    if not rows:
        return
    counts = ", ".join(f"CAST(:{name} AS integer[])" for name in SUMMARY_COUNTS)
    columns = ", ".join(SUMMARY_COUNTS)
    connection.execute(
        text(
            f"INSERT INTO job_host_summary (job_id, host_name, failed, {columns})"
            f" SELECT :job, v.* FROM unnest(CAST(:hosts AS text[]), CAST(:failed AS boolean[]),"
            f" {counts}) AS v"
        ),
        {
            "job": job_id,
            "hosts": [row["host_name"] for row in rows],
            "failed": [row["failed"] for row in rows],
            **{name: [row[name] for row in rows] for name in SUMMARY_COUNTS},
        },
    )


def store_result(
    connection: Connection,
    job_id: int,
    *,
    artifacts: Mapping[str, Any],
    evidence: Mapping[str, Any],
    events_total: int,
    playbook_outcome: str | None,
) -> None:
    """Store what a run left behind."""
    connection.execute(
        text(
            "INSERT INTO job_result (job_id, artifacts, evidence, events_total, playbook_outcome)"
            " VALUES (:job, :artifacts, :evidence, :total, :playbook)"
        ),
        {
            "job": job_id,
            "artifacts": Json(dict(artifacts)),
            "evidence": Json(dict(evidence)),
            "total": events_total,
            "playbook": playbook_outcome,
        },
    )


def store_revision(connection: Connection, job_id: int, *, revision: str, digest: str) -> None:
    """What a project update found: jobs that start from now on run it."""
    connection.execute(
        text(
            "UPDATE job_project SET revision = :revision, bundle_digest = :digest"
            " WHERE job_id = :job"
        ),
        {"job": job_id, "revision": revision, "digest": digest},
    )
