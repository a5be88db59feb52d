"""What the API reads of content bundles."""

from __future__ import annotations

from sqlalchemy import Connection, RowMapping, select

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
