"""What retention takes away, and that whatever it leaves can still be told: on both databases, while events come in."""

from __future__ import annotations

import random
import time

import pytest
import sqlalchemy as sa
from kvxray_engine.stream import snapshot
from kvxray_storage import epoch_fold, history, models, pruning
from kvxray_storage.checking.residency_difference import residency_difference
from kvxray_storage.event_log import EventLog
from kvxray_storage.hash_lookup import hashes_of
from kvxray_storage.pruner import Pruner
from kvxray_storage.records import EpochKey
from kvxray_storage.residency_travel import residency_at
from kvxray_storage.retention import (
    DAY_NS,
    Edge,
    Limits,
    StoredFrame,
    cuts_by_age,
    cuts_by_size,
    merged,
    thinned,
    to_free,
)
from kvxray_storage.retention_keeper import Retention, RetentionKeeper
from kvxray_storage.retention_plan import make_plan
from kvxray_storage.rollups import rollups
from kvxray_storage.storage_size import measure
from kvxray_storage.time_travel import NotStored, state_at
from kvxray_storage.verify import verify

from benchmarks.measuring.generated_log import store
from benchmarks.measuring.model_engine import ModelEngine
from tests.storage.made_up_history import MadeUpHistory
from tests.storage.told_hashes import EVENTFUL, Life, last_seq

A, B = EpochKey(1, 1), EpochKey(2, 1)
WAIT_S = 60.0
NO_LIMITS = Retention(Limits(), {})


def edges_of(key, *ends, num_bytes=100):
    return [Edge(key, at, at, at, num_bytes, 2, 20) for at in ends]


# What goes, without a database.


def test_by_age_everything_before_the_newest_old_edge_goes():
    [cut] = cuts_by_age(edges_of(A, 10, 20, 30), before_ns=29)
    assert (cut.edge.t_ns, cut.num_bytes, cut.num_chunks, cut.num_events) == (20, 200, 4, 40)
    assert cuts_by_age(edges_of(A, 10, 20), before_ns=9) == []


def test_by_size_the_oldest_stretches_of_all_epochs_go_and_no_more_than_needed():
    cuts = {cut.edge.key: cut for cut in cuts_by_size([edges_of(A, 10, 40), edges_of(B, 20, 30)], 250)}
    assert {key: cut.edge.t_ns for key, cut in cuts.items()} == {A: 10, B: 30}
    assert sum(cut.num_bytes for cut in cuts.values()) == 300
    assert cuts_by_size([edges_of(A, 10)], 0) == []


def test_size_leaves_room_and_age_and_size_together_take_the_farther_cut():
    mb = 10**6
    assert to_free(899 * mb, 1000 * mb) == 0
    assert to_free(950 * mb, 1000 * mb) == 100 * mb
    # A small limit needs more room, in proportion, for what comes in meanwhile.
    assert to_free(601, 900) == 1 + 150
    assert to_free(10**12, None) == 0
    by_age, by_size = cuts_by_age(edges_of(A, 10, 20), 20), cuts_by_size([edges_of(A, 10, 20)], 50)
    assert merged([*by_age, *by_size]) == by_age


def test_keyframes_thin_out_with_age_but_snapshots_and_both_ends_stay():
    now = 20 * DAY_NS
    frames = [StoredFrame(seq, t_ns, True) for seq, t_ns in ((0, 1), *((at * 100, 2) for at in range(1, 40)))]
    frames += [StoredFrame(4000 + at * 100, now - 2 * DAY_NS, True) for at in range(8)]
    frames += [StoredFrame(5000 + at * 100, now - 1, True) for at in range(5)]
    frames[7] = StoredFrame(700, 2, False)
    kept = sorted({frame.seq for frame in frames} - set(thinned(frames, 100, now)))
    # From the snapshot on distances count anew; from a week to a day one in 4; of the last day all.
    assert kept == [0, 700, 2300, 3900, 4300, 4700, 5000, 5100, 5200, 5300, 5400]
    assert thinned([frame for frame in frames if frame.seq in kept], 100, now) == []
    assert thinned(frames[:1], 100, now) == []


