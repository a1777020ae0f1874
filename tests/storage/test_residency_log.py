"""An engine that tells of hashes only, in the event log: any moment is what the live fold had, whatever happened."""

from __future__ import annotations

import random

import numpy as np
import pytest
import sqlalchemy as sa
from kvxray_engine.stream.joining import EVENTS_OF_BATCH, can_join, join
from kvxray_engine.stream.residency_snapshot import dump, load
from kvxray_engine.stream.schema import RESIDENCY_KINDS, Kind
from kvxray_storage import epoch_fold, models
from kvxray_storage.checking.residency_difference import residency_difference
from kvxray_storage.database import open_database
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.event_log import EventLog
from kvxray_storage.hash_lookup import hashes_of
from kvxray_storage.history import block_history, epochs, events, gaps, tail
from kvxray_storage.rebuild import rebuild
from kvxray_storage.residency_history import hash_events
from kvxray_storage.residency_travel import residency_at
from kvxray_storage.time_travel import NotStored, seq_at_time
from kvxray_storage.verify import verify

from tests.storage.told_hashes import EVENTFUL, Life, batches_of, last_seq, numbers_of

MOMENTS = 200
LOST = frozenset({5, 6, 40, 77})


@pytest.fixture(scope="module")
def database(make_database_url):
    opened = open_database(make_database_url())
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def life():
    return Life().hear_all(*EVENTFUL, lost=LOST)


@pytest.fixture(scope="module")
def key(database, life):
    """In small chunks with a keyframe after every few of them, stored by two logs, the second of which hears the last
    messages of the first again.
    """
    half = len(life.told) // 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(epoch_fold, "KEYFRAME_ROWS", 200)
        patch.setattr("kvxray_storage.folded_residency._EVENTS_OF_ENTRY", 0)
        with EventLog(database, chunk_events=50) as log:
            life.store(log, end=half)
        with EventLog(database, chunk_events=50) as log:
            return life.store(log, begin=half - 3)


def frames_of(database, key):
    with database.reading() as connection:
        frame = models.keyframe
        query = sa.select(frame.c.origin, frame.c.kind).where(*of_epoch(frame, key))
        return [tuple(row) for row in connection.execute(query)]


def assert_same(stored, live):
    assert residency_difference(stored, live) == ""
    assert_has_hashes(stored, live)


def assert_has_hashes(stored, live):
    """Of all that is somewhere."""
    stored.check_integrity(with_hashes=False)
    for ordinal in stored.ordinals_in_use().tolist():
        assert stored.hash_bytes(ordinal) == live.hash_bytes(ordinal) is not None


def test_batches_share_chunks_and_keyframes_are_on_the_way(database, key, life):
    assert [row.num_events for row in epochs(database, "engine")] == [sum(one.header.n for one in life.told)]
    with database.reading() as connection:
        num_chunks = connection.execute(sa.select(sa.func.count()).where(*of_epoch(models.chunk, key))).scalar_one()
    assert num_chunks < len(life.told) / 2
    frames = frames_of(database, key)
    assert frames.count(("snapshot", "residency")) == 1
    assert frames.count(("periodic", "residency")) >= 5
    assert len(frames) == frames.count(("periodic", "residency")) + 1


def test_any_moment_is_what_the_live_fold_had(database, key, life):
    chosen = random.Random(3).sample(range(len(life.told)), min(MOMENTS, len(life.told)))
    for at in {*chosen, 0, len(life.told) - 1}:
        assert_same(residency_at(database, key, last_seq(life.told[at])), life.folds[at])


def test_a_moment_inside_a_batch_has_what_was_told_by_then(database, key, life):
    at = max(range(1, len(life.told)), key=lambda one: life.told[one].header.n)
    message = life.told[at]
    seq = message.header.seq0 + message.header.n // 2
    state = residency_at(database, key, seq)
    assert (state.next_seq, state.next_wire_seq) == (seq + 1, message.header.wire_seq)
    before, after = life.folds[at - 1].kind_totals.sum(), life.folds[at].kind_totals.sum()
    assert before < state.kind_totals.sum() < after


def test_numbers_between_two_batches_are_the_moment_before(database, key, life):
    message = life.told[10]
    state = residency_at(database, key, (message.header.wire_seq + 1) * EVENTS_OF_BATCH - 1)
    assert_same(state, life.folds[10])


