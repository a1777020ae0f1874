"""Streams of hashes exported, imported, pruned and measured: what is left can be told, and is what was told live."""

from __future__ import annotations

import msgspec
import pytest
import sqlalchemy as sa
from kvxray_engine.errors import UserError
from kvxray_engine.stream.joining import EVENTS_OF_BATCH
from kvxray_engine.stream.residency_snapshot import dump
from kvxray_storage import epoch_fold, history, models
from kvxray_storage.checking.residency_difference import residency_difference
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog
from kvxray_storage.exchange.kvx_export import export_kvx
from kvxray_storage.exchange.parquet_export import export_parquet
from kvxray_storage.exchange.records import BadFile
from kvxray_storage.residency_travel import residency_at
from kvxray_storage.retention import Limits
from kvxray_storage.retention_keeper import Retention, RetentionKeeper
from kvxray_storage.storage_stats import stats
from kvxray_storage.time_travel import NotStored
from kvxray_storage.verify import verify

from tests.storage.kvx_files import NOW_NS, import_into, refused_or_read, sections_of, stretch_of, write_sections
from tests.storage.told_hashes import EVENTFUL, Life, last_seq

LOST = frozenset({5, 6, 40})


@pytest.fixture
def life():
    return Life().hear_all(*EVENTFUL, lost=LOST)


@pytest.fixture(autouse=True)
def many_keyframes(monkeypatch):
    monkeypatch.setattr(epoch_fold, "KEYFRAME_ROWS", 150)
    monkeypatch.setattr("kvxray_storage.folded_residency._EVENTS_OF_ENTRY", 0)


@pytest.fixture
def stored(database, life):
    with EventLog(database, chunk_events=40) as log:
        return life.store(log)


@pytest.fixture
def other(make_database_url):
    opened = open_database(make_database_url())
    yield opened
    opened.close()


def assert_tellable(database, key, life, first=0):
    for at in range(first, len(life.told), 7):
        state = residency_at(database, key, last_seq(life.told[at]))
        assert residency_difference(state, life.folds[at]) == ""
        state.check_integrity(with_hashes=False)
        for ordinal in state.ordinals_in_use().tolist():
            assert state.hash_bytes(ordinal) == life.folds[at].hash_bytes(ordinal)


def events_of(database, key, first=0):
    return history.events(database, key, first, 100_000)


def test_an_exported_epoch_is_the_same_elsewhere(database, stored, life, other, tmp_path):
    path = tmp_path / "all.kvx"
    exported = export_kvx(database, [stretch_of(database, stored)], path, NOW_NS)
    assert exported.events == sum(one.header.n for one in life.told)
    import_into(other, path, chunk_events=70)
    [epoch] = history.epochs(other, "engine")
    assert events_of(other, epoch.key) == events_of(database, stored)
    assert epoch.descriptor == life.folds[-1].descriptor
    assert_tellable(other, epoch.key, life)
    assert verify(other).faults == []


def test_a_stretch_brings_the_state_before_it(database, stored, life, other, tmp_path):
    path, first = tmp_path / "part.kvx", 150
    seq = life.told[first].header.seq0
    export_kvx(database, [stretch_of(database, stored, seq)], path, NOW_NS)
    import_into(other, path, name="copy")
    [epoch] = history.epochs(other, "copy")
    assert [row.seq for row in events_of(other, epoch.key)] == [row.seq for row in events_of(database, stored, seq)]
    assert_tellable(other, epoch.key, life, first)
    assert verify(other).faults == []


