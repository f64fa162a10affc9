"""Alembic's entry point. The caller (`jobmanager.store.schema`) hands over a connection."""

from alembic import context

from jobmanager.store.tables import Table

connection = context.config.attributes["connection"]
context.configure(
    connection=connection, target_metadata=Table.metadata, transaction_per_migration=True
)
with context.begin_transaction():
    context.run_migrations()
