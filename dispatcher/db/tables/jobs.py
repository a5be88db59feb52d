"""Jobs: what the managers move, what was asked for, how far it is stored, what is left."""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    Date,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, UUID

from dispatcher.db.tables.base import NOW, Timestamp, metadata, one_of
from dispatcher.domain.outcome import FACTS, Outcome
from dispatcher.domain.status import FINAL, NODE_KINDS, Kind, Status

_FINAL = one_of("status", FINAL)
_NODE_KIND = one_of("kind", NODE_KINDS)

#: What the managers read and move: narrow. What a job runs is in ``job_input``.
job = Table(
    "job",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("uuid", UUID(as_uuid=True), nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("status", Text, nullable=False, server_default=text("'pending'")),
    Column("organization_id", BigInteger, ForeignKey("organization.id"), nullable=False),
    Column("launch_type", Text, nullable=False, server_default=text("'manual'")),
    Column("launched_by", Text, nullable=False, server_default=text("''")),
    Column("created", Timestamp, nullable=False, server_default=NOW),
    Column(
        "job_day",
        Date,
        Computed("(created AT TIME ZONE 'UTC')::date", persisted=True),
        nullable=False,
    ),
    Column("priority", Integer, nullable=False, server_default=text("0")),
    # created minus an hour for each step of priority: ageing at one rate never changes an order
    Column(
        "rank",
        Double,
        Computed(
            "(EXTRACT(epoch FROM (created AT TIME ZONE 'UTC')))::double precision - 3600.0 * priority",
            persisted=True,
        ),
        nullable=False,
    ),
    Column("task_impact", Integer, nullable=False),
    Column("forks", Integer, nullable=False, server_default=text("5")),
    Column("preferred_groups", ARRAY(BigInteger), nullable=False),
    Column("dependencies_processed", Boolean, nullable=False, server_default=text("false")),
    Column("host_lock", Text, nullable=False, server_default=text("'none'")),
    Column("lock_keys", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("bundle_digest", Text, ForeignKey("content_bundle.digest")),
    Column("dispatch_id", UUID(as_uuid=True)),
    Column("node_id", BigInteger, ForeignKey("node.id")),
    Column("node_epoch", BigInteger),
    # null where the group was deleted since
    Column("instance_group_id", BigInteger, ForeignKey("instance_group.id", ondelete="SET NULL")),
    Column("waiting_since", Timestamp),
    Column("queued_on_node", Boolean, nullable=False, server_default=text("false")),
    Column("submissions", SmallInteger, nullable=False, server_default=text("0")),
    Column("submitted_at", Timestamp),
    Column("started", Timestamp),
    Column("finished", Timestamp),
    Column("cancel_requested", Boolean, nullable=False, server_default=text("false")),
    Column("canceled_on", Timestamp),
    Column("pending_reason", JSONB),
    # the code of the last pending reason before its latest start: what it had waited for
    Column("blocker", Text),
    Column("strikes", SmallInteger, nullable=False, server_default=text("0")),
    # no pass looks at the job before this time, because handling it raised
    Column("quarantined_until", Timestamp),
    Column("outcome", Text),
    Column("explanation", Text, nullable=False, server_default=text("''")),
    Column("events_complete", Boolean, nullable=False, server_default=text("false")),
    Column("retry_of", BigInteger, ForeignKey("job.id")),
    Column("retries_left", SmallInteger, nullable=False, server_default=text("0")),
    # null where the template was deleted since
    Column("job_template_id", BigInteger, ForeignKey("job_template.id", ondelete="SET NULL")),
    Column(
        "workflow_job_template_id",
        BigInteger,
        ForeignKey("workflow_job_template.id", ondelete="SET NULL"),
    ),
    Column("project_id", BigInteger, ForeignKey("project.id", ondelete="SET NULL")),
    Column("inventory_id", BigInteger, ForeignKey("inventory.id", ondelete="SET NULL")),
    Column(
        "inventory_source_id", BigInteger, ForeignKey("inventory_source.id", ondelete="SET NULL")
    ),
    Column("allow_simultaneous", Boolean, nullable=False, server_default=text("true")),
    Column("inventory_revision", BigInteger),
    # since when the job has been held for room; a node is reserved after reserve_after
    Column("held_since", Timestamp),
    Column("slice_number", Integer, nullable=False, server_default=text("0")),
    Column("slice_count", Integer, nullable=False, server_default=text("1")),
    CheckConstraint(one_of("status", Status), name="status_word"),
    CheckConstraint(one_of("kind", Kind), name="kind_word"),
    CheckConstraint(one_of("host_lock", ("none", "shared", "exclusive")), name="host_lock_word"),
    CheckConstraint(f"(finished IS NOT NULL) = ({_FINAL})", name="finished_if_final"),
    CheckConstraint(f"(outcome IS NOT NULL) = ({_FINAL})", name="outcome_if_final"),
    CheckConstraint(
        "outcome IS NULL OR "
        + " OR ".join(
            f"(status = '{status}' AND "
            + one_of("outcome", [o for o in Outcome if FACTS[o].status == status])
            + ")"
            for status in sorted(FINAL)
        ),
        name="outcome_fits_status",
    ),
    CheckConstraint(f"status <> 'waiting' OR {_NODE_KIND}", name="waiting_runs_on_node"),
    CheckConstraint(
        "status <> 'waiting' OR (dispatch_id IS NOT NULL AND node_id IS NOT NULL"
        " AND instance_group_id IS NOT NULL AND waiting_since IS NOT NULL)",
        name="waiting_has_dispatch",
    ),
    CheckConstraint(
        "status <> 'pending' OR (dispatch_id IS NULL AND node_id IS NULL AND waiting_since IS NULL"
        " AND started IS NULL)",
        name="pending_has_no_dispatch",
    ),
    CheckConstraint("status <> 'running' OR started IS NOT NULL", name="running_has_started"),
    CheckConstraint(
        f"status <> 'running' OR (dispatch_id IS NOT NULL AND node_epoch IS NOT NULL) = ({_NODE_KIND})",
        name="running_has_dispatch",
    ),
    CheckConstraint(
        "kind <> 'approval' OR status NOT IN ('waiting', 'running')", name="approval_never_runs"
    ),
    CheckConstraint("status <> 'canceled' OR cancel_requested", name="canceled_on_request"),
    CheckConstraint("task_impact >= 0 AND forks >= 0 AND strikes >= 0", name="counts_range"),
    CheckConstraint("retry_of <> id", name="retry_of_other"),
    Index(
        "ix_job_candidates",
        "organization_id",
        "rank",
        "id",
        postgresql_where=text(
            "status = 'pending' AND dependencies_processed AND kind <> 'approval'"
        ),
    ),
    Index(
        "ix_job_unprocessed",
        "id",
        postgresql_where=text("status = 'pending' AND NOT dependencies_processed"),
    ),
    Index(
        "ix_job_quarantined",
        "quarantined_until",
        postgresql_where=text("status = 'pending' AND quarantined_until IS NOT NULL"),
    ),
    Index("ix_job_finished", "finished", postgresql_where=text("finished IS NOT NULL")),
    Index("ix_job_active", "node_id", postgresql_where=text("status IN ('waiting', 'running')")),
    Index(
        "ix_job_running_workflows",
        "id",
        postgresql_where=text("status = 'running' AND kind = 'workflow'"),
    ),
    Index(
        "ix_job_pending_approvals",
        "id",
        postgresql_where=text("status = 'pending' AND kind = 'approval'"),
    ),
    CheckConstraint(
        "slice_count >= 1 AND slice_number >= 0 AND slice_number <= slice_count", name="slice_range"
    ),
    CheckConstraint("retries_left >= 0", name="retries_range"),
    # each index is written with each move of a job: partial where it can be
    Index(None, "status", "id"),
    Index(
        "ix_job_project_updates",
        "project_id",
        text("finished DESC"),
        postgresql_where=text("kind = 'project_update'"),
    ),
    Index(
        "ix_job_inventory_updates",
        "inventory_source_id",
        text("finished DESC"),
        postgresql_where=text("kind = 'inventory_update'"),
    ),
    Index(
        "uq_job_retry_of",
        "retry_of",
        unique=True,
        postgresql_where=text("retry_of IS NOT NULL"),
    ),
    Index(None, "job_template_id", "id", postgresql_where=text("job_template_id IS NOT NULL")),
    Index(
        None, "inventory_id", postgresql_where=text("status IN ('pending', 'waiting', 'running')")
    ),
    # asked for whole days of long ago; a tree would cost every move of every job
    Index(None, "job_day", postgresql_using="brin"),
    Index(None, "bundle_digest", postgresql_where=text("bundle_digest IS NOT NULL")),
)

#: What was asked for; written once, at launch.
job_input = Table(
    "job_input",
    metadata,
    Column("job_id", BigInteger, ForeignKey("job.id", ondelete="CASCADE"), primary_key=True),
    Column("playbook", Text, nullable=False),
    # text of the inventory, or null: then inventory_path names it inside the bundle
    Column("inventory", Text),
    Column("inventory_path", Text),
    Column("limit_pattern", Text, nullable=False, server_default=text("''")),
    # json, not jsonb: the order of keys and the form of numbers stay as they were given
    Column("extra_vars", JSON, nullable=False, default=dict),
    Column("secret_vars", LargeBinary),
    Column("tags", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("skip_tags", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("check_mode", Boolean, nullable=False, server_default=text("false")),
    Column("diff_mode", Boolean, nullable=False, server_default=text("false")),
    Column("verbosity", SmallInteger, nullable=False, server_default=text("0")),
    Column("forks", Integer, nullable=False, server_default=text("0")),
    Column("timeout", Integer, nullable=False, server_default=text("0")),
    Column("idle_timeout", Integer, nullable=False, server_default=text("0")),
    Column("allow_no_hosts", Boolean, nullable=False, server_default=text("false")),
    Column("max_unreachable", Text, nullable=False, server_default=text("'0'")),
    Column("max_failed", Text, nullable=False, server_default=text("'0'")),
    Column("host_key_policy", Text, nullable=False, server_default=text("'accept-new'")),
    CheckConstraint("inventory IS NULL OR inventory_path IS NULL", name="one_inventory"),
    CheckConstraint("verbosity BETWEEN 0 AND 5", name="verbosity_range"),
    CheckConstraint("timeout >= 0 AND idle_timeout >= 0 AND forks >= 0", name="counts_range"),
    CheckConstraint(
        one_of("host_key_policy", ("strict", "accept-new")), name="host_key_policy_word"
    ),
)

#: How much of a run's spool is stored; locked first by every COPY (docs/protocols.md 5.1).
job_progress = Table(
    "job_progress",
    metadata,
    Column("job_id", BigInteger, ForeignKey("job.id", ondelete="CASCADE"), primary_key=True),
    Column("job_day", Date, nullable=False),
    Column("dispatch_id", UUID(as_uuid=True), nullable=False),
    Column("stored", BigInteger, nullable=False, server_default=text("0")),
    Column("spool_offset", BigInteger, nullable=False, server_default=text("0")),
    CheckConstraint("stored >= 0 AND spool_offset >= 0", name="counts_range"),
)

#: What REST v1 answers about a run; made at its launch, written with its events.
run_summary = Table(
    "run_summary",
    metadata,
    Column("job_id", BigInteger, ForeignKey("job.id", ondelete="CASCADE"), primary_key=True),
    *(
        Column(name, BigInteger, nullable=False, server_default=text("0"))
        for name in ("ok", "failed", "skipped")
    ),
    # of the newest start of a task; null before the first
    Column("task", Text),
    Column("task_metadata", JSONB),
    # host → counter of its last failure
    Column("failures", JSONB, nullable=False, server_default=text("'{}'")),
    CheckConstraint("ok >= 0 AND failed >= 0 AND skipped >= 0", name="counts_range"),
)

#: What a run left behind, written with its final status.
job_result = Table(
    "job_result",
    metadata,
    Column("job_id", BigInteger, ForeignKey("job.id", ondelete="CASCADE"), primary_key=True),
    Column("artifacts", JSONB, nullable=False, server_default=text("'{}'")),
    Column("evidence", JSONB, nullable=False, server_default=text("'{}'")),
    Column("events_total", BigInteger, nullable=False, server_default=text("0")),
    # what the playbook itself had reached when the job was canceled
    Column("playbook_outcome", Text),
)

job_host_summary = Table(
    "job_host_summary",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("job_id", BigInteger, ForeignKey("job.id", ondelete="CASCADE"), nullable=False),
    Column("host_name", Text, nullable=False),
    *(
        Column(name, Integer, nullable=False, server_default=text("0"))
        for name in ("ok", "changed", "failures", "dark", "skipped", "rescued", "ignored")
    ),
    Column("failed", Boolean, nullable=False, server_default=text("false")),
    UniqueConstraint("job_id", "host_name"),
)

#: Partitioned by the day of the **job's** creation (docs/protocols.md 5.2).
job_event = Table(
    "job_event",
    metadata,
    Column("job_day", Date, nullable=False),
    Column("job_id", BigInteger, nullable=False),
    Column("counter", BigInteger, nullable=False),
    Column("uuid", Text, nullable=False),
    Column("parent_uuid", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("created", Timestamp, nullable=False),
    Column("stdout", Text, nullable=False),
    Column("start_line", BigInteger, nullable=False),
    Column("end_line", BigInteger, nullable=False),
    Column("verbosity", SmallInteger, nullable=False),
    Column("failed", Boolean, nullable=False),
    Column("changed", Boolean, nullable=False),
    Column("host_name", Text, nullable=False),
    Column("play", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("sanitized", Boolean, nullable=False),
    Column("truncated", Boolean, nullable=False),
    Column("event_data", JSONB, nullable=False),
    PrimaryKeyConstraint("job_day", "job_id", "counter"),
    postgresql_partition_by="RANGE (job_day)",
)

job_dependency = Table(
    "job_dependency",
    metadata,
    Column("job_id", BigInteger, ForeignKey("job.id", ondelete="CASCADE"), nullable=False),
    Column("depends_on_id", BigInteger, ForeignKey("job.id", ondelete="CASCADE"), nullable=False),
    PrimaryKeyConstraint("job_id", "depends_on_id"),
    CheckConstraint("job_id <> depends_on_id", name="not_itself"),
    Index(None, "depends_on_id"),
)


#: What a job's project is, as it was at its launch; and what an update found, or a job runs.
job_project = Table(
    "job_project",
    metadata,
    Column("job_id", BigInteger, ForeignKey("job.id", ondelete="CASCADE"), primary_key=True),
    Column("scm_type", Text, nullable=False),
    Column("scm_url", Text, nullable=False, server_default=text("''")),
    Column("local_path", Text, nullable=False, server_default=text("''")),
    Column("scm_branch", Text, nullable=False, server_default=text("''")),
    Column("revision", Text, nullable=False, server_default=text("''")),
    Column("bundle_digest", Text, ForeignKey("content_bundle.digest")),
    Index(None, "bundle_digest", postgresql_where=text("bundle_digest IS NOT NULL")),
)
