"""Alembic runs this file for each command. It needs the caller's connection, and stays inside the caller's transaction.

A new revision: `alembic.command.revision(config(connection), "what changes", autogenerate=True, rev_id="000N")`.
"""

from __future__ import annotations

from alembic import context

from kvxray_storage.models import metadata

connection = context.config.attributes["connection"]
assert connection is not None, "migrations run on a connection: use kvxray_storage.schema"

# SQLite cannot alter most things in place: batch mode copies the table instead.
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
context.run_migrations()
