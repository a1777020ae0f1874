"""What only a server has: users, passwords, encodings, sessions that end; each refusal is one sentence."""

from __future__ import annotations

import contextlib
import threading

import msgspec
import psycopg
import pytest
import sqlalchemy as sa
from kvxray_engine.errors import UserError
from kvxray_engine.stream.schema import Name
from kvxray_storage import history, models, schema, server_session
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog

from tests.postgres_server import PASSWORD, USER
from tests.storage.told_messages import T0_NS, Teller, a_step, descriptor, expand

WAIT_S = 60.0
OTHER_PASSWORD = "not-the-one"


@pytest.fixture
def opened(postgres_url):
    database = open_database(postgres_url)
    yield database
    database.close()


def open_epoch(log, incarnation="life-1"):
    return log.open_epoch("engine", {}, incarnation, descriptor(), T0_NS)


def refusal(url):
    with pytest.raises(UserError) as refused:
        open_database(url)
    sentence = str(refused.value)
    assert "\n" not in sentence
    assert PASSWORD not in sentence
    assert OTHER_PASSWORD not in sentence
    return sentence


@contextlib.contextmanager
def settings_of(server, database, **settings):
    """Of every session that begins meanwhile."""
    for name, value in settings.items():
        server.execute(f"ALTER DATABASE {database} SET {name} = {value}")
    try:
        yield
    finally:
        server.execute(f"ALTER DATABASE {database} RESET ALL")


# Opening


def test_a_password_is_never_shown_wherever_it_stands(postgres_server):
    place = f"127.0.0.1:{postgres_server.port}/kvxray"
    wrong = refusal(f"postgresql://{USER}:{OTHER_PASSWORD}@{place}")
    assert wrong == (
        f"The database at postgresql://{USER}:***@{place} cannot be used: the password is wrong; "
        "correct KVXRAY_DATABASE_URL."
    )
    assert "the password is wrong" in refusal(f"postgresql://{USER}@{place}?password={OTHER_PASSWORD}")
    assert "the password is wrong" in refusal(f"postgresql://nobody-here:{OTHER_PASSWORD}@{place}")


def test_a_password_that_is_missing_is_asked_for(postgres_server):
    assert "needs a password; write it into" in refusal(f"postgresql://{USER}@127.0.0.1:{postgres_server.port}/kvxray")


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("127.0.0.1:1/kvxray", "the server does not answer; start it or correct KVXRAY_DATABASE_URL"),
        ("no-such-host.invalid/kvxray", "there is no such host; correct KVXRAY_DATABASE_URL"),
    ],
)
def test_a_server_that_is_not_there_is_said(place, reason):
    assert refusal(f"postgresql://{USER}@{place}") == (
        f"The database at postgresql://{USER}@{place} cannot be used: {reason}."
    )


def test_a_database_that_is_not_there_is_said(postgres_server):
    assert "it does not exist; create it or correct" in refusal(postgres_server.url("no_such_database"))


def test_an_encoding_that_cannot_hold_every_text_is_refused_and_the_database_not_touched(postgres_server):
    url = postgres_server.create_database("latin", "ENCODING 'LATIN1' TEMPLATE template0")
    assert "has the encoding LATIN1, which cannot hold every text" in refusal(url)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)


def test_somebody_who_may_not_make_tables_is_told_so(postgres_server, postgres_url):
    postgres_server.execute(f"CREATE ROLE guest LOGIN PASSWORD '{OTHER_PASSWORD}'")
    url = sa.make_url(postgres_url).set(username="guest", password=OTHER_PASSWORD).render_as_string(hide_password=False)
    assert "this user may make no tables there; grant it CREATE on a schema" in refusal(url)
    postgres_server.execute("GRANT USAGE ON SCHEMA public TO guest", "kvxray")
    assert "access is denied; grant it" in refusal(url)


def test_a_database_that_only_answers_questions_is_said(postgres_server, postgres_url):
    with settings_of(postgres_server, "kvxray", default_transaction_read_only="on"):
        assert "it is not writable; change its permissions" in refusal(postgres_url)


def test_a_server_without_connections_left_is_said(postgres_server, postgres_url):
    postgres_server.execute("ALTER DATABASE kvxray CONNECTION LIMIT 0")
    postgres_server.execute(f"CREATE ROLE plain LOGIN PASSWORD '{OTHER_PASSWORD}'")
    try:
        url = sa.make_url(postgres_url).set(username="plain", password=OTHER_PASSWORD)
        assert "the server has no connection left" in refusal(url.render_as_string(hide_password=False))
    finally:
        postgres_server.execute("ALTER DATABASE kvxray CONNECTION LIMIT -1")


def test_a_newer_schema_is_refused_and_nothing_in_it_touched(postgres_server, postgres_url):
    open_database(postgres_url).close()
    postgres_server.execute("UPDATE alembic_version SET version_num = '9999'", "kvxray")
    sentence = refusal(postgres_url)
    assert f"was written by a newer kvxray (schema 9999; this one knows {schema.head()})" in sentence
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == ("9999",)


def test_a_database_of_another_program_is_refused_and_not_touched(postgres_server, postgres_url):
    postgres_server.execute("CREATE TABLE accounts (a int)", "kvxray")
    assert "belongs to another program (it holds the table accounts)" in refusal(postgres_url)
    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    assert tables == [("accounts",)]


