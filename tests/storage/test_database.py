"""Opening a database: what is made, what is refused, and that the schema goes up and down with data in it."""

from __future__ import annotations

import random
import sqlite3

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from kvxray_engine.errors import UserError
from kvxray_storage import models, schema
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog
from sqlalchemy.dialects import postgresql


def url_of(path):
    return f"sqlite:///{path}"


def test_a_new_database_is_made_with_its_folder(tmp_path):
    path = tmp_path / "some" / "where" / "kvxray.db"
    database = open_database(url_of(path))
    assert path.exists()
    assert database.url_scheme == "sqlite"
    assert database.path == path
    assert database.schema_revision == schema.head()
    database.check_integrity()
    database.close()


def test_connections_wait_for_a_lock_keep_references_and_survive_a_loss_of_power(sqlite_database):
    with sqlite_database.reading() as connection:
        ask = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in
               ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")}  # fmt: skip
    assert ask == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 5000}


def test_the_migrations_make_exactly_the_tables_of_the_code(database):
    with database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, models.metadata) == []


def test_the_tables_are_valid_on_postgresql_too():
    for table in models.metadata.sorted_tables:
        statement = str(sa.schema.CreateTable(table).compile(dialect=postgresql.dialect()))
        assert "BLOB" not in statement
    assert "data BYTEA NOT NULL" in str(sa.schema.CreateTable(models.chunk).compile(dialect=postgresql.dialect()))


def test_going_down_and_up_again_keeps_the_file_sound(database):
    with database.writing() as connection:
        connection.execute(models.source.insert().values(source_id=1, name="engine", labels="{}", created_ns=1))
    with database.writing() as connection:
        schema.downgrade(connection, "base")
    with database.reading() as connection:
        assert sa.inspect(connection).get_table_names() == ["alembic_version"]
    with database.writing() as connection:
        schema.upgrade(connection)
        assert connection.execute(sa.select(models.source)).all() == []
    database.check_integrity()


def test_opening_again_keeps_what_is_stored(database_url):
    first = open_database(database_url)
    with first.writing() as connection:
        connection.execute(models.source.insert().values(source_id=1, name="engine", labels="{}", created_ns=1))
    first.close()
    second = open_database(database_url)
    with second.reading() as connection:
        assert connection.execute(sa.select(models.source.c.name)).scalars().all() == ["engine"]
    assert second.stored_digest_key == first.stored_digest_key
    second.close()


def test_a_failed_transaction_leaves_nothing(database):
    def fail():
        with database.writing() as connection:
            connection.execute(models.source.insert().values(source_id=1, name="engine", labels="{}", created_ns=1))
            connection.exec_driver_sql("CREATE TABLE half (a INTEGER)")
            raise RuntimeError("stopped half-way")

    with pytest.raises(RuntimeError):
        fail()
    with database.reading() as connection:
        assert connection.execute(sa.select(models.source)).all() == []
        assert "half" not in sa.inspect(connection).get_table_names()


def test_the_digest_key_is_made_once_and_can_be_overridden(database, monkeypatch):
    assert len(database.digest_key()) == 32
    assert database.digest_key() == database.stored_digest_key
    monkeypatch.setenv("KVXRAY_DIGEST_KEY", "one key for the fleet")
    assert database.digest_key() == b"one key for the fleet"


def test_a_newer_schema_is_refused_and_nothing_in_it_touched(tmp_path):
    path = tmp_path / "kvxray.db"
    open_database(url_of(path)).close()
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '0042'")
        raw.execute("CREATE TABLE of_the_future (a)")
    raw.close()
    before = path.read_bytes()
    with pytest.raises(UserError) as refusal:
        open_database(url_of(path))
    assert str(refusal.value) == (
        f"The database at {path} was written by a newer kvxray (schema 0042; this one knows {schema.head()}). "
        "Install that version or choose another file with KVXRAY_DATABASE_URL."
    )
    assert path.read_bytes() == before


def test_a_database_of_another_program_is_refused_and_not_touched(tmp_path):
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE accounts (a)")
    raw.close()
    before = path.read_bytes()
    with pytest.raises(UserError, match="belongs to another program .*accounts.* KVXRAY_DATABASE_URL"):
        open_database(url_of(path))
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("milk, eggs, bread\n" * 100)
    with pytest.raises(UserError, match="not a database; choose another file with KVXRAY_DATABASE_URL"):
        open_database(url_of(path))
    assert path.read_text().startswith("milk")


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="folder .* cannot be made"):
        open_database(url_of(tmp_path / "file" / "kvxray.db"))


