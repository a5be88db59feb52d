"""Schedules: what is launched when, and what came of the last time."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from dispatcher.db.tables.base import NOW, Timestamp, metadata, one_of

schedule = Table(
    "schedule",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("organization_id", BigInteger, ForeignKey("organization.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False, server_default=text("''")),
    Column("created", Timestamp, nullable=False, server_default=NOW),
    Column("modified", Timestamp, nullable=False, server_default=NOW),
    Column("launches", Text, nullable=False),
    Column("template_id", BigInteger, nullable=False),
    Column("prompts", JSONB, nullable=False, server_default=text("'{}'")),
    # a cron expression, or the text of DTSTART and RRULE lines
    Column("rule_kind", Text, nullable=False),
    Column("rule", Text, nullable=False),
    Column("time_zone", Text, nullable=False, server_default=text("'UTC'")),
    Column("starts", Timestamp),
    Column("ends", Timestamp),
    Column("enabled", Boolean, nullable=False, server_default=text("true")),
    # runs missed during an outage: none, one, or all up to a number
    Column("misfire", Text, nullable=False, server_default=text("'once'")),
    Column("misfire_limit", Integer, nullable=False, server_default=text("10")),
    Column("next_run", Timestamp),
    Column("last_run", Timestamp),
    # why it was disabled by itself
    Column("disabled_reason", Text, nullable=False, server_default=text("''")),
    UniqueConstraint("organization_id", "name"),
    CheckConstraint(
        one_of(
            "launches", ("job_template", "workflow_job_template", "project", "inventory_source")
        ),
        name="launches_word",
    ),
    CheckConstraint(one_of("rule_kind", ("cron", "ical")), name="rule_kind_word"),
    CheckConstraint(one_of("misfire", ("skip", "once", "all")), name="misfire_word"),
    CheckConstraint("misfire_limit >= 1", name="misfire_limit_range"),
    CheckConstraint("disabled_reason = '' OR NOT enabled", name="disabled_with_reason"),
    Index("ix_schedule_due", "next_run", postgresql_where=text("enabled AND next_run IS NOT NULL")),
)

#: One row for each launch: a due time is launched once, whoever looks.
schedule_launch = Table(
    "schedule_launch",
    metadata,
    Column(
        "schedule_id", BigInteger, ForeignKey("schedule.id", ondelete="CASCADE"), nullable=False
    ),
    Column("due", Timestamp, nullable=False),
    Column("job_id", BigInteger, ForeignKey("job.id", ondelete="SET NULL")),
    Column("launched", Timestamp, nullable=False, server_default=NOW),
    # why there is no job
    Column("error", Text, nullable=False, server_default=text("''")),
    PrimaryKeyConstraint("schedule_id", "due"),
    Index(None, "job_id"),
)

#: Switches that stop starts: of the whole, of a group, of a tenant.
pause = Table(
    "pause",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("instance_group_id", BigInteger, ForeignKey("instance_group.id", ondelete="CASCADE")),
    Column("organization_id", BigInteger, ForeignKey("organization.id", ondelete="CASCADE")),
    Column("reason", Text, nullable=False, server_default=text("''")),
    Column("created_by", Text, nullable=False, server_default=text("''")),
    Column("created", Timestamp, nullable=False, server_default=NOW),
    CheckConstraint("instance_group_id IS NULL OR organization_id IS NULL", name="one_scope"),
    UniqueConstraint("instance_group_id", "organization_id", postgresql_nulls_not_distinct=True),
)
