"""History as files: what comes back is what was sent, at any moment."""

from __future__ import annotations

import random
import sqlite3

import msgspec
import pytest
import sqlalchemy as sa
from kvxray_engine.errors import UserError
from kvxray_engine.stream.joining import join
from kvxray_storage import epoch_fold, history, models
from kvxray_storage.bookmarks import add_bookmark, bookmarks
from kvxray_storage.chunk import decode_chunk
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog
from kvxray_storage.exchange import container, kvx_import
from kvxray_storage.exchange.kvx_export import export_kvx
from kvxray_storage.exchange.parquet_export import export_parquet
from kvxray_storage.exchange.unjoining import unjoin
from kvxray_storage.hash_lookup import hashes_of
from kvxray_storage.records import EpochKey
from kvxray_storage.rollups import rollups
from kvxray_storage.time_travel import NotStored, state_at

from benchmarks.measuring.model_engine import ModelEngine
from tests.storage.kvx_files import NOW_NS, import_into, stretch_of
from tests.storage.made_up_history import MadeUpHistory


@pytest.fixture(scope="module")
def lives(make_database_url, tmp_path_factory):
    """(database, [(key, what was told)]): two epochs, with messages lost, the pool changed and snapshots between."""
    patch = pytest.MonkeyPatch()
    patch.setattr(epoch_fold, "KEYFRAME_ROWS", 1_000)
    database = open_database(make_database_url())
    made = []
    for seed in (1, 2):
        life = MadeUpHistory(ModelEngine(192, rows=96, seed=seed, seldom=1.2))
        life.steps(20)
        life.told.clear()
        life.snapshot()
        life.steps(50)
        life.steps(2, lost=True)
        life.steps(30)
        life.snapshot()
        life.steps(20)
        life.change_blocks(256)
        life.steps(40)
        made.append(life)
    with EventLog(database, chunk_events=300) as log:
        keys = [one.store(log, f"life-{number}") for number, one in enumerate(made)]
    patch.undo()
    yield database, list(zip(keys, made, strict=True))
    database.close()


@pytest.fixture
def other(make_database_url):
    opened = open_database(make_database_url())
    yield opened
    opened.close()


def assert_same_state(found, expected):
    for name in ("ref", "hash_ordinal", "parent_ordinal", "slots", "group", "t_alloc", "t_last", "written", "state"):
        assert (getattr(found, name) == getattr(expected, name)).all(), name
    for name in ("next_seq", "next_wire_seq", "t_ns", "step", "holders_known", "queried_tokens", "generated_tokens"):
        assert getattr(found, name) == getattr(expected, name), name
    assert [one.tolist() for one in found.holds()] == [one.tolist() for one in expected.holds()]
    assert found.requests.rows.tolist() == expected.requests.rows.tolist()
    assert found.requests.names == expected.requests.names


def test_a_chunk_taken_apart_is_the_messages_that_were_joined(lives):
    database, [(key, made), _] = lives
    told = {one.header.wire_seq: one for one in made.told if hasattr(one, "header")}
    chunk = models.chunk
    with database.reading() as connection:
        rows = connection.execute(sa.select(chunk.c.data).where(chunk.c.epoch == key.epoch)).all()
    seen = 0
    for row in rows:
        decoded = decode_chunk(row.data)
        messages = list(unjoin(decoded))
        assert msgspec.structs.replace(join(messages).header, sizes=()) == msgspec.structs.replace(
            decoded.message.header, sizes=()
        )
        for message in messages:
            original = told[message.header.wire_seq]
            for name in ("kind", "cause", "req", "n", "a0", "a1", "blk", "val"):
                assert getattr(message.columns, name).tolist() == getattr(original.columns, name).tolist(), name
            assert bytes(message.columns.hashes) == bytes(original.columns.hashes)
            for name in ("seq0", "n", "step", "t0_wall_ns", "req0", "names", "hash0", "descriptor", "type"):
                assert getattr(message.header, name) == getattr(original.header, name), name
            seen += 1
    assert seen == len(told)


def test_everything_comes_back_equal_at_random_moments(lives, other, tmp_path):
    database, keys = lives
    path = tmp_path / "all.kvx"
    count = export_kvx(database, [stretch_of(database, key) for key, _ in keys], path, NOW_NS)
    summary = import_into(other, path)
    assert count.events == summary.num_events == sum(row.num_events for row in history.epochs(other, "engine"))
    choose = random.Random(5)
    for key, made in keys:
        moments = dict.fromkeys(choose.sample([seq for seq, _ in made.moments()], 60))
        for seq, slow in made.moments():
            if seq in moments:
                slow.assert_equals(state_at(other, EpochKey(1, key.epoch), seq))
    for key, _ in keys:
        before, after = (
            rollups(one, key, 0, 2**62, 1, ["events", "tokens_hit", "used_max"]) for one in (database, other)
        )
        assert {name: column.tolist() for name, column in before.items()} == {
            name: column.tolist() for name, column in after.items()
        }
        assert history.gaps(database, key, 100) == history.gaps(other, key, 100)
    assert history.events(database, keys[0][0], 0, 10**6) == history.events(other, keys[0][0], 0, 10**6)
    other.check_integrity()


