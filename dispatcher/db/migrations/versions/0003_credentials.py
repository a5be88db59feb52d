"""Credentials, and which templates, projects and jobs use them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "credential",
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
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column(
            "inputs",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column("secrets", sa.LargeBinary(), nullable=True),
        sa.CheckConstraint(
            "kind IN ('environment', 'scm', 'ssh', 'vault')", name=op.f("ck_credential_kind_word")
        ),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organization.id"], name=op.f("fk_credential_organization_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_credential")),
        sa.UniqueConstraint(
            "organization_id", "name", name=op.f("uq_credential_organization_id_name")
        ),
    )
    op.create_table(
        "job_template_credential",
        sa.Column("job_template_id", sa.BigInteger(), nullable=False),
        sa.Column("credential_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_template_id"],
            ["job_template.id"],
            name=op.f("fk_job_template_credential_job_template_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["credential_id"],
            ["credential.id"],
            name=op.f("fk_job_template_credential_credential_id"),
        ),
        sa.PrimaryKeyConstraint(
            "job_template_id", "credential_id", name=op.f("pk_job_template_credential")
        ),
    )
    op.create_index(
        op.f("ix_job_template_credential_credential_id"),
        "job_template_credential",
        ["credential_id"],
    )
    op.create_table(
        "job_credential",
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("credential_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name=op.f("fk_job_credential_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "credential_id", name=op.f("pk_job_credential")),
    )
    op.add_column("project", sa.Column("credential_id", sa.BigInteger(), nullable=True))
    op.create_foreign_key(
        op.f("fk_project_credential_id"), "project", "credential", ["credential_id"], ["id"]
    )
    op.add_column(
        "job_template",
        sa.Column(
            "ask_credential_on_launch",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
        ),
    )
    # code of version 2 would run a job without the credentials that it names: it may not go on
    op.execute("UPDATE schema_info SET version = 3, min_code = 3")
