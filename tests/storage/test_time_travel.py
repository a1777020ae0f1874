"""Any moment: what the event log says of every block there is what a plain fold of all events says."""

from __future__ import annotations

import random

import pytest
import sqlalchemy as sa
from kvxray_engine.stream.schema import RESIDENCY_KINDS, Kind
from kvxray_storage import models
from kvxray_storage.database import open_database
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.event_log import EventLog
from kvxray_storage.records import EpochKey
from kvxray_storage.time_travel import NotStored, seq_at_time, state_at

from benchmarks.measuring.model_engine import ModelEngine
from tests.storage.made_up_history import Lost, MadeUpHistory, Snapshot, header_of

MOMENTS = 200


def eventful(seed, blocks=192):
    """A life with everything in it: joined late, messages lost, the pool changed, the clock set back, snapshots now and
    then.
    """
    made = MadeUpHistory(ModelEngine(blocks, rows=96, seed=seed, seldom=1.2))
    made.steps(20)
    made.told.clear()  # nobody followed yet
    made.snapshot()
    made.steps(60)
    made.steps(2, lost=True)
    made.steps(40)
    made.snapshot()
    made.steps(15)
    made.set_clock_back(2)
    made.steps(15)
    made.change_blocks(256)
    made.steps(60)
    made.steps(1, lost=True)
    made.snapshot()
    made.steps(90)
    made.steps(1, lost=True)
    return made


@pytest.fixture(scope="module")
def database(make_database_url):
    opened = open_database(make_database_url())
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def lives(database):
    """Two epochs of one source: [(key, what was told)]."""
    return [(store(database, made, f"life-{at}"), made) for at, made in enumerate([eventful(1), eventful(2)])]


def store(database, made, incarnation):
    """In small chunks, with a periodic keyframe after every few of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kvxray_storage.epoch_fold.KEYFRAME_ROWS", 1500)
        with EventLog(database, chunk_events=300) as log:
            return made.store(log, incarnation)


def test_keyframes_of_both_origins_are_on_the_way(database, lives):
    for key, _ in lives:
        with database.reading() as connection:
            frame = models.keyframe
            query = sa.select(frame.c.origin, sa.func.count()).where(*of_epoch(frame, key)).group_by(frame.c.origin)
            counts = {row.origin: row[1] for row in connection.execute(query)}
        assert counts["snapshot"] == 3
        assert counts["periodic"] >= 5


def test_the_made_up_lives_have_every_kind_that_a_pool_tells(lives):
    seen = {kind for _, made in lives for kind in Kind if made.truth.kind_totals[kind]}
    assert seen == set(Kind) - RESIDENCY_KINDS


def test_any_moment_is_what_a_plain_fold_has(database, lives):
    choose = random.Random(7)
    for key, made in lives:
        last = max(seq for seq, _ in made.moments())
        first = min(seq for seq, _ in made.moments())
        chosen = set(choose.sample(range(first, last + 1), MOMENTS // len(lives) - 2)) | {first, last}
        for seq, slow in made.moments():
            if seq in chosen:
                slow.assert_equals(state_at(database, key, seq))


def test_moments_around_whatever_cuts_a_chunk(database, lives):
    key, made = lives[0]
    edges = set()
    for one in made.told:
        if isinstance(one, Snapshot):
            edges.add(one.state.next_seq)
        elif isinstance(one, Lost) or header_of(one).type == "descriptor":
            header = header_of(one)
            edges |= {header.seq0, header.seq0 + header.n}
    near = {edge + by for edge in edges for by in (-2, -1, 0, 1)}
    checked = 0
    for seq, slow in made.moments():
        if seq in near:
            slow.assert_equals(state_at(database, key, seq))
            checked += 1
    assert checked > 20


def test_a_time_is_the_last_event_at_or_before_it(database, lives):
    key, made = lives[0]
    times = [(slow.numbers["t_ns"], seq) for seq, slow in made.moments()]
    stored = [one for one in made.told if not isinstance(one, Lost | Snapshot)]
    inside = [(one.header.seq0, one.header.seq0 + one.header.n) for one in stored]
    times = [(t_ns, seq) for t_ns, seq in times if any(first <= seq < end for first, end in inside)]
    for t_ns, _ in random.Random(3).sample(times, 100):
        for asked in (t_ns - 1, t_ns, t_ns + 1):
            expected = max((seq for at, seq in times if at <= asked), default=None)
            assert seq_at_time(database, key, asked) == expected
    assert seq_at_time(database, key, times[-1][0] + 10**15) == times[-1][1]
    assert seq_at_time(database, key, 0) is None


def test_what_is_not_stored_is_said_in_a_sentence(database, lives):
    key, made = lives[0]
    first = made.told[0].state.next_seq
    beyond = max(seq for seq, _ in made.moments()) + 1
    for seq in (0, first - 2, beyond, beyond + 10**9):
        with pytest.raises(NotStored, match=r"^[A-Z][^.]*\d\.\d[^.]*\.(\d+\.)?$"):
            state_at(database, key, seq)
    with pytest.raises(NotStored, match="No state of epoch 9 is stored"):
        state_at(database, EpochKey(1, 9), 5)
    made.told[0].slow.assert_equals(state_at(database, key, first - 1))