def test_what_was_kept_from_its_middle_on_is_the_same_elsewhere(database, other, life, tmp_path):
    begin, path = 100, tmp_path / "all.kvx"
    header, before = life.told[begin].header, life.folds[begin - 1]
    with EventLog(database, chunk_events=40) as log:
        key = log.open_epoch("engine", {}, "life-1", before.descriptor, 1)
        assert log.keyframe(key, header.seq0, header.wire_seq, before.t_ns, dump(before), "residency")
        assert all(log.append(key, message) for message in life.told[begin:])
    export_kvx(database, [stretch_of(database, key)], path, NOW_NS)
    import_into(other, path)
    [epoch] = history.epochs(other, "engine")
    assert_tellable(other, epoch.key, life, begin)
    assert verify(other).faults == []


def test_spoilt_files_are_one_sentence_and_nothing_is_stored(database, stored, other, tmp_path):
    path = tmp_path / "all.kvx"
    export_kvx(database, [stretch_of(database, stored)], path, NOW_NS)
    sections = sections_of(path)
    frame = next(at for at, (number, _) in enumerate(sections) if number == 3)
    told = msgspec.msgpack.decode(sections[frame][1])
    for spoil in (lambda state: state[:-5], lambda state: b"KVXS" + state[4:], lambda state: b""):
        changed = list(sections)
        changed[frame] = (3, msgspec.msgpack.encode([*told[:3], spoil(told[3])]))
        write_sections(path, changed)
        assert refused_or_read(path) is None
        with pytest.raises((BadFile, UserError)):
            import_into(other, path)
    assert history.sources(other) == []


def test_as_a_table_hashes_are_values_and_no_blocks(database, stored, life, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "all.parquet"
    export_parquet(database, [stretch_of(database, stored)], path)
    table = parquet.read_table(path).to_pydict()
    rows = events_of(database, stored)
    assert table["seq"] == [row.seq for row in rows]
    assert [one for one in table["block_id"] if one is not None] == []
    assert table["value"] == [row.value for row in rows]
    # Bytes stand where they were told first.
    told = {value: data for value, data in zip(table["value"], table["hash"], strict=True) if data is not None}
    last = life.folds[-1]
    ordinals = last.residents(0).tolist()
    assert len(ordinals) > 20
    assert {one: told[one][-len(last.hash_bytes(one)) :] for one in ordinals} == {
        one: last.hash_bytes(one) for one in ordinals
    }


def test_the_past_goes_in_whole_stretches_and_the_rest_can_be_told(database, life):
    with EventLog(database, chunk_events=40) as log:
        key = life.store(log)
        keeper = RetentionKeeper(
            database, log, Retention(Limits(max_age_s=200), {}), lambda: life.folds[-1].t_ns + 50 * 10**9
        )
        keeper._closing.clear()
        keeper.look()
        epoch = models.epoch
        with database.reading() as connection:
            row = connection.execute(sa.select(epoch)).one()
        assert 0 < row.pruned_chunks < row.num_chunks
        first = next(at for at, one in enumerate(life.told) if one.header.seq0 > row.pruned_seq)
        assert 0 < first < len(life.told)
        assert_tellable(database, key, life, first)
        with pytest.raises(NotStored):
            residency_at(database, key, life.told[0].header.seq0)
        more = life.hear_all(EVENTFUL[1])
        for message in more.told[len(more.folds) - 25 :]:
            assert log.append(key, message)
        assert log.flush(20)
        assert_tellable(database, key, life, first)
    assert verify(database).faults == []


def test_keyframes_thin_out_with_age(database, stored, life):
    with EventLog(database) as log:
        before = num_frames(database)
        now_ns = life.folds[-1].t_ns + 40 * 86_400 * 10**9
        keeper = RetentionKeeper(database, log, Retention(Limits(), {}), lambda: now_ns)
        keeper._closing.clear()
        keeper.look()
        assert 2 <= num_frames(database) < before
        assert_tellable(database, stored, life)


def num_frames(database):
    with database.reading() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(models.keyframe)).scalar_one()


def test_stats_count_its_events(database, stored, life):
    [told] = stats(database).epochs
    assert told.events == sum(one.header.n for one in life.told)
    assert life.told[-1].header.seq0 > EVENTS_OF_BATCH
