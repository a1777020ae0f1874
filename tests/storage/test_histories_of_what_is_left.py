"""Histories of a life with everything against it: joined late, with messages missing, its clock set back, imported from
a file and pruned at its beginning. What is told is what a plain walk over the events that are left has.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from kvxray_engine.stream.schema import Kind
from kvxray_storage import history
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog
from kvxray_storage.exchange.kvx_export import export_kvx
from kvxray_storage.hash_history import stays_of
from kvxray_storage.pruner import Pruner
from kvxray_storage.request_history import find_requests, request_history
from kvxray_storage.retention import Limits
from kvxray_storage.retention_plan import make_plan
from kvxray_storage.state_diff import diff
from kvxray_storage.time_travel import state_at

from benchmarks.measuring.model_engine import ModelEngine
from tests.storage.kvx_files import NOW_NS, import_into, stretch_of
from tests.storage.made_up_history import Lost, MadeUpHistory, Snapshot
from tests.storage.test_histories import plain_stays
from tests.storage.test_state_diff import plain_diff
from tests.storage.told_messages import expand

WAIT_S = 60.0
ALL = 10**6


def hard_life():
    made = MadeUpHistory(ModelEngine(160, rows=64, seed=31, seldom=0.96))
    made.steps(20)
    made.told.clear()  # nobody followed yet
    made.snapshot()
    made.steps(70)
    made.steps(2, lost=True)
    made.steps(20)
    made.snapshot()
    made.set_clock_back(0.5)
    made.steps(70)
    return made


@pytest.fixture(scope="module")
def left(make_database_url, tmp_path_factory):
    """(database, key, the history, its events that are left)."""
    made, file = hard_life(), tmp_path_factory.mktemp("left") / "life.kvx"
    database = open_database(make_database_url())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kvxray_storage.epoch_fold.KEYFRAME_ROWS", 400)
        with EventLog(database, chunk_events=250) as log:
            original = made.store(log, flush_every=4)
        export_kvx(database, [stretch_of(database, original)], file, NOW_NS)
        import_into(database, file, "copy", chunk_events=250)
    [copy] = history.epochs(database, "copy")
    prune(database, copy.key, made.told[55].header.t0_wall_ns)
    [copy] = history.epochs(database, "copy")
    names = {ordinal: name.id for ordinal, name in made.truth.requests.names.items()}
    stored = [one for one in made.told if not isinstance(one, Lost | Snapshot)]
    rows = [row for row in expand(stored, names) if row.seq >= copy.first_seq]
    assert 0 < len(rows) < sum(one.header.n for one in stored)
    yield database, copy.key, made, rows
    database.close()


def prune(database, key, before_ns):
    plan = make_plan(database, Limits(), before_ns + 10**9, set(), only={key.source_id: Limits(max_age_s=1)})
    assert [cut.edge.key for cut in plan.cuts] == [key]
    with EventLog(database) as log:
        Pruner(database, lambda writes: [log.errand(write).result(WAIT_S) for write in writes]).carry_out(plan)


def gap_of(rows):
    """(last event before, first event after) of the messages that are missing."""
    [gap] = [(a.seq, b.seq) for a, b in pairwise(rows) if b.seq > a.seq + 1]
    return gap


def test_the_history_of_a_block_is_what_is_left_of_it(left):
    database, key, _, rows = left
    for block in random.Random(1).sample(range(1, 150), 12):
        names_it = (Kind.BlockCopied, Kind.BlockMoved)
        expected = [row for row in rows if row.block_id == block or (row.kind in names_it and row.value == block)]
        assert history.block_history(database, key, block, ALL) == expected[::-1]
        last = random.Random(block).choice(rows).seq
        assert (
            history.block_history(database, key, block, 5, last)
            == [row for row in reversed(expected) if row.seq <= last][:5]
        )


def test_the_history_of_a_request_is_what_is_left_of_it(left):
    database, key, made, rows = left
    named = sorted({row.req for row in rows if row.request_id is not None})
    for ordinal in [named[0], named[-1], *random.Random(2).sample(named, 20)]:
        expected = [row for row in reversed(rows) if row.req == ordinal]
        assert request_history(database, key, ordinal, ALL) == expected
        assert (key, ordinal) in find_requests(database, key.source_id, made.truth.requests.names[ordinal].id)
    gone = [ordinal for ordinal in range(named[0]) if ordinal not in named]
    assert all(request_history(database, key, ordinal, 5) == [] for ordinal in gone[:5])


def test_the_stays_of_a_hash_are_what_is_left_and_end_in_the_dark_where_messages_are_missing(left):
    database, key, made, rows = left
    before, after = gap_of(rows)
    num_gpu = made.engine.pool.num_gpu
    cached = cached_ordinals(rows)
    seen = set()
    for ordinal, seq in random.Random(3).sample(cached, 30) + cached[-3:]:
        until_gap = [row for row in rows if (row.seq <= before) == (seq <= before)]
        expected = plain_stays(until_gap, (ordinal, seq), lambda block: int(block >= num_gpu), None)
        is_cut = seq <= before
        expected = [replace(stay, lost_after=before if is_cut and not stay.until else None) for stay in expected]
        assert stays_of(database, key, ordinal) == expected
        seen |= {(is_cut, stay.until is None) for stay in expected}
        if is_cut:
            # As it was known before messages were missing, and as it is from the first missing one on.
            at_gap = stays_of(database, key, ordinal, before)
            assert at_gap == [replace(stay, lost_after=None) for stay in expected]
            assert stays_of(database, key, ordinal, before + 1) == expected
    assert seen == {(True, True), (True, False), (False, True), (False, False)}
    assert after > before + 1


def cached_ordinals(rows):
    """(ordinal, seq) of every hash that was told."""
    found, last = [], None
    for row in rows:
        if row.kind == Kind.BlockCached:
            at = last[2] + 1 if last is not None and last[:2] == (row.seq - 1, row.a0) else 0
            last = (row.seq, row.a0, at)
            found.append((row.a0 + at, row.seq))
    return found


def test_what_two_moments_differ_in_is_what_a_plain_comparison_of_plain_folds_finds(left):
    database, key, made, rows = left
    chosen = sorted({row.seq for row in random.Random(5).sample(rows, 7)} | {rows[0].seq, rows[-1].seq})
    states = {seq: state_at(database, key, seq) for seq in chosen}
    for seq, slow in made.moments():
        if seq in states:
            slow.assert_equals(states[seq])
    for first, second in [*pairwise(chosen), (chosen[-1], chosen[0])]:
        found, expected = diff(states[first], states[second]), plain_diff(states[first], states[second])
        assert {name: getattr(found, name).tolist() for name in expected} == expected
