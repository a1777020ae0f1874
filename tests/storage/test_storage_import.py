"""Imports beside what is there, and those that do not come to their end."""

from __future__ import annotations

import multiprocessing
import signal
import sqlite3
import sys
import types

import msgspec
import pytest
import sqlalchemy as sa
from kvxray_engine.errors import UserError
from kvxray_storage import history, models
from kvxray_storage.bookmarks import add_bookmark, bookmarks
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog
from kvxray_storage.exchange import kvx_import
from kvxray_storage.exchange.kvx_export import export_kvx
from kvxray_storage.storage_stats import stats
from kvxray_storage.time_travel import state_at

from benchmarks.measuring.model_engine import ModelEngine
from tests.storage.import_writer import import_and_be_killed
from tests.storage.kvx_files import NOW_NS, import_into, stretch_of
from tests.storage.made_up_history import MadeUpHistory
from tests.storage.outages import SmallDisk

WAIT_S = 60.0


@pytest.fixture
def filled(database, make_finding):
    """(database, what lived in it): one epoch with two findings and two bookmarks."""
    made = MadeUpHistory(ModelEngine(48, rows=24, seed=3))
    made.snapshot()
    made.steps(30)
    with EventLog(database, chunk_events=100) as log:
        key = made.store(log)
        for holder in (3, 4):
            assert log.finding(make_finding(id=f"leak:engine:{key.epoch}:{holder}", epoch=key.epoch))
    for seq in (20, 40):
        add_bookmark(database, "engine", key.epoch, seq, NOW_NS + seq, f"look at {seq}", NOW_NS)
    return database, made


@pytest.fixture
def file(filled, tmp_path):
    database, _ = filled
    [epoch] = history.epochs(database, "engine")
    export_kvx(database, [stretch_of(database, epoch.key)], tmp_path / "all.kvx", NOW_NS)
    return tmp_path / "all.kvx"


def noted(database, source):
    """Findings and bookmarks, less what they are called."""
    found = [msgspec.to_builtins(one) for one in (*history.findings(database, source), *bookmarks(database, source, 9))]
    return [{name: value for name, value in one.items() if name not in ("id", "source")} for one in found]


def ids(database):
    with database.reading() as connection:
        return {
            table.name: {row.id: row.source for row in connection.execute(sa.select(table.c.id, table.c.source))}
            for table in (models.finding, models.bookmark)
        }


def test_findings_and_bookmarks_come_along_beside_the_original(filled, file):
    database, _ = filled
    for name in ("copy", "copy-2"):
        import_into(database, file, name=name)
        assert noted(database, name) == noted(database, "engine")
        assert len(noted(database, name)) == 4
    assert {row.source for row in history.findings(database, None)} == {"engine", "copy", "copy-2"}
    assert {f"leak:{name}:1:{holder}" for name in ("engine", "copy", "copy-2") for holder in (3, 4)} == set(
        ids(database)["finding"]
    )
    assert all(len(one) == 32 for one in ids(database)["bookmark"])


def test_the_same_file_gives_the_same_findings_and_bookmarks_again(filled, file):
    database, _ = filled
    import_into(database, file, name="copy")
    before = ids(database)
    # As if the import had been killed when all of it was stored.
    mark_unfinished(database, "copy")
    import_into(database, file, name="copy")
    assert ids(database) == before


def test_an_id_that_something_else_has_is_no_reason_to_drop_what_the_file_holds(filled, file, make_database_url):
    database, _ = filled
    other = open_database(make_database_url())
    import_into(other, file, name="engine")
    assert ids(other) == ids(database)
    with other.writing() as connection:
        for table in (models.finding, models.bookmark):
            connection.execute(sa.update(table).values(source="was-here"))
        connection.execute(sa.update(models.source).values(name="was-here"))
    import_into(other, file, name="engine")
    assert noted(other, "engine") == noted(database, "engine")
    assert len(noted(other, "was-here")) == 4
    other.close()