def test_a_place_without_write_permission_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("kvxray_storage.database.os.access", lambda *_: False)
    with pytest.raises(UserError, match="is not writable; change that or choose another file"):
        open_database(url_of(tmp_path / "kvxray.db"))


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("nonsense", "is not the address of a database"),
        ("mysql://host/db", "SQLite or PostgreSQL, not in mysql"),
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
        ("postgresql+foo://x", "cannot use the driver 'foo'; write KVXRAY_DATABASE_URL as postgresql://"),
        ("postgresql+asyncpg://x", "cannot use the driver 'asyncpg'; write KVXRAY_DATABASE_URL as postgresql://"),
        ("postgresql://host:port/db", "is not the address of a database"),
        ("sqlite+aiosqlite:////nowhere/x.db", "Python's own driver, not with sqlite.aiosqlite; .* sqlite:///PATH"),
        ("sqlite+pysqlcipher:////nowhere/x.db", "Python's own driver, not with sqlite.pysqlcipher"),
        ("sqlite:///~no-such-user/x.db", "names a home folder that is not there"),
    ],
)
def test_an_address_that_cannot_work_is_refused_in_one_sentence(url, sentence):
    with pytest.raises(UserError, match=sentence) as refusal:
        open_database(url)
    assert "\n" not in str(refusal.value)


def test_a_folder_in_place_of_the_file_is_refused(tmp_path):
    with pytest.raises(UserError, match="is a folder, not a database"):
        open_database(url_of(tmp_path))


def test_an_option_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"An option in KVXRAY_DATABASE_URL cannot be read \(.*abc.*\); correct it\.$"):
        open_database(url_of(tmp_path / "kvxray.db") + "?timeout=abc")


class FullDisk(sqlite3.Connection):
    """Lets nothing be written: the file may not grow by a page."""

    def cursor(self, *arguments):
        self.execute("PRAGMA max_page_count=1")
        return super().cursor(*arguments)


class NoWal(sqlite3.Cursor):
    def execute(self, statement, *arguments):
        if "journal_mode" in statement:
            raise sqlite3.OperationalError("database or disk is full")
        return super().execute(statement, *arguments)


class NoRoomForWal(sqlite3.Connection):
    """The disk is full before the mode is written."""

    def cursor(self, *_):
        return super().cursor(NoWal)


@pytest.mark.parametrize("connection", [FullDisk, NoRoomForWal])
def test_a_full_disk_at_the_start_is_said_in_one_sentence(tmp_path, monkeypatch, connection):
    path = tmp_path / "kvxray.db"
    connect = sqlite3.dbapi2.connect
    monkeypatch.setattr(
        "sqlite3.dbapi2.connect", lambda *given, **named: connect(*given, **{**named, "factory": connection})
    )
    with pytest.raises(UserError) as refusal:
        open_database(url_of(path))
    assert str(refusal.value) == f"The database at {path} cannot be used: the disk is full; free some space."


@pytest.mark.parametrize("seed", range(20))
def test_a_database_whose_pages_were_scrambled_opens_or_is_refused_in_one_sentence(tmp_path, seed):
    path = tmp_path / "kvxray.db"
    open_database(url_of(path)).close()
    content = bytearray(path.read_bytes())
    chance = random.Random(seed)
    for _ in range(400):
        # The header stays: without it the file would be no database at all.
        content[chance.randrange(100, len(content))] = chance.randrange(256)
    path.write_bytes(content)
    try:
        database = open_database(url_of(path))
        try:
            EventLog(database).close()
        finally:
            database.close()
    except UserError as refusal:
        assert str(path) in str(refusal)
        assert "\n" not in str(refusal)


def test_text_that_cannot_be_decoded_is_said_to_be_damage(tmp_path):
    path = tmp_path / "kvxray.db"
    open_database(url_of(path)).close()
    content = path.read_bytes()
    path.write_bytes(content.replace(b"CREATE TABLE", b"\xff\xfeEATE TABLE"))
    with pytest.raises(UserError, match="is damaged; choose another file with KVXRAY_DATABASE_URL or restore a copy"):
        open_database(url_of(path))


def test_postgresql_is_opened_with_the_driver_that_kvxray_brings(monkeypatch):
    asked = []

    def create(address, **_):
        asked.append(address.drivername)
        raise ModuleNotFoundError("no module named psycopg")

    monkeypatch.setattr("kvxray_storage.database.sa.create_engine", create)
    for url in ("postgresql://host/db", "postgresql+psycopg://host/db"):
        with pytest.raises(UserError, match=r"needs a driver that is not installed: pip install 'kvxray\[postgres\]'"):
            open_database(url)
    assert asked == ["postgresql+psycopg"] * 2


def test_a_column_that_is_lost_is_said_at_the_start(tmp_path):
    path = tmp_path / "kvxray.db"
    open_database(url_of(path)).close()
    path.write_bytes(path.read_bytes().replace(b"ended_ns", b"ended_xx"))
    with pytest.raises(UserError, match=r"cannot be used: it is damaged; choose another file") as refusal:
        open_database(url_of(path))
    assert "\n" not in str(refusal.value)
