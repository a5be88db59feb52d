"""Scheduling in full: projects, inventories, templates, workflows, schedules, pauses."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"

SPAWNS = "'approval', 'inventory_source', 'job_template', 'project', 'workflow_job_template'"
CHECKS = (
    (
        "job",
        "slice_range",
        "slice_count >= 1 AND slice_number >= 0 AND slice_number <= slice_count",
    ),
    ("job", "retries_range", "retries_left >= 0"),
    ("organization", "limit_range", "max_concurrent_jobs >= 0"),
    ("workflow_node", "spawns_word", f"spawns IN ({SPAWNS})"),
    ("workflow_node", "counts_range", "slice_number >= 0 AND attempt >= 0"),
    (
        "workflow_node",
        "failed_has_no_job",
        "start_failure = '' OR (job_id IS NULL AND NOT do_not_run)",
    ),
)


def upgrade() -> None:
    op.create_table(
        "manager_walk",
        sa.Column("manager", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("change", sa.BigInteger(), nullable=False),
        sa.Column("due", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["manager"], ["manager_lease.manager"], name=op.f("fk_manager_walk_manager")
        ),
        sa.PrimaryKeyConstraint("manager", name=op.f("pk_manager_walk")),
    )
    op.create_table(
        "inventory",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), server_default=sa.text("''"), nullable=False),
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
        sa.Column(
            "variables",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("host_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.CheckConstraint("host_count >= 0", name=op.f("ck_inventory_host_count_range")),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organization.id"], name=op.f("fk_inventory_organization_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_inventory")),
        sa.UniqueConstraint(
            "organization_id", "name", name=op.f("uq_inventory_organization_id_name")
        ),
    )
    op.create_table(
        "pause",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("instance_group_id", sa.BigInteger(), nullable=True),
        sa.Column("organization_id", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("created_by", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column(
            "created",
            sa.DateTime(timezone=True),
            server_default=sa.text("dispatcher_now()"),
            nullable=False,
        ),
        sa.CheckConstraint(
            "instance_group_id IS NULL OR organization_id IS NULL", name=op.f("ck_pause_one_scope")
        ),
        sa.ForeignKeyConstraint(
            ["instance_group_id"],
            ["instance_group.id"],
            name=op.f("fk_pause_instance_group_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organization.id"],
            name=op.f("fk_pause_organization_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pause")),
        sa.UniqueConstraint(
            "instance_group_id",
            "organization_id",
            name=op.f("uq_pause_instance_group_id_organization_id"),
            postgresql_nulls_not_distinct=True,
        ),
    )
    op.create_table(
        "project",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), server_default=sa.text("''"), nullable=False),
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
        sa.Column("scm_type", sa.Text(), nullable=False),
        sa.Column("scm_url", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("local_path", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("scm_branch", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column(
            "update_on_launch", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column("cache_timeout", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("timeout", sa.Integer(), server_default=sa.text("600"), nullable=False),
        sa.CheckConstraint(
            "(scm_type = 'git') = (scm_url <> '')", name=op.f("ck_project_git_has_url")
        ),
        sa.CheckConstraint(
            "(scm_type = 'local') = (local_path <> '')", name=op.f("ck_project_local_has_path")
        ),
        sa.CheckConstraint("scm_type IN ('git', 'local')", name=op.f("ck_project_scm_type_word")),
        sa.CheckConstraint(
            "cache_timeout >= 0 AND timeout >= 0", name=op.f("ck_project_seconds_range")
        ),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organization.id"], name=op.f("fk_project_organization_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_project")),
        sa.UniqueConstraint(
            "organization_id", "name", name=op.f("uq_project_organization_id_name")
        ),
    )
    op.create_table(
        "schedule",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), server_default=sa.text("''"), nullable=False),
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
        sa.Column("launches", sa.Text(), nullable=False),
        sa.Column("template_id", sa.BigInteger(), nullable=False),
        sa.Column(
            "prompts",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column("rule_kind", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("time_zone", sa.Text(), server_default=sa.text("'UTC'"), nullable=False),
        sa.Column("starts", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ends", sa.DateTime(timezone=True), nullable=True),
        sa.Column("enabled", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("misfire", sa.Text(), server_default=sa.text("'once'"), nullable=False),
        sa.Column("misfire_limit", sa.Integer(), server_default=sa.text("10"), nullable=False),
        sa.Column("next_run", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_run", sa.DateTime(timezone=True), nullable=True),
        sa.Column("disabled_reason", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.CheckConstraint(
            "disabled_reason = '' OR NOT enabled", name=op.f("ck_schedule_disabled_with_reason")
        ),
        sa.CheckConstraint(
            "launches IN ('inventory_source', 'job_template', 'project', 'workflow_job_template')",
            name=op.f("ck_schedule_launches_word"),
        ),
        sa.CheckConstraint(
            "misfire IN ('all', 'once', 'skip')", name=op.f("ck_schedule_misfire_word")
        ),
        sa.CheckConstraint(
            "rule_kind IN ('cron', 'ical')", name=op.f("ck_schedule_rule_kind_word")
        ),
        sa.CheckConstraint("misfire_limit >= 1", name=op.f("ck_schedule_misfire_limit_range")),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organization.id"], name=op.f("fk_schedule_organization_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedule")),
        sa.UniqueConstraint(
            "organization_id", "name", name=op.f("uq_schedule_organization_id_name")
        ),
    )
    op.create_index(
        "ix_schedule_due",
        "schedule",
        ["next_run"],
        unique=False,
        postgresql_where=sa.text("enabled AND next_run IS NOT NULL"),
    )
    op.create_table(
        "workflow_job_template",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), server_default=sa.text("''"), nullable=False),
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
        sa.Column(
            "extra_vars",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column(
            "prompts",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column(
            "allow_simultaneous", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column(
            "ask_variables_on_launch", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column(
            "ask_limit_on_launch", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column(
            "ask_inventory_on_launch", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organization.id"],
            name=op.f("fk_workflow_job_template_organization_id"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workflow_job_template")),
        sa.UniqueConstraint(
            "organization_id", "name", name=op.f("uq_workflow_job_template_organization_id_name")
        ),
    )
    op.create_table(
        "inventory_source",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("inventory_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("project_id", sa.BigInteger(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column(
            "update_on_launch", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column("cache_timeout", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("timeout", sa.Integer(), server_default=sa.text("600"), nullable=False),
        sa.Column("gone_hosts", sa.Text(), server_default=sa.text("'disable'"), nullable=False),
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
            "gone_hosts IN ('disable', 'keep', 'remove')",
            name=op.f("ck_inventory_source_gone_hosts_word"),
        ),
        sa.CheckConstraint(
            "cache_timeout >= 0 AND timeout >= 0", name=op.f("ck_inventory_source_seconds_range")
        ),
        sa.ForeignKeyConstraint(
            ["inventory_id"],
            ["inventory.id"],
            name=op.f("fk_inventory_source_inventory_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["project.id"], name=op.f("fk_inventory_source_project_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_inventory_source")),
        sa.UniqueConstraint(
            "inventory_id", "name", name=op.f("uq_inventory_source_inventory_id_name")
        ),
    )
    op.create_table(
        "job_template",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), server_default=sa.text("''"), nullable=False),
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
        sa.Column("project_id", sa.BigInteger(), nullable=True),
        sa.Column("playbook", sa.Text(), nullable=False),
        sa.Column("inventory_id", sa.BigInteger(), nullable=True),
        sa.Column("limit_pattern", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column(
            "extra_vars",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column("tags", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("skip_tags", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("job_type", sa.Text(), server_default=sa.text("'run'"), nullable=False),
        sa.Column("diff_mode", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("verbosity", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("forks", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("timeout", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("scm_branch", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("priority", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("job_slice_count", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("host_lock", sa.Text(), server_default=sa.text("'none'"), nullable=False),
        sa.Column(
            "allow_simultaneous", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column("max_concurrent_jobs", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "retries_on_node_loss", sa.Integer(), server_default=sa.text("0"), nullable=False
        ),
        sa.Column(
            "instance_groups",
            sa.ARRAY(sa.BigInteger()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column(
            "ask_variables_on_launch", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column(
            "ask_limit_on_launch", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column(
            "ask_tags_on_launch", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column(
            "ask_skip_tags_on_launch", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column(
            "ask_job_type_on_launch", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column(
            "ask_verbosity_on_launch", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column(
            "ask_diff_mode_on_launch", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column(
            "ask_inventory_on_launch", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column(
            "ask_scm_branch_on_launch",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
        ),
        sa.Column(
            "ask_forks_on_launch", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column(
            "ask_timeout_on_launch", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column(
            "ask_job_slice_count_on_launch",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
        ),
        sa.Column(
            "ask_instance_groups_on_launch",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
        ),
        sa.Column(
            "ask_priority_on_launch", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.CheckConstraint(
            "host_lock IN ('exclusive', 'none', 'shared')",
            name=op.f("ck_job_template_host_lock_word"),
        ),
        sa.CheckConstraint(
            "job_type IN ('check', 'run')", name=op.f("ck_job_template_job_type_word")
        ),
        sa.CheckConstraint(
            "forks >= 0 AND timeout >= 0 AND max_concurrent_jobs >= 0 AND retries_on_node_loss >= 0",
            name=op.f("ck_job_template_counts_range"),
        ),
        sa.CheckConstraint("job_slice_count >= 1", name=op.f("ck_job_template_slices_range")),
        sa.ForeignKeyConstraint(
            ["inventory_id"], ["inventory.id"], name=op.f("fk_job_template_inventory_id")
        ),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organization.id"], name=op.f("fk_job_template_organization_id")
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["project.id"], name=op.f("fk_job_template_project_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job_template")),
        sa.UniqueConstraint(
            "organization_id", "name", name=op.f("uq_job_template_organization_id_name")
        ),
    )
    op.create_table(
        "workflow_template_node",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("workflow_job_template_id", sa.BigInteger(), nullable=False),
        sa.Column("identifier", sa.Text(), nullable=False),
        sa.Column("spawns", sa.Text(), nullable=False),
        sa.Column("template_id", sa.BigInteger(), nullable=True),
        sa.Column(
            "all_parents_must_converge",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
        ),
        sa.Column(
            "prompts",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column("approval_name", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("approval_timeout", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.CheckConstraint(
            "(spawns = 'approval') = (approval_name <> '')",
            name=op.f("ck_workflow_template_node_approval_has_name"),
        ),
        sa.CheckConstraint(
            "spawns IN ('approval', 'inventory_source', 'job_template', 'project', 'workflow_job_template')",
            name=op.f("ck_workflow_template_node_spawns_word"),
        ),
        sa.CheckConstraint(
            "approval_timeout >= 0", name=op.f("ck_workflow_template_node_seconds_range")
        ),
        sa.ForeignKeyConstraint(
            ["workflow_job_template_id"],
            ["workflow_job_template.id"],
            name=op.f("fk_workflow_template_node_workflow_job_template_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workflow_template_node")),
        sa.UniqueConstraint(
            "workflow_job_template_id",
            "identifier",
            name=op.f("uq_workflow_template_node_workflow_job_template_id_identifier"),
        ),
    )
    op.create_table(
        "inventory_group",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("inventory_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column(
            "variables",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column("inventory_source_id", sa.BigInteger(), nullable=True),
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
        sa.ForeignKeyConstraint(
            ["inventory_id"],
            ["inventory.id"],
            name=op.f("fk_inventory_group_inventory_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["inventory_source_id"],
            ["inventory_source.id"],
            name=op.f("fk_inventory_group_inventory_source_id"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_inventory_group")),
        sa.UniqueConstraint(
            "inventory_id", "name", name=op.f("uq_inventory_group_inventory_id_name")
        ),
    )
    op.create_table(
        "inventory_host",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("inventory_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("enabled", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("gone", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column(
            "variables",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column("address", sa.Text(), nullable=True),
        sa.Column("inventory_source_id", sa.BigInteger(), nullable=True),
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
        sa.ForeignKeyConstraint(
            ["inventory_id"],
            ["inventory.id"],
            name=op.f("fk_inventory_host_inventory_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["inventory_source_id"],
            ["inventory_source.id"],
            name=op.f("fk_inventory_host_inventory_source_id"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_inventory_host")),
        sa.UniqueConstraint(
            "inventory_id", "name", name=op.f("uq_inventory_host_inventory_id_name")
        ),
    )
    op.create_index(
        op.f("ix_inventory_host_inventory_source_id"),
        "inventory_host",
        ["inventory_source_id"],
        unique=False,
    )
    op.create_table(
        "workflow_template_edge",
        sa.Column("parent_id", sa.BigInteger(), nullable=False),
        sa.Column("child_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "kind IN ('always', 'failure', 'success')",
            name=op.f("ck_workflow_template_edge_kind_word"),
        ),
        sa.CheckConstraint(
            "parent_id <> child_id", name=op.f("ck_workflow_template_edge_not_itself")
        ),
        sa.ForeignKeyConstraint(
            ["child_id"],
            ["workflow_template_node.id"],
            name=op.f("fk_workflow_template_edge_child_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["parent_id"],
            ["workflow_template_node.id"],
            name=op.f("fk_workflow_template_edge_parent_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "parent_id", "child_id", "kind", name=op.f("pk_workflow_template_edge")
        ),
    )
    op.create_index(
        op.f("ix_workflow_template_edge_child_id"),
        "workflow_template_edge",
        ["child_id"],
        unique=False,
    )
    op.create_table(
        "approval",
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=True),
        sa.Column("decided_by", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("timed_out", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name=op.f("fk_approval_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_approval")),
    )
    op.create_table(
        "inventory_group_child",
        sa.Column("parent_id", sa.BigInteger(), nullable=False),
        sa.Column("child_id", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "parent_id <> child_id", name=op.f("ck_inventory_group_child_not_itself")
        ),
        sa.ForeignKeyConstraint(
            ["child_id"],
            ["inventory_group.id"],
            name=op.f("fk_inventory_group_child_child_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["parent_id"],
            ["inventory_group.id"],
            name=op.f("fk_inventory_group_child_parent_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("parent_id", "child_id", name=op.f("pk_inventory_group_child")),
    )
    op.create_index(
        op.f("ix_inventory_group_child_child_id"),
        "inventory_group_child",
        ["child_id"],
        unique=False,
    )
    op.create_table(
        "inventory_group_host",
        sa.Column("group_id", sa.BigInteger(), nullable=False),
        sa.Column("host_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"],
            ["inventory_group.id"],
            name=op.f("fk_inventory_group_host_group_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["host_id"],
            ["inventory_host.id"],
            name=op.f("fk_inventory_group_host_host_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("group_id", "host_id", name=op.f("pk_inventory_group_host")),
    )
    op.create_index(
        op.f("ix_inventory_group_host_host_id"), "inventory_group_host", ["host_id"], unique=False
    )
    op.create_table(
        "job_project",
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("scm_type", sa.Text(), nullable=False),
        sa.Column("scm_url", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("local_path", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("scm_branch", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("revision", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("bundle_digest", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["bundle_digest"], ["content_bundle.digest"], name=op.f("fk_job_project_bundle_digest")
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name=op.f("fk_job_project_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_job_project")),
    )
    op.create_index(
        op.f("ix_job_project_bundle_digest"),
        "job_project",
        ["bundle_digest"],
        unique=False,
        postgresql_where=sa.text("bundle_digest IS NOT NULL"),
    )
    op.create_table(
        "schedule_launch",
        sa.Column("schedule_id", sa.BigInteger(), nullable=False),
        sa.Column("due", sa.DateTime(timezone=True), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=True),
        sa.Column(
            "launched",
            sa.DateTime(timezone=True),
            server_default=sa.text("dispatcher_now()"),
            nullable=False,
        ),
        sa.Column("error", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name=op.f("fk_schedule_launch_job_id"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(
            ["schedule_id"],
            ["schedule.id"],
            name=op.f("fk_schedule_launch_schedule_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("schedule_id", "due", name=op.f("pk_schedule_launch")),
    )
    op.create_index(op.f("ix_schedule_launch_job_id"), "schedule_launch", ["job_id"])
    op.create_table(
        "workflow_input",
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column(
            "extra_vars",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column(
            "prompts",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name=op.f("fk_workflow_input_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_workflow_input")),
    )
    op.create_table(
        "workflow_edge",
        sa.Column("parent_id", sa.BigInteger(), nullable=False),
        sa.Column("child_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "kind IN ('always', 'failure', 'success')", name=op.f("ck_workflow_edge_kind_word")
        ),
        sa.CheckConstraint("parent_id <> child_id", name=op.f("ck_workflow_edge_not_itself")),
        sa.ForeignKeyConstraint(
            ["child_id"],
            ["workflow_node.id"],
            name=op.f("fk_workflow_edge_child_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["parent_id"],
            ["workflow_node.id"],
            name=op.f("fk_workflow_edge_parent_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("parent_id", "child_id", "kind", name=op.f("pk_workflow_edge")),
    )
    op.create_index(op.f("ix_workflow_edge_child_id"), "workflow_edge", ["child_id"], unique=False)
    op.create_table(
        "workflow_spawn",
        sa.Column("workflow_node_id", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name=op.f("fk_workflow_spawn_job_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["workflow_node_id"],
            ["workflow_node.id"],
            name=op.f("fk_workflow_spawn_workflow_node_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("workflow_node_id", "attempt", name=op.f("pk_workflow_spawn")),
        sa.UniqueConstraint("job_id", name=op.f("uq_workflow_spawn_job_id")),
    )
    op.add_column(
        "job",
        sa.Column("retries_left", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
    )
    op.add_column(
        "node",
        sa.Column("adjustment_set", sa.Boolean(), server_default=sa.text("false"), nullable=False),
    )
    op.drop_constraint("fk_job_instance_group_id", "job")
    op.create_foreign_key(
        op.f("fk_job_instance_group_id"),
        "job",
        "instance_group",
        ["instance_group_id"],
        ["id"],
        ondelete="SET NULL",
    )
    op.add_column("job", sa.Column("job_template_id", sa.BigInteger(), nullable=True))
    op.add_column("job", sa.Column("workflow_job_template_id", sa.BigInteger(), nullable=True))
    op.add_column("job", sa.Column("project_id", sa.BigInteger(), nullable=True))
    op.add_column("job", sa.Column("inventory_id", sa.BigInteger(), nullable=True))
    op.add_column("job", sa.Column("inventory_source_id", sa.BigInteger(), nullable=True))
    op.add_column(
        "job",
        sa.Column(
            "allow_simultaneous", sa.Boolean(), server_default=sa.text("true"), nullable=False
        ),
    )
    op.add_column("job", sa.Column("inventory_revision", sa.BigInteger(), nullable=True))
    op.add_column("job", sa.Column("held_since", sa.DateTime(timezone=True), nullable=True))
    op.add_column(
        "job", sa.Column("slice_number", sa.Integer(), server_default=sa.text("0"), nullable=False)
    )
    op.add_column(
        "job", sa.Column("slice_count", sa.Integer(), server_default=sa.text("1"), nullable=False)
    )
    op.create_index(
        op.f("ix_job_inventory_id"),
        "job",
        ["inventory_id"],
        unique=False,
        postgresql_where=sa.text("status IN ('pending', 'waiting', 'running')"),
    )
    op.create_index(
        "ix_job_finished",
        "job",
        ["finished"],
        unique=False,
        postgresql_where=sa.text("finished IS NOT NULL"),
    )
    op.create_index(
        "ix_job_inventory_updates",
        "job",
        ["inventory_source_id", sa.literal_column("finished DESC")],
        unique=False,
        postgresql_where=sa.text("kind = 'inventory_update'"),
    )
    op.create_index(
        "ix_job_pending_approvals",
        "job",
        ["id"],
        unique=False,
        postgresql_where=sa.text("status = 'pending' AND kind = 'approval'"),
    )
    op.create_index(
        op.f("ix_job_job_template_id_id"),
        "job",
        ["job_template_id", "id"],
        unique=False,
        postgresql_where=sa.text("job_template_id IS NOT NULL"),
    )
    op.create_index(
        "ix_job_project_updates",
        "job",
        ["project_id", sa.literal_column("finished DESC")],
        unique=False,
        postgresql_where=sa.text("kind = 'project_update'"),
    )
    op.create_foreign_key(
        op.f("fk_job_workflow_job_template_id"),
        "job",
        "workflow_job_template",
        ["workflow_job_template_id"],
        ["id"],
        ondelete="SET NULL",
    )
    op.create_foreign_key(
        op.f("fk_job_inventory_source_id"),
        "job",
        "inventory_source",
        ["inventory_source_id"],
        ["id"],
        ondelete="SET NULL",
    )
    op.create_foreign_key(
        op.f("fk_job_inventory_id"),
        "job",
        "inventory",
        ["inventory_id"],
        ["id"],
        ondelete="SET NULL",
    )
    op.create_foreign_key(
        op.f("fk_job_job_template_id"),
        "job",
        "job_template",
        ["job_template_id"],
        ["id"],
        ondelete="SET NULL",
    )
    op.create_foreign_key(
        op.f("fk_job_project_id"), "job", "project", ["project_id"], ["id"], ondelete="SET NULL"
    )
    op.add_column(
        "organization",
        sa.Column("description", sa.Text(), server_default=sa.text("''"), nullable=False),
    )
    op.add_column(
        "organization",
        sa.Column("max_concurrent_jobs", sa.Integer(), server_default=sa.text("0"), nullable=False),
    )
    op.add_column(
        "organization",
        sa.Column(
            "instance_groups",
            sa.ARRAY(sa.BigInteger()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
    )
    op.add_column(
        "organization",
        sa.Column(
            "modified",
            sa.DateTime(timezone=True),
            server_default=sa.text("dispatcher_now()"),
            nullable=False,
        ),
    )
    op.add_column(
        "workflow_node",
        sa.Column("spawns", sa.Text(), server_default=sa.text("'job_template'"), nullable=False),
    )
    op.add_column("workflow_node", sa.Column("template_id", sa.BigInteger(), nullable=True))
    op.add_column(
        "workflow_node",
        sa.Column(
            "all_parents_must_converge",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
        ),
    )
    op.add_column(
        "workflow_node",
        sa.Column(
            "prompts",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
    )
    op.add_column(
        "workflow_node",
        sa.Column("approval_name", sa.Text(), server_default=sa.text("''"), nullable=False),
    )
    op.add_column(
        "workflow_node",
        sa.Column("approval_timeout", sa.Integer(), server_default=sa.text("0"), nullable=False),
    )
    op.add_column(
        "workflow_node",
        sa.Column("attempt", sa.Integer(), server_default=sa.text("0"), nullable=False),
    )
    op.add_column(
        "workflow_node",
        sa.Column("start_failure", sa.Text(), server_default=sa.text("''"), nullable=False),
    )
    op.add_column(
        "workflow_node",
        sa.Column("slice_number", sa.Integer(), server_default=sa.text("0"), nullable=False),
    )
    op.drop_constraint(op.f("uq_workflow_node_job_id"), "workflow_node")
    op.create_index(op.f("ix_workflow_node_job_id"), "workflow_node", ["job_id"], unique=False)
    op.create_table(
        "workflow_sweep",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("due", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_workflow_sweep_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workflow_sweep")),
    )
    op.create_table(
        "run_summary",
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("ok", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("failed", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("skipped", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("task", sa.Text(), nullable=True),
        sa.Column("task_metadata", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column(
            "failures",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.CheckConstraint(
            "ok >= 0 AND failed >= 0 AND skipped >= 0", name=op.f("ck_run_summary_counts_range")
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name=op.f("fk_run_summary_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_run_summary")),
    )

    for table, name, condition in CHECKS:
        op.create_check_constraint(op.f(f"ck_{table}_{name}"), table, condition)
    # code of version 1 still works: every new column has a default
    op.execute("UPDATE schema_info SET version = 2")
