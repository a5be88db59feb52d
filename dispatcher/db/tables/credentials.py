"""What jobs log in with. Secrets are encrypted with the cluster's keys before they come here."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from dispatcher.db.tables.base import NOW, Timestamp, metadata, one_of
from dispatcher.domain.credential import KINDS

credential = Table(
    "credential",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("organization_id", BigInteger, ForeignKey("organization.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False, server_default=text("''")),
    Column("created", Timestamp, nullable=False, server_default=NOW),
    Column("modified", Timestamp, nullable=False, server_default=NOW),
    Column("kind", Text, nullable=False),
    # as answers show them: in place of each secret stands "$encrypted$"
    Column("inputs", JSONB, nullable=False, server_default=text("'{}'")),
    # the secrets by name, encrypted; null: there are none
    Column("secrets", LargeBinary),
    UniqueConstraint("organization_id", "name"),
    CheckConstraint(one_of("kind", KINDS), name="kind_word"),
)

job_template_credential = Table(
    "job_template_credential",
    metadata,
    Column(
        "job_template_id",
        BigInteger,
        ForeignKey("job_template.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("credential_id", BigInteger, ForeignKey("credential.id"), nullable=False),
    PrimaryKeyConstraint("job_template_id", "credential_id"),
    Index(None, "credential_id"),
)

#: What a job was launched with; without a foreign key, so that a job whose credential was deleted
#: since ends with its name, instead of running without it.
job_credential = Table(
    "job_credential",
    metadata,
    Column("job_id", BigInteger, ForeignKey("job.id", ondelete="CASCADE"), nullable=False),
    Column("credential_id", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    PrimaryKeyConstraint("job_id", "credential_id"),
)