def test_in_a_gap_what_was_told_stays_and_nothing_is_wholly_told(database, key, life):
    at = next(one for one, message in enumerate(life.told) if message.header.wire_seq == 4)
    state = residency_at(database, key, 5 * EVENTS_OF_BATCH + 3)
    assert not state.known
    assert state.copies_on(0) == life.folds[at].copies_on(0)


def test_beyond_the_end_nothing_is_stored(database, key, life):
    with pytest.raises(NotStored):
        residency_at(database, key, life.next * EVENTS_OF_BATCH + 1)


def test_every_event_has_its_number_and_pages_join(database, key, life):
    wanted = [one.header.seq0 + at for one in life.told for at in range(one.header.n)]
    found, seq = [], 0
    while True:
        page = events(database, key, seq, 97)
        if not page:
            break
        found += page
        seq = page[-1].seq + 1
    assert [row.seq for row in found] == wanted
    stored = next(row for row in found if row.kind == Kind.ResidencyStored)
    assert (stored.block_id, stored.value) == (None, 0)
    assert [row.seq for row in tail(database, key, 50)] == wanted[-50:]
    assert [row.seq for row in tail(database, key, 5, wanted[100])] == wanted[96:101]


def test_hashes_are_no_blocks(database, key):
    assert block_history(database, key, 1, 10) == []


def test_a_hash_has_the_events_that_name_it(database, key, life):
    every = [row for row in events(database, key, 0, 10_000) if row.kind in RESIDENCY_KINDS]
    for ordinal in (0, 17, 60, 200):
        wanted = [row for row in reversed(every) if row.value == ordinal]
        assert len(wanted) > 1
        assert hash_events(database, key, [ordinal], 1000) == wanted
        assert hash_events(database, key, [ordinal], 1000, wanted[1].seq) == wanted[1:]
        assert hash_events(database, key, [ordinal], 1) == wanted[:1]
    assert hash_events(database, key, [], 10) == []


def test_time_finds_the_last_event_of_a_batch(database, key, life):
    for at in (0, 30, len(life.told) - 1):
        header = life.told[at].header
        later = life.told[at + 1].header.t0_wall_ns if at + 1 < len(life.told) else None
        if later is None or later > header.t0_wall_ns:
            assert seq_at_time(database, key, header.t0_wall_ns) == last_seq(life.told[at])


def test_gaps_are_rows(database, key, life):
    assert [(row.wire_seq0, row.wire_seq1) for row in gaps(database, key, 10)] == [(77, 77), (40, 40), (5, 6)]


def test_verify_finds_nothing(database, key):
    verdict = verify(database)
    assert verdict.faults == []
    assert verdict.checked["keyframe"] >= 6


def test_rebuilding_makes_the_same_again(database, key, life):
    before = rollups(database, key)
    rebuild(database, key)
    assert rollups(database, key) == before
    assert_same(residency_at(database, key, last_seq(life.told[-1])), life.folds[-1])
    assert verify(database).faults == []


def rollups(database, key):
    with database.reading() as connection:
        table = models.rollup_1m
        rows = connection.execute(sa.select(table).where(*of_epoch(table, key)).order_by(table.c.t_s))
        return [dict(row._mapping) for row in rows]


def test_minutes_count_what_happened(database, key, life):
    rows, totals = rollups(database, key), life.folds[-1].kind_totals
    sums = {name: sum(row[name] for row in rows) for name in rows[0] if isinstance(rows[0][name], int)}
    assert sums["events"] == totals.sum()
    assert sums["steps"] == len(life.told)
    assert sums["blocks_cached"] + sums["references"] == totals[Kind.ResidencyStored]
    assert sums["evictions_other"] == totals[Kind.ResidencyRemoved]
    assert sums["cache_clears"] == totals[Kind.CacheCleared]
    assert rows[-1]["cached_last"] == life.folds[-1].copies_on(0)


def fold_of(messages):
    """In the order of their numbers, which are missing where they jump."""
    fold = load(Life().begin)
    for message in messages:
        if message.header.wire_seq > fold.next_wire_seq:
            fold.note_gap()
        fold.apply(message)
    return fold


