"""Credentials of inventory sources."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("inventory_source", sa.Column("credential_id", sa.BigInteger(), nullable=True))
    op.create_foreign_key(
        op.f("fk_inventory_source_credential_id"),
        "inventory_source",
        "credential",
        ["credential_id"],
        ["id"],
    )
    # code of version 3 would list hosts without the credential: fewer of them, and disable the rest
    op.execute("UPDATE schema_info SET version = 4, min_code = 4")
