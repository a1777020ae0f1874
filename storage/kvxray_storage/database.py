"""Opens the database of the event log: folder, connection settings, schema. Knows nothing of what the tables mean.

SQLite runs in WAL mode, so that readers never wait for the writer, and with `synchronous=FULL`: what a commit has
answered survives a loss of power. What PostgreSQL needs for the same stands in `server_session`. A database that a
newer kvxray wrote, or that another program's tables live in, is refused before anything in it is touched.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from alembic.util import CommandError
from kvxray_engine.errors import UserError
from sqlalchemy.engine.interfaces import DBAPIConnection

from kvxray_storage import schema, server_session
from kvxray_storage.models import metadata, setting
from kvxray_storage.refusals import why_not_opened
from kvxray_storage.row_sums import summed

BUSY_TIMEOUT_S: Final = 5.0
DIGEST_KEY_VARIABLE: Final = "KVXRAY_DIGEST_KEY"
_DIGEST_KEY: Final = "digest_key"
_WRITES: Final = "kvxray_writes"
_POSTGRES_DRIVER: Final = "postgresql+psycopg"
_SQLITE_DRIVERS: Final = ("sqlite", "sqlite+pysqlite")
OPENING_ERRORS: Final = (sa.exc.SQLAlchemyError, CommandError, sqlite3.Error, OSError, ValueError)
"""What a full disk, a damaged file or a server may raise while the database is opened. Settings of a connection go
past SQLAlchemy, so that the driver's own errors come too; damaged text cannot be decoded, which is a ValueError."""


@dataclass(frozen=True, slots=True, eq=False)
class Database:
    """An open database of the current schema. `engine` gives connections; `place` is how sentences name it."""

    engine: sa.Engine
    place: str
    schema_revision: str
    stored_digest_key: bytes

    @property
    def url_scheme(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.engine.dialect.name

    @property
    def path(self) -> Path | None:
        """The file, on SQLite."""
        name = self.engine.url.database
        return Path(name) if self.url_scheme == "sqlite" and name else None

    def digest_key(self) -> bytes:
        """The key of the digests that stand for salts, sessions and tenants.

        KVXRAY_DIGEST_KEY when it is set, else the database's own, made once.
        """
        given = os.environ.get(DIGEST_KEY_VARIABLE, "")
        return given.encode() if given else self.stored_digest_key

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A short connection that sees one moment of the database and never waits for the writer."""
        options = server_session.ONE_MOMENT if self.url_scheme == "postgresql" else {}
        with self.engine.connect().execution_options(**options) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """One transaction: committed at the end, undone when anything is raised."""
        with _writing(self.engine) as connection:
            yield connection

    def check_integrity(self) -> None:
        """SQLite's own check of structure and references: reads everything, raises AssertionError."""
        if self.url_scheme != "sqlite":
            return
        with self.reading() as connection:
            verdict = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
            assert verdict == ["ok"], f"the database is damaged: {verdict[:3]}"
            orphans = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
            assert not orphans, f"rows refer to an epoch that is not there: {orphans[:3]}"

    def close(self) -> None:
        self.engine.dispose()


def open_database(url: str) -> Database:
    """Opens `sqlite:///PATH` or `postgresql://…`, creating the folder and bringing the schema up to date.

    Raises UserError with one sentence: not an address, not a database, not writable, or written by a newer kvxray.
    """
    address = _parse(url)
    place = _place(address)
    engine = _engine(address, place)
    try:
        schema.refuse_what_is_not_ours(engine, place)
        if engine.dialect.name == "sqlite":
            _switch_to_wal(engine)
        else:
            server_session.refuse_other_encodings(engine, place)
        with _writing(engine) as connection:
            revision = schema.upgrade(connection)
            _read_a_row_of_each(connection)
            digest_key = _stored_digest_key(connection)
    except UserError:
        engine.dispose()
        raise
    except OPENING_ERRORS as error:
        engine.dispose()
        raise UserError(why_not_opened(place, error)) from error
    return Database(engine, place, revision, digest_key)


def _parse(url: str) -> sa.URL:
    try:
        address = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError) as error:
        raise UserError(
            f"{url!r} is not the address of a database; KVXRAY_DATABASE_URL takes sqlite:///PATH or postgresql://…."
        ) from error
    backend = address.get_backend_name()
    if backend not in ("sqlite", "postgresql"):
        raise UserError(
            f"kvxray keeps its events in SQLite or PostgreSQL, not in {backend}; change KVXRAY_DATABASE_URL."
        )
    if backend == "postgresql":
        # SQLAlchemy would take psycopg2, where none is named; kvxray[postgres] brings its successor.
        return address.set(drivername=_POSTGRES_DRIVER) if address.drivername == "postgresql" else address
    if address.drivername not in _SQLITE_DRIVERS:
        raise UserError(
            f"kvxray opens SQLite with Python's own driver, not with {address.drivername}; "
            "write KVXRAY_DATABASE_URL as sqlite:///PATH."
        )
    if address.database in (None, "", ":memory:"):
        raise UserError("The event log needs a file: set KVXRAY_DATABASE_URL to sqlite:///PATH.")
    return address.set(database=str(_prepare_file(Path(str(address.database)))))