def mark_unfinished(database, name):
    source, epoch = models.source, models.epoch
    named = sa.select(source.c.source_id).where(source.c.name == name).scalar_subquery()
    with database.writing() as connection:
        connection.execute(sa.update(epoch).where(epoch.c.source_id == named).values(importing_ns=NOW_NS))


def test_an_import_that_was_killed_is_told_apart_and_the_next_one_takes_its_place(
    filled, file, database_url, monkeypatch
):
    database, made = filled
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.storage.import_writer", "psycopg"])
    process = context.Process(target=import_and_be_killed, args=(database_url, file, "copy"))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    told = {one.source: one.is_unfinished for one in stats(database).epochs}
    assert told == {"engine": False, "copy": True}
    assert [row.ended_ns is not None for row in history.epochs(database, "copy")] == [True]
    # Nor does it end what lives here.
    assert [(row.is_unfinished, row.ended_ns) for row in history.epochs(database, "engine")] == [(False, None)]
    import_into(database, file, name="copy")
    assert not any(one.is_unfinished for one in stats(database).epochs)
    assert noted(database, "copy") == noted(database, "engine")
    [copy] = history.epochs(database, "copy")
    for number, (seq, slow) in enumerate(made.moments()):
        if number % 200 == 0:
            slow.assert_equals(state_at(database, copy.key, seq))
    with pytest.raises(UserError, match="stored already"):
        import_into(database, file, name="copy")
    database.check_integrity()


def test_what_its_engine_goes_on_with_is_no_unfinished_import_any_more(filled, file, make_database_url):
    database, made = filled
    other = open_database(make_database_url())
    import_into(other, file, name="engine")
    mark_unfinished(other, "engine")
    with EventLog(other) as log:
        made.told.clear()
        made.steps(2)
        made.store(log)
        assert log.flush(WAIT_S)
    assert [row.is_unfinished for row in history.epochs(other, "engine")] == [False]
    with pytest.raises(UserError, match="stored already"):
        import_into(other, file, name="engine")
    other.close()


def test_a_failed_import_takes_back_what_it_stored_and_nothing_else(filled, file, monkeypatch):
    database, _ = filled
    before = (ids(database), history.sources(database), stats(database).epochs)

    def refuse(connection, ends):
        raise sa.exc.OperationalError("UPDATE", {}, sqlite3.OperationalError("database is locked"))

    monkeypatch.setattr(kvx_import, "finish", refuse)
    with pytest.raises(UserError, match="another program keeps it locked"):
        import_into(database, file, name="copy")
    assert (ids(database), history.sources(database), stats(database).epochs) == before


def test_several_sources_are_not_put_under_one_name(filled, file, tmp_path):
    database, _ = filled
    import_into(database, file, name="copy")
    stretches = [
        stretch_of(database, history.epochs(database, name)[0].key, source=name) for name in ("engine", "copy")
    ]
    export_kvx(database, stretches, tmp_path / "both.kvx", NOW_NS)
    with pytest.raises(UserError, match=r"holds several sources \(engine, copy\)"):
        import_into(database, tmp_path / "both.kvx", name="third")


def test_an_import_onto_a_full_disk_ends_in_one_sentence_and_what_is_there_says_that_it_is_unfinished(
    filled, file, database_kind, monkeypatch
):
    if database_kind != "sqlite":
        pytest.skip("the disk of a server is filled in test_event_log_outages")
    source, _ = filled
    disk = SmallDisk(4 << 20)
    try:
        database = open_database(f"sqlite:///{disk.folder / 'kvxray.db'}")
        add_epoch = kvx_import.add_epoch

        def then_the_disk_is_full(*arguments):
            add_epoch(*arguments)
            disk.fill()

        monkeypatch.setattr(kvx_import, "add_epoch", then_the_disk_is_full)
        with pytest.raises(UserError, match=r"takes no writes: the disk is full; free some space\.$"):
            import_into(database, file)
        monkeypatch.undo()
        disk.free()
        import_into(database, file)
        assert noted(database, "engine") == noted(source, "engine")
        database.close()
    finally:
        disk.remove()
