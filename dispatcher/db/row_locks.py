"""Locking rows without waiting for whoever holds some of them."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, text


def lock_free_jobs(connection: Connection, job_ids: Collection[int]) -> set[int]:
    """Lock those of the given jobs that nobody else has locked; which they are.

    One row held by a long transaction of somebody else must not hold up a whole batch.
    """
    if not job_ids:
        return set()
    return set(
        connection.scalars(
            text(
                "SELECT id FROM job WHERE id = ANY(CAST(:ids AS bigint[])) ORDER BY id"
                " FOR NO KEY UPDATE SKIP LOCKED"
            ),
            {"ids": list(job_ids)},
        )
    )
