"""The first schema: jobs, nodes, leases, events, content, tokens."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None

NOW_FUNCTION = """
CREATE FUNCTION dispatcher_now() RETURNS timestamptz
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT clock_timestamp() $$
"""
LEASES = ("dependency", "task", "workflow", "recovery", "schedules", "beat")


def upgrade() -> None:
    op.execute(NOW_FUNCTION)
    op.create_table(
        "api_token",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("token_sha256", sa.LargeBinary(), nullable=False),
        sa.Column(
            "created",
            sa.DateTime(timezone=True),
            server_default=sa.text("dispatcher_now()"),
            nullable=False,
        ),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "octet_length(token_sha256) = 32", name=op.f("ck_api_token_digest_length")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_token")),
        sa.UniqueConstraint("token_sha256", name=op.f("uq_api_token_token_sha256")),
    )
    op.create_table(
        "change",
        sa.Column("slot", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("value", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.CheckConstraint("slot BETWEEN 0 AND 63", name=op.f("ck_change_slot_range")),
        sa.PrimaryKeyConstraint("slot", name=op.f("pk_change")),
    )
    op.create_table(
        "content_bundle",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("unpacked_size", sa.BigInteger(), nullable=False),
        sa.Column("paths", sa.ARRAY(sa.Text()), nullable=True),
        sa.Column("complete", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column(
            "created",
            sa.DateTime(timezone=True),
            server_default=sa.text("dispatcher_now()"),
            nullable=False,
        ),
        sa.Column(
            "last_used",
            sa.DateTime(timezone=True),
            server_default=sa.text("dispatcher_now()"),
            nullable=False,
        ),
        sa.CheckConstraint("digest ~ '^[0-9a-f]{64}$'", name=op.f("ck_content_bundle_digest_form")),
        sa.CheckConstraint(
            "size > 0 AND unpacked_size >= 0", name=op.f("ck_content_bundle_size_positive")
        ),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_content_bundle")),
    )
    op.create_table(
        "instance_group",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("max_concurrent_jobs", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("max_forks", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "created",
            sa.DateTime(timezone=True),
            server_default=sa.text("dispatcher_now()"),
            nullable=False,
        ),
        sa.Column(
            "modified",
            sa.DateTime(timezone=True),
            server_default=sa.text("dispatcher_now()"),
            nullable=False,
        ),
        sa.CheckConstraint(
            "max_concurrent_jobs >= 0 AND max_forks >= 0",
            name=op.f("ck_instance_group_limits_range"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_instance_group")),
        sa.UniqueConstraint("name", name=op.f("uq_instance_group_name")),
    )
    op.create_table(
        "job_event",
        sa.Column("job_day", sa.Date(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("counter", sa.BigInteger(), nullable=False),
        sa.Column("uuid", sa.Text(), nullable=False),
        sa.Column("parent_uuid", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("stdout", sa.Text(), nullable=False),
        sa.Column("start_line", sa.BigInteger(), nullable=False),
        sa.Column("end_line", sa.BigInteger(), nullable=False),
        sa.Column("verbosity", sa.SmallInteger(), nullable=False),
        sa.Column("failed", sa.Boolean(), nullable=False),
        sa.Column("changed", sa.Boolean(), nullable=False),
        sa.Column("host_name", sa.Text(), nullable=False),
        sa.Column("play", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("sanitized", sa.Boolean(), nullable=False),
        sa.Column("truncated", sa.Boolean(), nullable=False),
        sa.Column("event_data", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.PrimaryKeyConstraint("job_day", "job_id", "counter", name=op.f("pk_job_event")),
        postgresql_partition_by="RANGE (job_day)",
    )
    op.create_table(
        "manager_lease",
        sa.Column("manager", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("holder", sa.UUID(), nullable=True),
        sa.Column("host", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("boot_id", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("pid", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("pid_start", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "expires_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("dispatcher_now()"),
            nullable=False,
        ),
        sa.Column(
            "window_jobs", sa.ARRAY(sa.BigInteger()), server_default=sa.text("'{}'"), nullable=False
        ),
        sa.Column("window_kills", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "cursors",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column("done_at_change", sa.BigInteger(), nullable=True),
        sa.Column("next_due", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_pass_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("manager", name=op.f("pk_manager_lease")),
    )
    op.create_table(
        "node",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("identity", sa.UUID(), nullable=False),
        sa.Column("machine_id", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("enabled", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("draining", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("accepting", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("not_accepting_reason", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("cpus", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column("memory", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("cpu_capacity", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("mem_capacity", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("capacity_adjustment", sa.Double(), server_default=sa.text("1"), nullable=False),
        sa.Column("fixed_capacity", sa.Integer(), nullable=True),
        sa.Column("max_jobs", sa.Integer(), server_default=sa.text("200"), nullable=False),
        sa.Column("version", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column(
            "created",
            sa.DateTime(timezone=True),
            server_default=sa.text("dispatcher_now()"),
            nullable=False,
        ),
        sa.Column(
            "modified",
            sa.DateTime(timezone=True),
            server_default=sa.text("dispatcher_now()"),
            nullable=False,
        ),
        sa.Column("removed", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "accepting = (not_accepting_reason = '')", name=op.f("ck_node_reason_given")
        ),
        sa.CheckConstraint(
            "capacity_adjustment BETWEEN 0 AND 1", name=op.f("ck_node_adjustment_range")
        ),
        sa.CheckConstraint(
            "fixed_capacity IS NULL OR fixed_capacity >= 0",
            name=op.f("ck_node_fixed_capacity_range"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_node")),
    )
    op.create_index(
        "uq_node_name_present",
        "node",
        ["name"],
        unique=True,
        postgresql_where=sa.text("removed IS NULL"),
    )
    op.create_table(
        "organization",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("weight", sa.Double(), server_default=sa.text("1"), nullable=False),
        sa.Column(
            "created",
            sa.DateTime(timezone=True),
            server_default=sa.text("dispatcher_now()"),
            nullable=False,
        ),
        sa.CheckConstraint("weight > 0", name=op.f("ck_organization_weight_positive")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_organization")),
        sa.UniqueConstraint("name", name=op.f("uq_organization_name")),
    )
    op.create_table(
        "schema_info",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("min_code", sa.Integer(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_schema_info_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schema_info")),
    )
    op.create_table(
        "content_chunk",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["digest"],
            ["content_bundle.digest"],
            name=op.f("fk_content_chunk_digest"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("digest", "number", name=op.f("pk_content_chunk")),
    )
    op.create_table(
        "instance_group_node",
        sa.Column("instance_group_id", sa.BigInteger(), nullable=False),
        sa.Column("node_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["instance_group_id"],
            ["instance_group.id"],
            name=op.f("fk_instance_group_node_instance_group_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["node_id"],
            ["node.id"],
            name=op.f("fk_instance_group_node_node_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "instance_group_id", "node_id", name=op.f("pk_instance_group_node")
        ),
    )
    op.create_index(
        op.f("ix_instance_group_node_node_id"), "instance_group_node", ["node_id"], unique=False
    )
    op.create_table(
        "job",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("uuid", sa.UUID(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), server_default=sa.text("'pending'"), nullable=False),
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("launch_type", sa.Text(), server_default=sa.text("'manual'"), nullable=False),
        sa.Column("launched_by", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column(
            "created",
            sa.DateTime(timezone=True),
            server_default=sa.text("dispatcher_now()"),
            nullable=False,
        ),
        sa.Column(
            "job_day",
            sa.Date(),
            sa.Computed("(created AT TIME ZONE 'UTC')::date", persisted=True),
            nullable=False,
        ),
        sa.Column("priority", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "rank",
            sa.Double(),
            sa.Computed(
                "(EXTRACT(epoch FROM (created AT TIME ZONE 'UTC')))::double precision - 3600.0 * priority",
                persisted=True,
            ),
            nullable=False,
        ),
        sa.Column("task_impact", sa.Integer(), nullable=False),
        sa.Column("forks", sa.Integer(), server_default=sa.text("5"), nullable=False),
        sa.Column("preferred_groups", sa.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column(
            "dependencies_processed", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column("host_lock", sa.Text(), server_default=sa.text("'none'"), nullable=False),
        sa.Column("lock_keys", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("bundle_digest", sa.Text(), nullable=True),
        sa.Column("dispatch_id", sa.UUID(), nullable=True),
        sa.Column("node_id", sa.BigInteger(), nullable=True),
        sa.Column("node_epoch", sa.BigInteger(), nullable=True),
        sa.Column("instance_group_id", sa.BigInteger(), nullable=True),
        sa.Column("waiting_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("queued_on_node", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("submissions", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("submitted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("started", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "cancel_requested", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column("canceled_on", sa.DateTime(timezone=True), nullable=True),
        sa.Column("pending_reason", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("blocker", sa.Text(), nullable=True),
        sa.Column("strikes", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("quarantined_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("explanation", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("events_complete", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("retry_of", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "(finished IS NOT NULL) = (status IN ('canceled', 'error', 'failed', 'successful'))",
            name=op.f("ck_job_finished_if_final"),
        ),
        sa.CheckConstraint(
            "(outcome IS NOT NULL) = (status IN ('canceled', 'error', 'failed', 'successful'))",
            name=op.f("ck_job_outcome_if_final"),
        ),
        sa.CheckConstraint(
            "host_lock IN ('exclusive', 'none', 'shared')", name=op.f("ck_job_host_lock_word")
        ),
        sa.CheckConstraint(
            "kind <> 'approval' OR status NOT IN ('waiting', 'running')",
            name=op.f("ck_job_approval_never_runs"),
        ),
        sa.CheckConstraint(
            "kind IN ('approval', 'cleanup', 'inventory_update', 'playbook', 'project_update', 'workflow')",
            name=op.f("ck_job_kind_word"),
        ),
        sa.CheckConstraint(
            "outcome IS NULL OR (status = 'canceled' AND outcome IN ('canceled')) OR (status = 'error' AND outcome IN ('credentials', 'fenced', 'incomplete', 'internal', 'inventory', 'node_lost', 'parse_error', 'project')) OR (status = 'failed' AND outcome IN ('denied', 'dependency', 'failed_hosts', 'idle', 'no_hosts', 'refused', 'timeout', 'unreachable', 'waits_for_input', 'workflow_failed')) OR (status = 'successful' AND outcome IN ('successful'))",
            name=op.f("ck_job_outcome_fits_status"),
        ),
        sa.CheckConstraint(
            "status <> 'canceled' OR cancel_requested", name=op.f("ck_job_canceled_on_request")
        ),
        sa.CheckConstraint(
            "status <> 'pending' OR (dispatch_id IS NULL AND node_id IS NULL AND waiting_since IS NULL AND started IS NULL)",
            name=op.f("ck_job_pending_has_no_dispatch"),
        ),
        sa.CheckConstraint(
            "status <> 'running' OR (dispatch_id IS NOT NULL AND node_epoch IS NOT NULL) = (kind IN ('cleanup', 'inventory_update', 'playbook', 'project_update'))",
            name=op.f("ck_job_running_has_dispatch"),
        ),
        sa.CheckConstraint(
            "status <> 'running' OR started IS NOT NULL", name=op.f("ck_job_running_has_started")
        ),
        sa.CheckConstraint(
            "status <> 'waiting' OR (dispatch_id IS NOT NULL AND node_id IS NOT NULL AND instance_group_id IS NOT NULL AND waiting_since IS NOT NULL)",
            name=op.f("ck_job_waiting_has_dispatch"),
        ),
        sa.CheckConstraint(
            "status <> 'waiting' OR kind IN ('cleanup', 'inventory_update', 'playbook', 'project_update')",
            name=op.f("ck_job_waiting_runs_on_node"),
        ),
        sa.CheckConstraint(
            "status IN ('canceled', 'error', 'failed', 'pending', 'running', 'successful', 'waiting')",
            name=op.f("ck_job_status_word"),
        ),
        sa.CheckConstraint("retry_of <> id", name=op.f("ck_job_retry_of_other")),
        sa.CheckConstraint(
            "task_impact >= 0 AND forks >= 0 AND strikes >= 0", name=op.f("ck_job_counts_range")
        ),
        sa.ForeignKeyConstraint(
            ["bundle_digest"], ["content_bundle.digest"], name=op.f("fk_job_bundle_digest")
        ),
        sa.ForeignKeyConstraint(
            ["instance_group_id"], ["instance_group.id"], name=op.f("fk_job_instance_group_id")
        ),
        sa.ForeignKeyConstraint(["node_id"], ["node.id"], name=op.f("fk_job_node_id")),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organization.id"], name=op.f("fk_job_organization_id")
        ),
        sa.ForeignKeyConstraint(["retry_of"], ["job.id"], name=op.f("fk_job_retry_of")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job")),
        sa.UniqueConstraint("uuid", name=op.f("uq_job_uuid")),
    )
    op.create_index(
        "ix_job_active",
        "job",
        ["node_id"],
        unique=False,
        postgresql_where=sa.text("status IN ('waiting', 'running')"),
    )
    op.create_index(
        op.f("ix_job_bundle_digest"),
        "job",
        ["bundle_digest"],
        unique=False,
        postgresql_where=sa.text("bundle_digest IS NOT NULL"),
    )
    op.create_index(
        "ix_job_candidates",
        "job",
        ["organization_id", "rank", "id"],
        unique=False,
        postgresql_where=sa.text(
            "status = 'pending' AND dependencies_processed AND kind <> 'approval'"
        ),
    )
    op.create_index(
        op.f("ix_job_job_day"), "job", ["job_day"], unique=False, postgresql_using="brin"
    )
    op.create_index(
        "uq_job_retry_of",
        "job",
        ["retry_of"],
        unique=True,
        postgresql_where=sa.text("retry_of IS NOT NULL"),
    )
    op.create_index(
        "ix_job_quarantined",
        "job",
        ["quarantined_until"],
        unique=False,
        postgresql_where=sa.text("status = 'pending' AND quarantined_until IS NOT NULL"),
    )
    op.create_index(
        "ix_job_running_workflows",
        "job",
        ["id"],
        unique=False,
        postgresql_where=sa.text("status = 'running' AND kind = 'workflow'"),
    )
    op.create_index(op.f("ix_job_status_id"), "job", ["status", "id"], unique=False)
    op.create_index(
        "ix_job_unprocessed",
        "job",
        ["id"],
        unique=False,
        postgresql_where=sa.text("status = 'pending' AND NOT dependencies_processed"),
    )
    op.create_table(
        "manager_request",
        sa.Column("manager", sa.Text(), nullable=False),
        sa.Column("requested", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("served", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(
            ["manager"], ["manager_lease.manager"], name=op.f("fk_manager_request_manager")
        ),
        sa.PrimaryKeyConstraint("manager", name=op.f("pk_manager_request")),
    )
    op.create_table(
        "node_lease",
        sa.Column("node_id", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "renewed_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("dispatcher_now()"),
            nullable=False,
        ),
        sa.CheckConstraint(
            "state IN ('alive', 'left', 'lost', 'suspect')", name=op.f("ck_node_lease_state_word")
        ),
        sa.ForeignKeyConstraint(["node_id"], ["node.id"], name=op.f("fk_node_lease_node_id")),
        sa.PrimaryKeyConstraint("node_id", name=op.f("pk_node_lease")),
    )
    op.create_table(
        "node_watch",
        sa.Column("node_id", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("missed", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "ticked_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("dispatcher_now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["node_id"], ["node.id"], name=op.f("fk_node_watch_node_id")),
        sa.PrimaryKeyConstraint("node_id", name=op.f("pk_node_watch")),
    )
    op.create_table(
        "idempotency_key",
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("route", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column(
            "created",
            sa.DateTime(timezone=True),
            server_default=sa.text("dispatcher_now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["job.id"],
            name=op.f("fk_idempotency_key_job_id"),
            ondelete="CASCADE",
            initially="DEFERRED",
            deferrable=True,
        ),
        sa.PrimaryKeyConstraint("principal", "route", "key", name=op.f("pk_idempotency_key")),
    )
    op.create_index(op.f("ix_idempotency_key_job_id"), "idempotency_key", ["job_id"], unique=False)
    op.create_table(
        "job_dependency",
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("depends_on_id", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("job_id <> depends_on_id", name=op.f("ck_job_dependency_not_itself")),
        sa.ForeignKeyConstraint(
            ["depends_on_id"],
            ["job.id"],
            name=op.f("fk_job_dependency_depends_on_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name=op.f("fk_job_dependency_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "depends_on_id", name=op.f("pk_job_dependency")),
    )
    op.create_index(
        op.f("ix_job_dependency_depends_on_id"), "job_dependency", ["depends_on_id"], unique=False
    )
    op.create_table(
        "job_host_summary",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("host_name", sa.Text(), nullable=False),
        sa.Column("ok", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("changed", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("failures", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("dark", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("skipped", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("rescued", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("ignored", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("failed", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name=op.f("fk_job_host_summary_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job_host_summary")),
        sa.UniqueConstraint(
            "job_id", "host_name", name=op.f("uq_job_host_summary_job_id_host_name")
        ),
    )
    op.create_table(
        "job_input",
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("playbook", sa.Text(), nullable=False),
        sa.Column("inventory", sa.Text(), nullable=True),
        sa.Column("inventory_path", sa.Text(), nullable=True),
        sa.Column("limit_pattern", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("extra_vars", sa.JSON(), nullable=False),
        sa.Column("secret_vars", sa.LargeBinary(), nullable=True),
        sa.Column("tags", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("skip_tags", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("check_mode", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("diff_mode", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("verbosity", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("forks", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("timeout", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("idle_timeout", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("allow_no_hosts", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("max_unreachable", sa.Text(), server_default=sa.text("'0'"), nullable=False),
        sa.Column("max_failed", sa.Text(), server_default=sa.text("'0'"), nullable=False),
        sa.Column(
            "host_key_policy", sa.Text(), server_default=sa.text("'accept-new'"), nullable=False
        ),
        sa.CheckConstraint(
            "host_key_policy IN ('accept-new', 'strict')",
            name=op.f("ck_job_input_host_key_policy_word"),
        ),
        sa.CheckConstraint(
            "inventory IS NULL OR inventory_path IS NULL", name=op.f("ck_job_input_one_inventory")
        ),
        sa.CheckConstraint(
            "timeout >= 0 AND idle_timeout >= 0 AND forks >= 0",
            name=op.f("ck_job_input_counts_range"),
        ),
        sa.CheckConstraint("verbosity BETWEEN 0 AND 5", name=op.f("ck_job_input_verbosity_range")),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name=op.f("fk_job_input_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_job_input")),
    )
    op.create_table(
        "job_progress",
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("job_day", sa.Date(), nullable=False),
        sa.Column("dispatch_id", sa.UUID(), nullable=False),
        sa.Column("stored", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("spool_offset", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.CheckConstraint(
            "stored >= 0 AND spool_offset >= 0", name=op.f("ck_job_progress_counts_range")
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name=op.f("fk_job_progress_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_job_progress")),
    )
    op.create_table(
        "job_result",
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column(
            "artifacts",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column(
            "evidence",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column("events_total", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("playbook_outcome", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name=op.f("fk_job_result_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_job_result")),
    )
    op.create_table(
        "workflow_node",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("workflow_job_id", sa.BigInteger(), nullable=False),
        sa.Column("identifier", sa.Text(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=True),
        sa.Column("do_not_run", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.CheckConstraint(
            "job_id IS NULL OR NOT do_not_run", name=op.f("ck_workflow_node_run_or_not")
        ),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_workflow_node_job_id")),
        sa.ForeignKeyConstraint(
            ["workflow_job_id"],
            ["job.id"],
            name=op.f("fk_workflow_node_workflow_job_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workflow_node")),
        sa.UniqueConstraint("job_id", name=op.f("uq_workflow_node_job_id")),
        sa.UniqueConstraint(
            "workflow_job_id",
            "identifier",
            name=op.f("uq_workflow_node_workflow_job_id_identifier"),
        ),
    )
    op.create_table(
        "workflow_touch",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("workflow_job_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["workflow_job_id"],
            ["job.id"],
            name=op.f("fk_workflow_touch_workflow_job_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workflow_touch")),
    )
    op.create_index(
        op.f("ix_workflow_touch_workflow_job_id"),
        "workflow_touch",
        ["workflow_job_id"],
        unique=False,
    )
    op.execute("INSERT INTO schema_info (id, version, min_code) VALUES (1, 1, 1)")
    op.execute("INSERT INTO organization (name) VALUES ('Default')")
    op.execute("INSERT INTO instance_group (name) VALUES ('default')")
    op.execute("INSERT INTO change (slot) SELECT generate_series(0, 63)")
    for lease in LEASES:
        op.execute(f"INSERT INTO manager_lease (manager) VALUES ('{lease}')")
        op.execute(f"INSERT INTO manager_request (manager) VALUES ('{lease}')")
