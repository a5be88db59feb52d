"""Idempotency keys: the same request under the same key is the same job (docs/protocols.md 9.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from dispatcher.domain.launch_checks import line_problem
from dispatcher.errors import Conflict, InvalidRequest

_TRIES: Final = 3
_LONGEST_KEY: Final = 255
_LOCK_NOT_AVAILABLE: Final = "55P03"


@dataclass(frozen=True)
class EarlierJob:
    """The job that a key made before, or the newest retry of it."""

    job_id: int
    uuid: UUID


def take_key(
    connection: Connection,
    *,
    principal: str,
    route: str,
    key: str,
    digests: Sequence[bytes],
    job_id: int,
) -> EarlierJob | None:
    """Take a key for a job that is about to be made, in its transaction.

    Args:
        principal, route, key: what is unique together.
        digests: of the request; the first one is stored, an earlier request may have any of them.
        job_id: of the job to be made; the row may come later in the transaction.

    Returns:
        None when the key is taken now; else the job that it belongs to.

    Raises:
        InvalidRequest: this cannot be a key.
        Conflict: ``key_reused`` for another request; ``in_progress`` while the first one is open.
    """
    problem = line_problem(key, _LONGEST_KEY)
    if problem is not None or not key.strip():
        raise InvalidRequest({"Idempotency-Key": problem or "must not be empty"})
    names = {"principal": principal, "route": route, "key": key}
    for _ in range(_TRIES):
        if _insert_key(connection, names, digests[0], job_id):
            return None
        row = connection.execute(
            text(
                "SELECT job_id, request_sha256 FROM idempotency_key"
                " WHERE principal = :principal AND route = :route AND key = :key"
            ),
            names,
        ).one_or_none()
        if row is None:
            continue  # it expired between the two statements
        if bytes(row.request_sha256) not in digests:
            raise Conflict("this Idempotency-Key was used for another request", code="key_reused")
        return _newest_retry(connection, row.job_id)
    raise _in_progress()


def _insert_key(connection: Connection, names: dict[str, str], digest: bytes, job_id: int) -> bool:
    """Whether the key is ours now. Waits for a transaction that holds it, up to ``lock_timeout``."""
    try:
        inserted = connection.execute(
            text(
                "INSERT INTO idempotency_key (principal, route, key, request_sha256, job_id)"
                " VALUES (:principal, :route, :key, :digest, :job) ON CONFLICT DO NOTHING"
            ),
            names | {"digest": digest, "job": job_id},
        )
    except OperationalError as error:
        if getattr(error.orig, "pgcode", None) == _LOCK_NOT_AVAILABLE:
            raise _in_progress() from None
        raise
    return inserted.rowcount == 1


def _in_progress() -> Conflict:
    return Conflict(
        "the first request with this Idempotency-Key is still being answered",
        code="in_progress",
        retry_after=1,
    )


def _newest_retry(connection: Connection, job_id: int) -> EarlierJob:
    """The job itself, or the last of its retries after the loss of a node."""
    row = connection.execute(
        text(
            """
            WITH RECURSIVE retries AS (
                SELECT id, uuid, 0 AS step FROM job WHERE id = :job
                UNION ALL
                SELECT job.id, job.uuid, step + 1 FROM job JOIN retries ON job.retry_of = retries.id
            )
            SELECT id, uuid FROM retries ORDER BY step DESC LIMIT 1
            """
        ),
        {"job": job_id},
    ).one()
    return EarlierJob(row.id, row.uuid)
