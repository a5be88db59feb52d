"""What is saved to be run again: projects, inventories with hosts and groups, job templates.

The path of a job never writes to a row of these (docs/scheduling.md): what an update found is
kept with the update's own job.
"""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
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


def _named() -> list[Column[object]]:
    """Columns of everything that has a name, unique within its organization."""
    return [
        Column("id", BigInteger, Identity(), primary_key=True),
        Column("organization_id", BigInteger, ForeignKey("organization.id"), nullable=False),
        Column("name", Text, nullable=False),
        Column("description", Text, nullable=False, server_default=text("''")),
        Column("created", Timestamp, nullable=False, server_default=NOW),
        Column("modified", Timestamp, nullable=False, server_default=NOW),
    ]


project = Table(
    "project",
    metadata,
    *_named(),
    Column("scm_type", Text, nullable=False),
    Column("scm_url", Text, nullable=False, server_default=text("''")),
    Column("local_path", Text, nullable=False, server_default=text("''")),
    # branch, tag or commit; empty: the remote's default branch
    Column("scm_branch", Text, nullable=False, server_default=text("''")),
    Column("update_on_launch", Boolean, nullable=False, server_default=text("false")),
    Column("cache_timeout", Integer, nullable=False, server_default=text("0")),
    Column("timeout", Integer, nullable=False, server_default=text("600")),
    # added by a later migration: last
    Column("credential_id", BigInteger, ForeignKey("credential.id")),
    UniqueConstraint("organization_id", "name"),
    CheckConstraint(one_of("scm_type", ("git", "local")), name="scm_type_word"),
    CheckConstraint("(scm_type = 'git') = (scm_url <> '')", name="git_has_url"),
    CheckConstraint("(scm_type = 'local') = (local_path <> '')", name="local_has_path"),
    CheckConstraint("cache_timeout >= 0 AND timeout >= 0", name="seconds_range"),
)

inventory = Table(
    "inventory",
    metadata,
    *_named(),
    Column("variables", JSONB, nullable=False, server_default=text("'{}'")),
    # raised by every change of hosts, groups or addresses: host locks carry it
    Column("revision", BigInteger, nullable=False, server_default=text("0")),
    Column("host_count", Integer, nullable=False, server_default=text("0")),
    UniqueConstraint("organization_id", "name"),
    CheckConstraint("host_count >= 0", name="host_count_range"),
)

inventory_host = Table(
    "inventory_host",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column(
        "inventory_id", BigInteger, ForeignKey("inventory.id", ondelete="CASCADE"), nullable=False
    ),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False, server_default=text("''")),
    Column("enabled", Boolean, nullable=False, server_default=text("true")),
    # disabled because its source does not name it any more; enabled again when it does
    Column("gone", Boolean, nullable=False, server_default=text("false")),
    Column("variables", JSONB, nullable=False, server_default=text("'{}'")),
    # lower case, IP normalized, with the port; null: cannot be known before the run
    Column("address", Text),
    Column(
        "inventory_source_id", BigInteger, ForeignKey("inventory_source.id", ondelete="SET NULL")
    ),
    Column("created", Timestamp, nullable=False, server_default=NOW),
    Column("modified", Timestamp, nullable=False, server_default=NOW),
    UniqueConstraint("inventory_id", "name"),
    Index(None, "inventory_source_id"),
)

inventory_group = Table(
    "inventory_group",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column(
        "inventory_id", BigInteger, ForeignKey("inventory.id", ondelete="CASCADE"), nullable=False
    ),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False, server_default=text("''")),
    Column("variables", JSONB, nullable=False, server_default=text("'{}'")),
    Column(
        "inventory_source_id", BigInteger, ForeignKey("inventory_source.id", ondelete="SET NULL")
    ),
    Column("created", Timestamp, nullable=False, server_default=NOW),
    Column("modified", Timestamp, nullable=False, server_default=NOW),
    UniqueConstraint("inventory_id", "name"),
)

inventory_group_host = Table(
    "inventory_group_host",
    metadata,
    Column(
        "group_id", BigInteger, ForeignKey("inventory_group.id", ondelete="CASCADE"), nullable=False
    ),
    Column(
        "host_id", BigInteger, ForeignKey("inventory_host.id", ondelete="CASCADE"), nullable=False
    ),
    PrimaryKeyConstraint("group_id", "host_id"),
    Index(None, "host_id"),
)

