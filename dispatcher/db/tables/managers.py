"""Leases of the managers, requests beside them, and the change counter."""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Integer,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, UUID

from dispatcher.db.tables.base import NOW, Timestamp, metadata

schema_info = Table(
    "schema_info",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
    Column("min_code", Integer, nullable=False),
    CheckConstraint("id = 1", name="one_row"),
)


manager_lease = Table(
    "manager_lease",
    metadata,
    Column("manager", Text, primary_key=True),
    Column("epoch", BigInteger, nullable=False, server_default=text("0")),
    Column("holder", UUID(as_uuid=True)),
    Column("host", Text, nullable=False, server_default=text("''")),
    Column("boot_id", Text, nullable=False, server_default=text("''")),
    Column("pid", Integer, nullable=False, server_default=text("0")),
    Column("pid_start", BigInteger, nullable=False, server_default=text("0")),
    Column("expires_at", Timestamp, nullable=False, server_default=NOW),
    # the job ids of the window that is being planned, so that a killing one is found
    Column("window_jobs", ARRAY(BigInteger), nullable=False, server_default=text("'{}'")),
    Column("window_kills", SmallInteger, nullable=False, server_default=text("0")),
    Column("cursors", JSONB, nullable=False, server_default=text("'{}'")),
    Column("done_at_change", BigInteger),
    Column("next_due", Timestamp),
    Column("last_pass_at", Timestamp),
)

#: A walk through a backlog that a pass has left to the next one, who takes the lease right after it.
manager_walk = Table(
    "manager_walk",
    metadata,
    Column("manager", Text, ForeignKey("manager_lease.manager"), primary_key=True),
    # of the pass that stopped; another acquisition in between, by whomever, voids the row
    Column("epoch", BigInteger, nullable=False),
    # the change counter at its head, and the earliest time at which it is to be made again
    Column("change", BigInteger, nullable=False),
    Column("due", Timestamp),
)

#: Triggers that found the manager busy (docs/protocols.md 1.3); a row of its own on purpose.
manager_request = Table(
    "manager_request",
    metadata,
    Column("manager", Text, ForeignKey("manager_lease.manager"), primary_key=True),
    Column("requested", BigInteger, nullable=False, server_default=text("0")),
    Column("served", BigInteger, nullable=False, server_default=text("0")),
)

#: 64 counters; their sum says whether anything that a planner looks at has changed.
change = Table(
    "change",
    metadata,
    Column("slot", SmallInteger, primary_key=True, autoincrement=False),
    Column("value", BigInteger, nullable=False, server_default=text("0")),
    CheckConstraint("slot BETWEEN 0 AND 63", name="slot_range"),
)

CHANGE_SLOTS = 64