def _place(address: sa.URL) -> str:
    """How sentences name it: without the password, which may also stand among the options."""
    if address.get_backend_name() == "sqlite":
        return str(address.database)
    return address.set(drivername="postgresql", query={}).render_as_string()


def _prepare_file(path: Path) -> Path:
    """Makes the folder; refuses what cannot be a database file."""
    try:
        path = path.expanduser()
    except RuntimeError as error:
        raise UserError(f"{path} names a home folder that is not there; correct KVXRAY_DATABASE_URL.") from error
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"The folder {path.parent} for the database cannot be made ({error.strerror}); "
            "choose another file with KVXRAY_DATABASE_URL."
        ) from error
    if path.is_dir():
        raise UserError(f"{path} is a folder, not a database; choose a file with KVXRAY_DATABASE_URL.")
    target = path if path.exists() else path.parent
    if not os.access(target, os.W_OK):
        raise UserError(f"{target} is not writable; change that or choose another file with KVXRAY_DATABASE_URL.")
    return path


def _engine(address: sa.URL, place: str) -> sa.Engine:
    try:
        if address.get_backend_name() == "postgresql":
            engine = sa.create_engine(address, **server_session.engine_options(address))
        else:
            engine = sa.create_engine(address, connect_args={"timeout": BUSY_TIMEOUT_S})
        # The options after the question mark are read only now; a bad one is to be named before anything is opened.
        engine.dialect.create_connect_args(address)
    except ImportError as error:
        if address.drivername != _POSTGRES_DRIVER:
            raise UserError(_unknown_driver(address)) from error
        raise UserError(f"{place} needs a driver that is not installed: pip install 'kvxray[postgres]'.") from error
    except sa.exc.NoSuchModuleError as error:
        raise UserError(_unknown_driver(address)) from error
    except (sa.exc.ArgumentError, TypeError, ValueError) as error:
        raise UserError(f"An option in KVXRAY_DATABASE_URL cannot be read ({error}); correct it.") from error
    if engine.dialect.is_async:
        raise UserError(_unknown_driver(address))
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _set_up_connection)
        sa.event.listen(engine, "begin", _begin)
    else:
        sa.event.listen(engine, "connect", server_session.set_up)
    return engine


def _unknown_driver(address: sa.URL) -> str:
    driver = address.drivername.partition("+")[2]
    return f"kvxray cannot use the driver {driver!r}; write KVXRAY_DATABASE_URL as postgresql://…."


def _set_up_connection(connection: DBAPIConnection, _: object) -> None:
    """Settings that SQLite keeps per connection. The driver's own implicit transactions are off: they begin late, after
    DDL, and would leave half a migration behind."""
    connection.isolation_level = None
    pragmas = connection.cursor()
    pragmas.execute("PRAGMA synchronous=FULL")
    pragmas.execute("PRAGMA foreign_keys=ON")
    pragmas.close()


def _begin(connection: sa.Connection) -> None:
    """Writers take the write lock at once: two that upgrade a read lock can only fail, waiting would not help them."""
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _switch_to_wal(engine: sa.Engine) -> None:
    """The mode stays in the file. It cannot be set inside a transaction, so this goes past SQLAlchemy's."""
    raw = engine.raw_connection()
    try:
        raw.cursor().execute("PRAGMA journal_mode=WAL")
    finally:
        raw.close()


@contextmanager
def _writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    with engine.connect().execution_options(**{_WRITES: True}) as connection, connection.begin():
        yield connection


def _read_a_row_of_each(connection: sa.Connection) -> None:
    """A damaged schema shows here, where it is told, and not in the first question that is asked later."""
    for table in metadata.sorted_tables:
        connection.execute(sa.select(table).limit(1)).all()


def _stored_digest_key(connection: sa.Connection) -> bytes:
    query = sa.select(setting.c.value).where(setting.c.name == _DIGEST_KEY)
    stored = connection.execute(query).scalar()
    if stored is None:
        stored = secrets.token_bytes(32)
        connection.execute(setting.insert().values(summed(setting, {"name": _DIGEST_KEY, "value": stored})))
    return bytes(stored)
