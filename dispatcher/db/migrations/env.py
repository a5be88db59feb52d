"""Alembic's entry: runs on the connection that :mod:`dispatcher.db.migrate` hands over."""

from alembic import context

from dispatcher.db.tables import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    transaction_per_migration=True,
    version_table="schema_revision",
)
with context.begin_transaction():
    context.run_migrations()
