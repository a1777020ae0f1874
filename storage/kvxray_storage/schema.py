"""The schema's version: which one a database has, and the way from it to this one. Alembic without an ini file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from kvxray_engine.errors import UserError

MIGRATIONS: Final = Path(__file__).parent / "migrations"
_VERSION_TABLE: Final = "alembic_version"
_MIGRATION_LOCK: Final = 0x6B767872  # "kvxr": PostgreSQL's advisory lock while a schema is brought up to date
# Only another kvxray that brings the schema up to date holds it, and large tables take their time.
MIGRATION_WAIT_MS: Final = 120_000


def config(connection: sa.Connection | None = None) -> Config:
    """Alembic's configuration; its commands run on `connection`, inside the caller's transaction."""
    made = Config()
    made.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    made.attributes["connection"] = connection
    return made


def head() -> str:
    """The revision this kvxray knows."""
    revision = ScriptDirectory.from_config(config()).get_current_head()
    assert revision is not None, "the package holds no migrations"
    return revision


def refuse_what_is_not_ours(engine: sa.Engine, place: str) -> None:
    """Reads only. Raises UserError when a newer kvxray, or another program, made the database."""
    with engine.connect() as connection:
        tables = set(sa.inspect(connection).get_table_names())
        found = MigrationContext.configure(connection).get_current_revision() if _VERSION_TABLE in tables else None
    known = {script.revision for script in ScriptDirectory.from_config(config()).walk_revisions()}
    if found is not None and found not in known:
        raise UserError(
            f"The database at {place} was written by a newer kvxray (schema {found}; this one knows {head()}). "
            "Install that version or choose another file with KVXRAY_DATABASE_URL."
        )
    if tables and _VERSION_TABLE not in tables:
        raise UserError(
            f"The database at {place} belongs to another program (it holds the table {min(tables)}); "
            "choose another file with KVXRAY_DATABASE_URL."
        )


def upgrade(connection: sa.Connection) -> str:
    """Brings the schema up to date inside the caller's transaction, all or nothing; returns the revision."""
    if connection.dialect.name == "postgresql":
        _wait_for_others(connection)
    command.upgrade(config(connection), "head")
    return head()


def _wait_for_others(connection: sa.Connection) -> None:
    """Holds the lock of those who migrate until the transaction ends; tables are waited for no longer than ever."""
    usual = connection.execute(sa.select(sa.func.current_setting("lock_timeout"))).scalar_one()
    connection.execute(sa.select(sa.func.set_config("lock_timeout", str(MIGRATION_WAIT_MS), True)))
    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
    connection.execute(sa.select(sa.func.set_config("lock_timeout", usual, True)))


def downgrade(connection: sa.Connection, revision: str) -> None:
    """Goes back to `revision` (`base` = no tables), inside the caller's transaction."""
    command.downgrade(config(connection), revision)
