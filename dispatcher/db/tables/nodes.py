"""Our machines, their leases, and the groups they stand in."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import UUID

from dispatcher.db.tables.base import NOW, Timestamp, metadata, one_of

node = Table(
    "node",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("name", Text, nullable=False),
    Column("identity", UUID(as_uuid=True), nullable=False),
    Column("machine_id", Text, nullable=False, server_default=text("''")),
    Column("enabled", Boolean, nullable=False, server_default=text("true")),
    Column("draining", Boolean, nullable=False, server_default=text("false")),
    Column("accepting", Boolean, nullable=False, server_default=text("true")),
    Column("not_accepting_reason", Text, nullable=False, server_default=text("''")),
    Column("cpus", Double, nullable=False, server_default=text("0")),
    Column("memory", BigInteger, nullable=False, server_default=text("0")),
    Column("cpu_capacity", Integer, nullable=False, server_default=text("0")),
    Column("mem_capacity", Integer, nullable=False, server_default=text("0")),
    Column("capacity_adjustment", Double, nullable=False, server_default=text("1")),
    Column("fixed_capacity", Integer),
    Column("max_jobs", Integer, nullable=False, server_default=text("200")),
    Column("version", Text, nullable=False, server_default=text("''")),
    Column("created", Timestamp, nullable=False, server_default=NOW),
    Column("modified", Timestamp, nullable=False, server_default=NOW),
    Column("removed", Timestamp),
    # an operator has chosen the adjustment: the node's own setting does not count any more
    Column("adjustment_set", Boolean, nullable=False, server_default=text("false")),
    CheckConstraint("capacity_adjustment BETWEEN 0 AND 1", name="adjustment_range"),
    CheckConstraint("fixed_capacity IS NULL OR fixed_capacity >= 0", name="fixed_capacity_range"),
    CheckConstraint("accepting = (not_accepting_reason = '')", name="reason_given"),
    Index("uq_node_name_present", "name", unique=True, postgresql_where=text("removed IS NULL")),
)

#: Narrow, renewed by the agent alone; API and operators never lock it (docs/protocols.md 2.5).
node_lease = Table(
    "node_lease",
    metadata,
    Column("node_id", BigInteger, ForeignKey("node.id"), primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("seq", BigInteger, nullable=False, server_default=text("0")),
    Column("renewed_at", Timestamp, nullable=False, server_default=NOW),
    CheckConstraint(one_of("state", ("alive", "suspect", "lost", "left")), name="state_word"),
)

#: What recovery has counted of a node's renewals (docs/protocols.md 4.2).
node_watch = Table(
    "node_watch",
    metadata,
    Column("node_id", BigInteger, ForeignKey("node.id"), primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("missed", Integer, nullable=False, server_default=text("0")),
    Column("ticked_at", Timestamp, nullable=False, server_default=NOW),
)

instance_group = Table(
    "instance_group",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("max_concurrent_jobs", Integer, nullable=False, server_default=text("0")),
    Column("max_forks", Integer, nullable=False, server_default=text("0")),
    Column("created", Timestamp, nullable=False, server_default=NOW),
    Column("modified", Timestamp, nullable=False, server_default=NOW),
    CheckConstraint("max_concurrent_jobs >= 0 AND max_forks >= 0", name="limits_range"),
)

instance_group_node = Table(
    "instance_group_node",
    metadata,
    Column(
        "instance_group_id",
        BigInteger,
        ForeignKey("instance_group.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("node_id", BigInteger, ForeignKey("node.id", ondelete="CASCADE"), nullable=False),
    PrimaryKeyConstraint("instance_group_id", "node_id"),
    Index(None, "node_id"),
)