# On databases.


@pytest.fixture(autouse=True)
def many_keyframes(monkeypatch):
    monkeypatch.setattr(epoch_fold, "KEYFRAME_ROWS", 2_000)


@pytest.fixture
def log(database):
    with EventLog(database, chunk_events=200) as opened:
        yield opened


def keeper_of(database, log, retention=NO_LIMITS, now_ns=None):
    keeper = RetentionKeeper(database, log, retention, time.time_ns if now_ns is None else lambda: now_ns)
    keeper._closing.clear()
    return keeper


def life(seed=1, steps=150):
    """Of one engine, with messages lost and a snapshot on the way; `moments`: the slow fold's."""
    made = MadeUpHistory(ModelEngine(192, rows=96, seed=seed, seldom=1.2))
    made.snapshot()
    made.steps(steps // 2)
    made.steps(1, lost=True)
    made.steps(10)
    made.snapshot()
    made.steps(steps // 2)
    return made


def count(database, table):
    with database.reading() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()


def pruned(database, key):
    epoch = models.epoch
    with database.reading() as connection:
        return connection.execute(
            sa.select(epoch).where(epoch.c.source_id == key.source_id, epoch.c.epoch == key.epoch)
        ).one()


def assert_tellable(database, key, made, moments=40):
    """Random moments that are left are what a plain fold has; earlier ones are refused. Returns how many were told."""
    first = pruned(database, key).pruned_seq
    everything = [seq for seq, _ in made.moments()]
    left = [seq for seq in everything if first is None or seq >= first]
    chosen = {*random.Random(3).sample(left, min(moments, len(left))), left[0], left[-1]}
    for seq, slow in made.moments():
        if seq in chosen:
            slow.assert_equals(state_at(database, key, seq))
    for seq in set(everything) - set(left):
        if seq % 50 == 0:
            with pytest.raises(NotStored):
                state_at(database, key, seq)
    return len(left)


def test_by_age_the_past_goes_in_whole_stretches_and_the_rest_can_be_told(database, log):
    made = life()
    key = made.store(log, flush_every=8)
    before = rollups(database, key, 0, 2**62, 1, ["events", "ttft_count", "used_max"])
    now_ns = made.truth.t_ns + 10**9
    keeper = keeper_of(database, log, Retention(Limits(max_age_s=1), {}), now_ns)
    keeper.look()
    row = pruned(database, key)
    assert 0 < row.pruned_chunks < row.num_chunks
    assert count(database, models.chunk) == row.num_chunks - row.pruned_chunks
    assert row.pruned_ns <= made.truth.t_ns
    assert assert_tellable(database, key, made) > 100
    kept = rollups(database, key, 0, 2**62, 1, ["events", "ttft_count", "used_max"])
    # Seconds outlive events four times: here all of the last 4 s do.
    inside = before["t_s"] >= now_ns // 10**9 - 4
    assert kept["events"].tolist() == before["events"][inside].tolist()
    assert kept["used_max"].tolist() == before["used_max"][inside].tolist()
    database.check_integrity()


def test_the_first_keyframe_left_tells_the_hashes_that_the_chunks_took_along(database, log):
    made = life()
    key = made.store(log, flush_every=8)
    keeper_of(database, log, Retention(Limits(max_age_s=1), {}), made.truth.t_ns + 10**9).look()
    seq = pruned(database, key).pruned_seq
    state = state_at(database, key, seq)
    carried = state.ordinals_carried().tolist()
    told = made.truth.hashes
    found = hashes_of(database, key, carried)
    assert len(carried) > 5
    assert found.keys() == set(carried)
    for ordinal, data in found.items():
        assert told.get(ordinal) in (None, data)
    frame = models.keyframe
    with database.reading() as connection:
        first = connection.execute(sa.select(frame).where(frame.c.kind == "pool").order_by(frame.c.seq).limit(1)).one()
    assert (first.seq, first.origin) == (seq + 1, "snapshot")
    assert snapshot.load(first.state).hashes.get(carried[0]) == found[carried[0]]


def test_an_epoch_nobody_follows_goes_whole_and_its_source_stays_known(database, log):
    first, second = life(seed=1), life(seed=2)
    old = first.store(log, "life-1")
    new = second.store(log, "life-2")
    keeper_of(database, log, Retention(Limits(max_age_s=1), {}), first.truth.t_ns + DAY_NS).look()
    row = pruned(database, old)
    assert row.pruned_chunks == row.num_chunks > 0
    assert pruned(database, new).pruned_chunks < pruned(database, new).num_chunks
    with pytest.raises(NotStored):
        state_at(database, old, row.last_seq)
    # The followed one keeps its newest keyframe, however old, and what comes after it.
    assert assert_tellable(database, new, second, moments=5) > 0
    assert [one.epoch for one in history.epochs(database, "engine")] == [1, 2]
    for table in (models.posting, models.name, models.gap):
        with database.reading() as connection:
            assert set(connection.execute(sa.select(table.c.epoch)).scalars()) <= {2}


def test_names_stay_while_a_stored_event_or_a_finding_speaks_of_them(database, log, make_finding):
    made = life()
    key = made.store(log, flush_every=8)
    early = made.truth.requests.names[min(made.truth.requests.names)].id
    assert log.finding(make_finding(subjects={"requests": [early]}, epoch=key.epoch, time_ns=made.truth.t_ns))
    assert log.flush(WAIT_S)
    before = count(database, models.name)
    keeper_of(database, log, Retention(Limits(max_age_s=1), {}), made.truth.t_ns + 10**9).look()
    name = models.name
    with database.reading() as connection:
        left = set(connection.execute(sa.select(name.c.id)).scalars())
    assert len(left) < before
    assert early in left
    rows = history.tail(database, key, 500)
    named = {row.request_id for row in rows if row.request_id is not None}
    assert named <= left
    assert all(row.request_id is not None for row in rows if row.req in made.truth.requests.names)


def test_a_message_that_comes_after_its_time_was_pruned_is_no_longer_taken(database, log):
    made = life(steps=100)
    lost = next(one.message for one in made.told if hasattr(one, "message"))
    key = made.store(log, flush_every=8)
    keeper_of(database, log, Retention(Limits(max_age_s=1), {}), made.truth.t_ns + DAY_NS).look()
    chunks = count(database, models.chunk)
    assert log.append(key, lost)
    assert log.flush(WAIT_S)
    assert count(database, models.chunk) == chunks
    assert log.stats().duplicates == 1


def test_sources_may_keep_what_others_do_not(database, log):
    made = life()
    key = made.store(log, flush_every=8)
    keeper = keeper_of(database, log, Retention(Limits(max_age_s=1), {"engine": Limits()}), made.truth.t_ns + DAY_NS)
    keeper.look()
    assert pruned(database, key).pruned_chunks == 0
    # It stands in the database, for those that prune without the settings.
    assert not make_plan(database, Limits(max_age_s=1), made.truth.t_ns + DAY_NS, set())
    # Who names the source may say otherwise, and who names another takes nothing of this one.
    for only, goes in ({key.source_id: Limits(max_age_s=1)}, True), ({key.source_id + 1: Limits(max_age_s=1)}, False):
        assert bool(make_plan(database, Limits(1), made.truth.t_ns + DAY_NS, set(), only=only).cuts) is goes
    small = Retention(Limits(), {"engine": Limits(max_bytes=60_000)})
    keeper_of(database, log, small, made.truth.t_ns).look()
    with database.reading() as connection:
        kept = connection.execute(sa.select(sa.func.sum(models.chunk.c.num_bytes))).scalar()
    assert 0 < kept <= 60_000
    assert_tellable(database, key, made, moments=5)


def test_a_plan_that_was_overtaken_deletes_nothing(database, log):
    made = life()
    key = made.store(log, flush_every=8)
    plan = make_plan(database, Limits(max_age_s=1), made.truth.t_ns + 10**9, log.followed())
    [cut] = plan.cuts
    frame = models.keyframe
    log.errand(lambda connection: connection.execute(sa.delete(frame).where(frame.c.seq == cut.edge.seq))).result(
        WAIT_S
    )
    chunks = count(database, models.chunk)
    Pruner(database, lambda writes: [log.errand(write).result(WAIT_S) for write in writes]).carry_out(plan)
    assert count(database, models.chunk) == chunks
    assert pruned(database, key).pruned_seq is None


def test_what_was_interrupted_is_finished_by_the_next_look(database, log):
    made = life()
    key = made.store(log, flush_every=8)
    now_ns = made.truth.t_ns + 10**9
    [cut] = make_plan(database, Limits(max_age_s=1), now_ns, log.followed()).cuts
    log.errand(lambda connection: pruning.begin_at(connection, cut.edge, None)).result(WAIT_S)
    assert pruned(database, key).pruned_chunks == 0
    keeper_of(database, log, Retention(Limits(max_age_s=1), {}), now_ns).look()
    assert pruned(database, key).pruned_chunks == cut.num_chunks
    assert_tellable(database, key, made, moments=5)


def test_the_database_stays_under_its_limit_while_events_come_in(database, monkeypatch):
    monkeypatch.setattr(epoch_fold, "KEYFRAME_ROWS", 16_384)
    limit = 5 << 20
    with EventLog(database, chunk_events=1024) as log:
        engine = ModelEngine(1024, rows=512, seed=3)
        keeper = RetentionKeeper(database, log, Retention(Limits(max_bytes=limit), {}), engine.clock.wall_ns)
        keeper.start()
        largest = 0

        def watch(rows):
            nonlocal largest
            if rows % 37 == 0:
                largest = max(largest, measure(database).used)

        key, last = store(log, engine, 500_000, watch)
        keeper.close()
        size = measure(database)
    if database.path is not None:
        assert database.path.stat().st_size <= limit
        assert size.on_disk <= limit
    assert largest <= limit
    assert pruned(database, key).pruned_events > 0
    state_at(database, key, last).check_integrity(with_hashes=False)
    state_at(database, key, pruned(database, key).pruned_seq).check_integrity()
    database.check_integrity()


def test_an_errand_of_a_closed_log_is_refused_and_one_that_fails_is_its_senders(sqlite_database):
    log = EventLog(sqlite_database)

    def fail(connection):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        log.errand(fail).result(WAIT_S)
    assert log.failed is None
    log.close()
    with pytest.raises(Exception, match=r"^$"):
        log.errand(fail).result(WAIT_S)


def test_of_a_stream_of_hashes_whose_past_went_the_rest_is_told_as_it_was_live(database, monkeypatch):
    monkeypatch.setattr(epoch_fold, "KEYFRAME_ROWS", 60)
    monkeypatch.setattr("kvxray_storage.folded_residency._EVENTS_OF_ENTRY", 0)
    told = Life().hear_all(*EVENTFUL)
    with EventLog(database, chunk_events=20, chunk_seconds=0.01) as log:
        key = told.store(log)
        keeper = keeper_of(database, log, Retention(Limits(max_age_s=1), {}), told.fold.t_ns + 10**9)
        keeper.look()
        first = pruned(database, key).pruned_seq
        assert first is not None
        left = [at for at, message in enumerate(told.told) if last_seq(message) >= first]
        assert 0 < len(left) < len(told.told)
        for at in left[:: max(1, len(left) // 12)]:
            assert residency_difference(residency_at(database, key, last_seq(told.told[at])), told.folds[at]) == ""
    assert verify(database).faults == []