@pytest.mark.parametrize("seed", range(3))
def test_late_batches_have_their_place_once_they_came(make_database_url, monkeypatch, seed):
    monkeypatch.setattr(epoch_fold, "KEYFRAME_ROWS", 150)
    monkeypatch.setattr("kvxray_storage.folded_residency._EVENTS_OF_ENTRY", 0)
    choose = random.Random(seed)
    batches = [one for name in EVENTFUL[:5] for one in batches_of(name)]
    lost = {0, *choose.sample(range(len(batches) - 5), 7)}
    never, late = choose.sample(sorted(lost - {0}), 2), []
    life, database = Life(), open_database(make_database_url())
    with EventLog(database, chunk_events=40) as log:
        key = life.store(log)
        for at, batch in enumerate(batches):
            if at in lost:
                late += [at] if at not in never else []
                continue
            life.hear(batch, at)
            life.tell(log, key, len(life.told) - 1)
            if late and choose.random() < 0.1:
                came = late.pop(choose.randrange(len(late)))
                assert log.append(key, life.hear(batches[came], came))
                assert log.repair_gap(key, came, came, 1)
            if choose.random() < 0.05:
                assert log.flush(20)
        for came in late:
            assert log.append(key, life.hear(batches[came], came))
        assert log.flush(20)
        in_order = sorted(life.told, key=lambda one: one.header.wire_seq)
        for at in (0, len(in_order) - 1, *choose.sample(range(len(in_order)), 25)):
            state, wanted = residency_at(database, key, last_seq(in_order[at])), fold_of(in_order[: at + 1])
            assert residency_difference(state, wanted) == ""
            # Here and there bytes are told by batches that came before and are numbered later.
            assert_has_hashes(state, life.fold)
    assert verify(database).faults == []
    database.close()


def test_without_a_keyframe_of_the_engine_it_begins_with_the_first_batch(make_database_url):
    life = Life("unknown").hear_all(EVENTFUL[0])
    database = open_database(make_database_url())
    with EventLog(database) as log:
        key = log.open_epoch("engine", {}, "life-1", life.descriptor, 1)
        assert all(log.append(key, message) for message in life.told)
        assert log.flush(20)
    assert_same(residency_at(database, key, last_seq(life.told[-1])), life.folds[-1])
    database.close()


def test_an_epoch_may_begin_with_what_was_told_before_it_was_kept(make_database_url):
    life, begin = Life().hear_all(*EVENTFUL), 120
    header, before = life.told[begin].header, life.folds[begin - 1]
    database = open_database(make_database_url())
    with EventLog(database, chunk_events=50) as log:
        key = log.open_epoch("engine", {}, "life-1", before.descriptor, 1)
        told = (header.seq0, header.wire_seq, before.t_ns, dump(before), "residency", dict(before.names.names))
        assert log.keyframe(key, *told)
        assert all(log.append(key, message) for message in life.told[begin:])
        assert log.flush(20)
    for at in range(begin, len(life.told), 20):
        assert_same(residency_at(database, key, last_seq(life.told[at])), life.folds[at])
    with pytest.raises(NotStored):
        residency_at(database, key, last_seq(life.told[begin - 2]))
    old = int(before.residents(0)[0])
    assert hashes_of(database, key, [old]) == {old: before.hash_table.get(old)}
    assert verify(database).faults == []
    database.close()


@pytest.mark.parametrize("seed", range(3))
def test_joined_batches_fold_to_what_each_of_them_does(life, seed):
    choose = random.Random(seed)
    whole = load(life.begin)
    at = 0
    while at < len(life.told):
        run = [life.told[at]]
        most = choose.randrange(1, 40)
        while (
            at + len(run) < len(life.told) and len(run) < most and can_join(run[0], run[-1], life.told[at + len(run)])
        ):
            run.append(life.told[at + len(run)])
        if run[0].header.wire_seq > whole.next_wire_seq:
            whole.note_gap()
        whole.apply(join(run))
        at += len(run)
        assert residency_difference(whole, life.folds[at - 1]) == ""


def test_a_batch_that_tells_of_the_engine_begins_a_chunk(life):
    telling = [at for at, one in enumerate(life.told) if one.header.descriptor]
    assert len(telling) > 1
    assert not any(can_join(life.told[at - 1], life.told[at - 1], life.told[at]) for at in telling if at)


def test_numbers_of_a_gap_are_those_of_its_batches():
    assert numbers_of(2, 3) == (2 * EVENTS_OF_BATCH, 4 * EVENTS_OF_BATCH - 1)
    assert np.diff(numbers_of(0, 0))[0] == EVENTS_OF_BATCH - 1
