"""Workflow jobs' nodes, and what moved under them."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
    Index,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from dispatcher.db.tables.base import metadata

workflow_node = Table(
    "workflow_node",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("workflow_job_id", BigInteger, ForeignKey("job.id", ondelete="CASCADE"), nullable=False),
    Column("identifier", Text, nullable=False),
    Column("job_id", BigInteger, ForeignKey("job.id"), unique=True),
    Column("do_not_run", Boolean, nullable=False, server_default=text("false")),
    UniqueConstraint("workflow_job_id", "identifier"),
    CheckConstraint("job_id IS NULL OR NOT do_not_run", name="run_or_not"),
)

#: Workflows that something moved under; read and deleted by id in one snapshot.
workflow_touch = Table(
    "workflow_touch",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("workflow_job_id", BigInteger, ForeignKey("job.id", ondelete="CASCADE"), nullable=False),
    Index(None, "workflow_job_id"),
)
