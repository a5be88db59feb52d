"""Who asks: tenants, tokens, and the keys that make a repeated request harmless."""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)

from dispatcher.db.tables.base import NOW, Timestamp, metadata

organization = Table(
    "organization",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("weight", Double, nullable=False, server_default=text("1")),
    Column("created", Timestamp, nullable=False, server_default=NOW),
    Column("description", Text, nullable=False, server_default=text("''")),
    Column("max_concurrent_jobs", Integer, nullable=False, server_default=text("0")),
    # ids of instance groups in order of preference
    Column("instance_groups", ARRAY(BigInteger), nullable=False, server_default=text("'{}'")),
    Column("modified", Timestamp, nullable=False, server_default=NOW),
    CheckConstraint("weight > 0", name="weight_positive"),
    CheckConstraint("max_concurrent_jobs >= 0", name="limit_range"),
)

api_token = Table(
    "api_token",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("name", Text, nullable=False),
    Column("token_sha256", LargeBinary, nullable=False, unique=True),
    Column("created", Timestamp, nullable=False, server_default=NOW),
    Column("expires", Timestamp),
    Column("revoked", Timestamp),
    CheckConstraint("octet_length(token_sha256) = 32", name="digest_length"),
)

idempotency_key = Table(
    "idempotency_key",
    metadata,
    Column("principal", Text, nullable=False),
    Column("route", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("request_sha256", LargeBinary, nullable=False),
    # deferred: the key is inserted first, because it decides whether there will be a job
    Column(
        "job_id",
        BigInteger,
        ForeignKey("job.id", ondelete="CASCADE", deferrable=True, initially="DEFERRED"),
        nullable=False,
    ),
    Column("created", Timestamp, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("principal", "route", "key"),
    Index(None, "job_id"),
)