def test_a_stretch_is_what_it_was_in_the_whole(lives, other, tmp_path):
    database, [(key, made), _] = lives
    everything = [seq for seq, _ in made.moments()]
    first, last = everything[len(everything) // 3], everything[-len(everything) // 4]
    path = tmp_path / "part.kvx"
    export_kvx(database, [stretch_of(database, key, first, last)], path, NOW_NS)
    import_into(other, path)
    [epoch] = history.epochs(other, "engine")
    assert epoch.epoch == key.epoch
    assert epoch.first_seq <= first
    assert last <= epoch.last_seq < everything[-1]
    for seq in random.Random(2).sample([seq for seq in everything if first <= seq <= last], 40):
        ours, theirs = state_at(other, epoch.key, seq), state_at(database, key, seq)
        assert_same_state(ours, theirs)
        carried = ours.ordinals_carried().tolist()
        assert hashes_of(other, epoch.key, carried) == hashes_of(database, key, carried)
    with pytest.raises(NotStored):
        state_at(other, epoch.key, epoch.first_seq - 2)


def test_findings_and_bookmarks_of_the_stretch_come_along_and_replace_nothing(lives, other, tmp_path, make_finding):
    database, [(key, made), _] = lives
    seq = made.truth.next_seq - 50
    with EventLog(database) as log:
        assert log.finding(make_finding(id="inside", epoch=key.epoch, seq0=seq, seq1=seq))
        assert log.finding(make_finding(id="outside", epoch=key.epoch, seq0=1, seq1=1))
    note = add_bookmark(database, "engine", key.epoch, seq, 7, "look here", 8)
    path = tmp_path / "part.kvx"
    export_kvx(database, [stretch_of(database, key, seq - 10)], path, NOW_NS)
    with EventLog(other) as log:
        assert log.finding(make_finding(id="inside", sentence="This was here before."))
    import_into(other, path, name="copy")
    assert [found.sentence for found in history.findings(other, "engine")] == ["This was here before."]
    assert [(found.note, found.epoch, found.seq) for found in bookmarks(other, "copy", 10)] == [
        (note.note, key.epoch, seq)
    ]
    assert [found.seq0 for found in history.findings(other, "copy")] == [seq]
    with other.reading() as connection:
        [kept] = connection.execute(sa.select(models.retention)).all()
    assert (kept.max_age_s, kept.max_bytes) == (None, None)


def test_what_is_here_already_is_refused_and_what_lives_here_goes_on(lives, other, tmp_path):
    database, [(key, _), _] = lives
    path = tmp_path / "one.kvx"
    export_kvx(database, [stretch_of(database, key)], path, NOW_NS)
    with EventLog(other) as log:
        made = MadeUpHistory(ModelEngine(64, rows=32, seed=9))
        made.steps(3)
        made.store(log, "alive")
    with pytest.raises(UserError, match=r"Epoch 1 of the source engine is stored already; .* --as NAME\."):
        import_into(other, path)
    import_into(other, path, name="copy")
    assert [row.ended_ns for row in history.epochs(other, "engine")] == [None]
    assert history.epochs(other, "copy")[0].ended_ns is not None
    with pytest.raises(UserError, match="stored already"):
        import_into(other, path, name="copy")


def test_an_import_that_fails_leaves_nothing_behind(lives, sqlite_database, tmp_path, monkeypatch):
    database, keys = lives
    path = tmp_path / "all.kvx"
    export_kvx(database, [stretch_of(database, key) for key, _ in keys], path, NOW_NS)
    monkeypatch.setattr(kvx_import, "finish", on_a_full_disk)
    with pytest.raises(UserError, match=r"takes no writes: the disk is full; free some space\.$"):
        import_into(sqlite_database, path)
    monkeypatch.undo()
    assert history.sources(sqlite_database) == []
    sqlite_database.check_integrity()


def on_a_full_disk(connection, ends):
    raise sa.exc.OperationalError("UPDATE", {}, sqlite3.OperationalError("database or disk is full"))


def test_parquet_has_a_row_for_every_event(lives, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    database, keys = lives
    path = tmp_path / "all.parquet"
    count = export_parquet(database, [stretch_of(database, key) for key, _ in keys], path)
    rows = parquet.read_table(path).to_pylist()
    assert count.events == len(rows) == sum(row.num_events for row in history.epochs(database, "engine"))
    key = keys[1][0]
    expected = {event.seq: event for event in history.events(database, key, 0, 10**6)}
    mine = [row for row in rows if row["epoch"] == key.epoch]
    assert [row["seq"] for row in mine] == sorted(expected)
    for row in mine:
        event = expected[row["seq"]]
        assert row["source"] == "engine"
        assert (row["kind"], row["cause"], row["step"]) == (event.kind.name, event.cause.name, event.step)
        assert (row["request_id"], row["block_id"], row["value"]) == (event.request_id, event.block_id, event.value)
        assert (row["a0"], row["a1"]) == (event.a0, event.a1)
        assert row["time"].value == event.t_ns if hasattr(row["time"], "value") else True
        assert (row["hash"] is not None) == (row["kind"] == "BlockCached")
    told = hashes_of(database, key, [1])
    assert not told or any(row["hash"] == told[1] for row in mine)


def test_a_file_that_cannot_be_written_leaves_nothing(lives, tmp_path, monkeypatch):
    database, [(key, _), _] = lives
    path = tmp_path / "full.kvx"
    path.write_bytes(b"before")
    monkeypatch.setattr(container.KvxWriter, "write", lambda self, section: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError, match="full"):
        export_kvx(database, [stretch_of(database, key)], path, NOW_NS)
    assert [one.name for one in tmp_path.iterdir()] == ["full.kvx"]
    assert path.read_bytes() == b"before"
