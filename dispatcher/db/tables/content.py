"""Bundles of playbooks, named by their digest and stored in chunks."""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)

from dispatcher.db.tables.base import NOW, Timestamp, metadata

content_bundle = Table(
    "content_bundle",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("unpacked_size", BigInteger, nullable=False),
    # files, "directories/" and "links//" in it, to refuse an unknown playbook when it is asked for;
    # null when there are too many (dispatcher/domain/bundle.py)
    Column("paths", ARRAY(Text)),
    Column("complete", Boolean, nullable=False, server_default=text("false")),
    Column("created", Timestamp, nullable=False, server_default=NOW),
    Column("last_used", Timestamp, nullable=False, server_default=NOW),
    CheckConstraint("digest ~ '^[0-9a-f]{64}$'", name="digest_form"),
    CheckConstraint("size > 0 AND unpacked_size >= 0", name="size_positive"),
)

content_chunk = Table(
    "content_chunk",
    metadata,
    Column("digest", Text, ForeignKey("content_bundle.digest", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("bytes", LargeBinary, nullable=False),
    PrimaryKeyConstraint("digest", "number"),
)
