"""Content bundles: what the API reads of one, and the removal of those that nobody needs."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, RowMapping, select, text

from dispatcher.db.tables import content_bundle


def read_bundle_facts(connection: Connection, digest: str) -> RowMapping | None:
    """Size and times of a complete bundle."""
    statement = select(
        content_bundle.c.digest,
        content_bundle.c.size,
        content_bundle.c.unpacked_size,
        content_bundle.c.created,
        content_bundle.c.last_used,
    ).where(content_bundle.c.digest == digest, content_bundle.c.complete)
    return connection.execute(statement).mappings().one_or_none()


#: Bundles of one transaction: each brings its chunks along.
BUNDLES_AT_ONCE: Final = 20


def delete_unused_bundles(connection: Connection) -> list[str]:
    """Delete bundles that no job refers to and nobody has asked for in 24 hours.

    One that a launch is about to refer to is locked by it, and left (docs/protocols.md 9.1).
    Uploads that broke off are such bundles too.

    Returns:
        Their digests, at most :data:`BUNDLES_AT_ONCE`.
    """
    deleted = connection.execute(
        text(
            """
            DELETE FROM content_bundle WHERE digest IN (
                SELECT digest FROM content_bundle AS b
                WHERE last_used < dispatcher_now() - interval '24 hours'
                  AND NOT EXISTS (SELECT FROM job WHERE bundle_digest = b.digest)
                  AND NOT EXISTS (SELECT FROM job_project WHERE bundle_digest = b.digest)
                ORDER BY last_used LIMIT :most FOR UPDATE SKIP LOCKED)
            RETURNING digest
            """
        ),
        {"most": BUNDLES_AT_ONCE},
    )
    return list(deleted.scalars())