inventory_group_child = Table(
    "inventory_group_child",
    metadata,
    Column(
        "parent_id",
        BigInteger,
        ForeignKey("inventory_group.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column(
        "child_id", BigInteger, ForeignKey("inventory_group.id", ondelete="CASCADE"), nullable=False
    ),
    PrimaryKeyConstraint("parent_id", "child_id"),
    CheckConstraint("parent_id <> child_id", name="not_itself"),
    Index(None, "child_id"),
)

inventory_source = Table(
    "inventory_source",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column(
        "inventory_id", BigInteger, ForeignKey("inventory.id", ondelete="CASCADE"), nullable=False
    ),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False, server_default=text("''")),
    Column("project_id", BigInteger, ForeignKey("project.id"), nullable=False),
    # file, directory, executable script or plugin configuration inside the project
    Column("path", Text, nullable=False),
    Column("update_on_launch", Boolean, nullable=False, server_default=text("false")),
    Column("cache_timeout", Integer, nullable=False, server_default=text("0")),
    Column("timeout", Integer, nullable=False, server_default=text("600")),
    # hosts that are gone from the source: kept, disabled, or removed
    Column("gone_hosts", Text, nullable=False, server_default=text("'disable'")),
    Column("created", Timestamp, nullable=False, server_default=NOW),
    Column("modified", Timestamp, nullable=False, server_default=NOW),
    Column("credential_id", BigInteger, ForeignKey("credential.id")),
    UniqueConstraint("inventory_id", "name"),
    CheckConstraint(one_of("gone_hosts", ("keep", "disable", "remove")), name="gone_hosts_word"),
    CheckConstraint("cache_timeout >= 0 AND timeout >= 0", name="seconds_range"),
)

#: Prompts that a template may allow at launch; each is a column ``ask_<name>_on_launch``.
PROMPTS = (
    "variables",
    "limit",
    "tags",
    "skip_tags",
    "job_type",
    "verbosity",
    "diff_mode",
    "inventory",
    "scm_branch",
    "forks",
    "timeout",
    "job_slice_count",
    "instance_groups",
    "priority",
    "credential",
)


def _prompts(*names: str) -> list[Column[object]]:
    return [
        Column(f"ask_{name}_on_launch", Boolean, nullable=False, server_default=text("false"))
        for name in names
    ]


job_template = Table(
    "job_template",
    metadata,
    *_named(),
    Column("project_id", BigInteger, ForeignKey("project.id")),
    Column("playbook", Text, nullable=False),
    Column("inventory_id", BigInteger, ForeignKey("inventory.id")),
    Column("limit_pattern", Text, nullable=False, server_default=text("''")),
    Column("extra_vars", JSONB, nullable=False, server_default=text("'{}'")),
    Column("tags", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("skip_tags", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("job_type", Text, nullable=False, server_default=text("'run'")),
    Column("diff_mode", Boolean, nullable=False, server_default=text("false")),
    Column("verbosity", SmallInteger, nullable=False, server_default=text("0")),
    Column("forks", Integer, nullable=False, server_default=text("0")),
    Column("timeout", Integer, nullable=False, server_default=text("0")),
    Column("scm_branch", Text, nullable=False, server_default=text("''")),
    Column("priority", Integer, nullable=False, server_default=text("0")),
    Column("job_slice_count", Integer, nullable=False, server_default=text("1")),
    Column("host_lock", Text, nullable=False, server_default=text("'none'")),
    Column("allow_simultaneous", Boolean, nullable=False, server_default=text("false")),
    Column("max_concurrent_jobs", Integer, nullable=False, server_default=text("0")),
    Column("retries_on_node_loss", Integer, nullable=False, server_default=text("0")),
    # ids of instance groups in order of preference
    Column("instance_groups", ARRAY(BigInteger), nullable=False, server_default=text("'{}'")),
    *_prompts(*PROMPTS),
    UniqueConstraint("organization_id", "name"),
    CheckConstraint(one_of("job_type", ("run", "check")), name="job_type_word"),
    CheckConstraint(one_of("host_lock", ("none", "shared", "exclusive")), name="host_lock_word"),
    CheckConstraint("job_slice_count >= 1", name="slices_range"),
    CheckConstraint(
        "forks >= 0 AND timeout >= 0 AND max_concurrent_jobs >= 0 AND retries_on_node_loss >= 0",
        name="counts_range",
    ),
)
