"""Workflows: templates with nodes and edges, their running copies, approvals, and what moved."""

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
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from dispatcher.db.tables.base import NOW, Timestamp, metadata, one_of

EDGE_KINDS = ("success", "failure", "always")
#: What a workflow's node spawns.
NODE_SPAWNS = ("job_template", "workflow_job_template", "approval", "project", "inventory_source")

workflow_job_template = Table(
    "workflow_job_template",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("organization_id", BigInteger, ForeignKey("organization.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False, server_default=text("''")),
    Column("created", Timestamp, nullable=False, server_default=NOW),
    Column("modified", Timestamp, nullable=False, server_default=NOW),
    Column("extra_vars", JSONB, nullable=False, server_default=text("'{}'")),
    # prompts for all nodes; they win over a node's own
    Column("prompts", JSONB, nullable=False, server_default=text("'{}'")),
    Column("allow_simultaneous", Boolean, nullable=False, server_default=text("false")),
    Column("ask_variables_on_launch", Boolean, nullable=False, server_default=text("false")),
    Column("ask_limit_on_launch", Boolean, nullable=False, server_default=text("false")),
    Column("ask_inventory_on_launch", Boolean, nullable=False, server_default=text("false")),
    UniqueConstraint("organization_id", "name"),
)

workflow_template_node = Table(
    "workflow_template_node",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column(
        "workflow_job_template_id",
        BigInteger,
        ForeignKey("workflow_job_template.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("identifier", Text, nullable=False),
    Column("spawns", Text, nullable=False),
    # null where the template was deleted, and for approvals
    Column("template_id", BigInteger),
    Column("all_parents_must_converge", Boolean, nullable=False, server_default=text("false")),
    Column("prompts", JSONB, nullable=False, server_default=text("'{}'")),
    Column("approval_name", Text, nullable=False, server_default=text("''")),
    # seconds; 0: an approval that waits for ever
    Column("approval_timeout", Integer, nullable=False, server_default=text("0")),
    UniqueConstraint("workflow_job_template_id", "identifier"),
    CheckConstraint(one_of("spawns", NODE_SPAWNS), name="spawns_word"),
    CheckConstraint("(spawns = 'approval') = (approval_name <> '')", name="approval_has_name"),
    CheckConstraint("approval_timeout >= 0", name="seconds_range"),
)

workflow_template_edge = Table(
    "workflow_template_edge",
    metadata,
    Column(
        "parent_id",
        BigInteger,
        ForeignKey("workflow_template_node.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column(
        "child_id",
        BigInteger,
        ForeignKey("workflow_template_node.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("kind", Text, nullable=False),
    PrimaryKeyConstraint("parent_id", "child_id", "kind"),
    CheckConstraint("parent_id <> child_id", name="not_itself"),
    CheckConstraint(one_of("kind", EDGE_KINDS), name="kind_word"),
    Index(None, "child_id"),
)

#: What a workflow job was launched with; children take from it.
workflow_input = Table(
    "workflow_input",
    metadata,
    Column("job_id", BigInteger, ForeignKey("job.id", ondelete="CASCADE"), primary_key=True),
    Column("extra_vars", JSONB, nullable=False, server_default=text("'{}'")),
    Column("prompts", JSONB, nullable=False, server_default=text("'{}'")),
)

#: The nodes of a running workflow: a copy, so that an edit of the template changes no run.
workflow_node = Table(
    "workflow_node",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("workflow_job_id", BigInteger, ForeignKey("job.id", ondelete="CASCADE"), nullable=False),
    Column("identifier", Text, nullable=False),
    # a relaunch from failed nodes refers to the jobs that had succeeded: not unique
    Column("job_id", BigInteger, ForeignKey("job.id"), index=True),
    Column("do_not_run", Boolean, nullable=False, server_default=text("false")),
    Column("spawns", Text, nullable=False, server_default=text("'job_template'")),
    Column("template_id", BigInteger),
    Column("all_parents_must_converge", Boolean, nullable=False, server_default=text("false")),
    Column("prompts", JSONB, nullable=False, server_default=text("'{}'")),
    Column("approval_name", Text, nullable=False, server_default=text("''")),
    Column("approval_timeout", Integer, nullable=False, server_default=text("0")),
    Column("attempt", Integer, nullable=False, server_default=text("0")),
    # why no job could be made of it: the node failed with this reason
    Column("start_failure", Text, nullable=False, server_default=text("''")),
    # of a sliced launch: 1 to the job's slice_count; 0: no slice
    Column("slice_number", Integer, nullable=False, server_default=text("0")),
    UniqueConstraint("workflow_job_id", "identifier"),
    CheckConstraint("job_id IS NULL OR NOT do_not_run", name="run_or_not"),
    CheckConstraint(
        "start_failure = '' OR (job_id IS NULL AND NOT do_not_run)", name="failed_has_no_job"
    ),
    CheckConstraint("slice_number >= 0 AND attempt >= 0", name="counts_range"),
    CheckConstraint(one_of("spawns", NODE_SPAWNS), name="spawns_word"),
)

workflow_edge = Table(
    "workflow_edge",
    metadata,
    Column(
        "parent_id", BigInteger, ForeignKey("workflow_node.id", ondelete="CASCADE"), nullable=False
    ),
    Column(
        "child_id", BigInteger, ForeignKey("workflow_node.id", ondelete="CASCADE"), nullable=False
    ),
    Column("kind", Text, nullable=False),
    PrimaryKeyConstraint("parent_id", "child_id", "kind"),
    CheckConstraint("parent_id <> child_id", name="not_itself"),
    CheckConstraint(one_of("kind", EDGE_KINDS), name="kind_word"),
    Index(None, "child_id"),
)

#: One row for each job that a workflow node spawned; a second spawn of one attempt is refused.
workflow_spawn = Table(
    "workflow_spawn",
    metadata,
    Column(
        "workflow_node_id",
        BigInteger,
        ForeignKey("workflow_node.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("attempt", Integer, nullable=False),
    Column(
        "job_id", BigInteger, ForeignKey("job.id", ondelete="CASCADE"), nullable=False, unique=True
    ),
    PrimaryKeyConstraint("workflow_node_id", "attempt"),
)

approval = Table(
    "approval",
    metadata,
    Column("job_id", BigInteger, ForeignKey("job.id", ondelete="CASCADE"), primary_key=True),
    Column("expires", Timestamp),
    Column("decided_by", Text, nullable=False, server_default=text("''")),
    Column("timed_out", Boolean, nullable=False, server_default=text("false")),
)

#: Workflows that something moved under; read and deleted by id in one snapshot.
workflow_touch = Table(
    "workflow_touch",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("workflow_job_id", BigInteger, ForeignKey("job.id", ondelete="CASCADE"), nullable=False),
    Index(None, "workflow_job_id"),
)

#: When every running workflow is looked at again, touched or not; one row.
workflow_sweep = Table(
    "workflow_sweep",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("due", Timestamp, nullable=False),
    CheckConstraint("id = 1", name="one_row"),
)
