"""Alembic's entry: runs inside the transaction that `carrel.storage.admin.schema_transaction` opened."""

from alembic import context

from carrel.storage.schema import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=connection.dialect.name == "sqlite")
context.run_migrations()