def test_several_that_open_a_new_database_at_once_make_its_tables_once(postgres_url):
    keys, errors = [], []

    def start():
        try:
            database = open_database(postgres_url)
            keys.append(database.stored_digest_key)
            database.close()
        except UserError as error:
            errors.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(keys) == 4
    assert len(set(keys)) == 1


def test_a_schema_that_another_is_bringing_up_to_date_is_waited_for_longer_than_a_table(postgres_url, monkeypatch):
    monkeypatch.setattr(server_session, "LOCK_TIMEOUT_MS", 100)
    with psycopg.connect(postgres_url) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (schema._MIGRATION_LOCK,))
        release = threading.Timer(0.5, other.commit)
        release.start()
        database = open_database(postgres_url)
        release.join()
    with database.reading() as connection:
        assert connection.exec_driver_sql("SHOW lock_timeout").scalar() == "100ms"
    database.close()


# Writing


def test_a_commit_is_durable_even_where_the_server_is_set_to_forget(opened):
    with opened.reading() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"


def test_a_stronger_promise_of_the_server_stays(postgres_server, postgres_url):
    with settings_of(postgres_server, "kvxray", synchronous_commit="remote_apply"):
        database = open_database(postgres_url)
        with database.reading() as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "remote_apply"
        database.close()


def test_readers_cannot_write(opened):
    with opened.reading() as connection, pytest.raises(sa.exc.DBAPIError, match="read-only transaction"):
        connection.exec_driver_sql("DELETE FROM setting")


def test_as_many_readers_as_the_api_has_threads_do_not_keep_the_writer_waiting(opened):
    teller = Teller()
    with EventLog(opened, chunk_seconds=0.01) as log, contextlib.ExitStack() as readers:
        key = open_epoch(log)
        for _ in range(40):
            readers.enter_context(opened.reading()).exec_driver_sql("SELECT count(*) FROM chunk")
        assert log.append(key, teller.tell_step())
        assert log.flush(WAIT_S)


def test_a_table_that_somebody_locks_is_said_and_waited_for(opened, postgres_url, monkeypatch):
    monkeypatch.setattr("kvxray_storage.server_session.LOCK_TIMEOUT_MS", 50)
    opened.engine.dispose()
    teller = Teller()
    with EventLog(opened, chunk_seconds=0.01) as log, psycopg.connect(postgres_url) as other:
        key = open_epoch(log)
        other.execute("LOCK TABLE chunk IN ACCESS EXCLUSIVE MODE")
        message = teller.tell_step()
        assert log.append(key, message)
        with log._changed:
            assert log._changed.wait_for(lambda: log._writer.failed is not None, WAIT_S)
        assert "another program keeps it locked" in log.failed
        other.rollback()
        assert log.flush(WAIT_S)
        assert log.failed is None
    assert history.events(opened, key, 0, 10) == expand([message], teller.names)


def test_texts_from_outside_that_postgresql_does_not_take_do_not_stop_the_log(opened, make_finding):
    teller = Teller(incarnation="li\0fe")
    with EventLog(opened, chunk_seconds=0.01) as log:
        key = log.open_epoch("engine", {"mo\0del": "\0"}, "li\0fe", descriptor(), T0_NS)
        assert log.append(key, teller.tell(a_step(1, 0, 1), names=[Name("re\0quest", tenant="\0")]))
        assert log.finding(
            make_finding(id="le\0ak", sentence="Held by re\0quest.", subjects={"requests": ["re\0quest"]})
        )
        assert log.flush(WAIT_S), log.failed
        assert open_epoch(log, "li\0fe") == key
    with EventLog(opened) as log:
        assert open_epoch(log, "li\0fe") == key
    assert {row.request_id for row in history.events(opened, key, 0, 10)} == {"re\ufffdquest", None}
    [stored] = history.findings(opened, None)
    assert stored.sentence == "Held by re\ufffdquest."


def test_ids_of_requests_are_stored_as_they_are_whatever_an_array_would_make_of_them(opened):
    ids = ["", "NULL", "a,b", "{c}", 'd"e', "f\\g", '\\"', " h ", "i\nj", "é\U0001f600", "'k'", "%s"]
    with EventLog(opened, chunk_seconds=0.01) as log:
        key = open_epoch(log)
        assert log.append(key, Teller().tell(a_step(1, 0, 1), names=[Name(id, tenant='t"\\') for id in ids]))
        assert log.flush(WAIT_S), log.failed
    with opened.reading() as connection:
        stored = connection.execute(sa.select(models.name.c.id).order_by(models.name.c.ordinal)).scalars().all()
        details = set(connection.execute(sa.select(models.name.c.detail)).scalars())
    assert stored == ids
    assert {msgspec.json.decode(detail)["tenant"] for detail in details} == {'t"\\'}


def test_what_is_compressed_already_is_not_compressed_again_and_a_way_back_is_there(opened):
    how = sa.text(
        "SELECT c.relname || '.' || a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
        " WHERE c.relname IN ('chunk', 'keyframe') AND c.relkind = 'r' AND a.attstorage = 'e'"
    )
    packed = {"chunk.bits", "chunk.hash_bits", "chunk.data", "keyframe.rollup", "keyframe.state"}
    with opened.writing() as connection:
        assert set(connection.execute(how).scalars()) == packed
        schema.downgrade(connection, "0004")
        assert set(connection.execute(how).scalars()) == set()
        schema.upgrade(connection)
        assert set(connection.execute(how).scalars()) == packed
