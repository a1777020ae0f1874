"""Moving through history: wherever one comes from, a moment is the same; forward and back are inverse to each other."""

from __future__ import annotations

import hashlib
import random
import threading
from bisect import bisect_left, bisect_right

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kvxray_engine.stream.block_map import BLOCK_COLUMNS
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog
from kvxray_storage.time_travel import NotStored, state_at
from kvxray_storage.travel_session import Traveller

from benchmarks.measuring.model_engine import ModelEngine
from tests.storage.made_up_history import Lost, MadeUpHistory, Snapshot, header_of
from tests.storage.test_time_travel import eventful, store

EVENTS = {"sqlite": 10_000, "postgresql": 2_000}


@pytest.fixture(scope="module")
def database(make_database_url):
    opened = open_database(make_database_url())
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def life(database):
    made = eventful(5)
    return store(database, made, "life"), made


def digest(state):
    """All that a state tells, in few bytes."""
    found = hashlib.sha256()
    for name in (*BLOCK_COLUMNS, "state", "kind_totals", "eviction_totals"):
        found.update(getattr(state, name).tobytes())
    if state.holders_known:
        for column in state.holds():
            found.update(column.tobytes())
    rows = state.requests.rows
    found.update(b"".join(rows[name].tobytes() for name in rows.dtype.names))
    numbers = (
        state.step,
        state.t_ns,
        state.next_seq,
        state.next_wire_seq,
        state.generated_tokens,
        state.computed_tokens,
    )
    found.update(repr((numbers, state.descriptor, sorted(state.requests.names), state.counts())).encode())
    return found.hexdigest()


def stored_events(made):
    """Numbers of the events that are stored, and of those that end a step; from the first snapshot on."""
    messages = [one.header for one in made.told if not isinstance(one, Snapshot | Lost) and header_of(one).n]
    return [seq for one in messages for seq in range(one.seq0, one.seq0 + one.n)], [
        one.seq0 + one.n - 1 for one in messages
    ]


@given(moves=st.lists(st.one_of(st.integers(0, 10**6), st.integers(-400, 400)), min_size=1, max_size=12))
@settings(max_examples=40, deadline=None)
def test_a_moment_is_the_same_wherever_one_comes_from(database, life, moves):
    key, made = life
    traveller = Traveller(database)
    first, last = made.told[0].state.next_seq, made.engine.recorder.next_seq - 1
    seq = (first + last) // 2
    for move in moves:
        seq = first + move % (last - first + 1) if move > 400 else min(max(seq + move, first), last)
        with traveller.reading(key, seq) as state:
            assert digest(state) == digest(state_at(database, key, seq)), f"moment {seq}"
            state.check_integrity(with_hashes=False)
        traveller.check_integrity()


def test_forward_and_back_are_inverse(database):
    """Over 10,000 events, with messages missing and the clock set back on the way: back it passes the same moments, and
    there everything is as it was.
    """
    made = MadeUpHistory(ModelEngine(96, rows=48, seed=11, seldom=1.5))
    made.snapshot()
    made.steps(40)
    made.steps(1, lost=True)
    made.steps(10)
    made.snapshot()
    made.set_clock_back(3)
    made.steps(350)
    with EventLog(database, chunk_events=250) as log:
        key = made.store(log, "inverse")
    traveller, choose = Traveller(database), random.Random(2)
    start = seq = 500
    way = []
    while seq < start + EVENTS[database.engine.dialect.name]:
        with traveller.reading(key, seq) as state:
            here = digest(state)
            if len(way) % 50 == 0:
                state.check_integrity()
                assert here == digest(state_at(database, key, seq))
        n = choose.choice((1, 1, 2, 5, 30))
        way.append((seq, n, here))
        seq = traveller.step(key, seq, "event", n)
    assert len({here for _, _, here in way}) == len(way), "every event changes something: it is counted"
    for number, (expected, n, there) in enumerate(reversed(way)):
        seq = traveller.step(key, seq, "event", -n)
        assert seq == expected
        with traveller.reading(key, seq) as state:
            assert digest(state) == there, f"moment {seq}"
            if number % 50 == 0:
                state.check_integrity()
    traveller.check_integrity()


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_steps_lead_to_stored_events_and_ends_of_steps(database, life, data):
    key, made = life
    events, ends = stored_events(made)
    first, last = events[0], events[-1]
    seq = data.draw(st.integers(first, last + 300))
    n = data.draw(st.one_of(st.integers(-8, 8), st.integers(-3000, 3000), st.integers(-100_000, 100_000)))
    by = data.draw(st.sampled_from(["event", "step"]))
    moments = events if by == "event" else ends
    at = bisect_right(moments, seq) + n - 1 if n > 0 else bisect_left(moments, seq) + n
    expected = seq if not n else moments[at] if 0 <= at < len(moments) else first if n < 0 else max(last, seq)
    assert Traveller(database).step(key, seq, by, n) == expected


def test_one_step_on_and_back_again(database, life):
    key, made = life
    _, ends = stored_events(made)
    traveller = Traveller(database)
    for here, there in zip(ends, ends[1:], strict=False):
        assert traveller.step(key, here, "step", 1) == there
        assert traveller.step(key, there, "step", -1) == here


def test_nothing_is_read_again_within_a_chunk(database, life, monkeypatch):
    key, made = life
    events, _ = stored_events(made)
    traveller = Traveller(database)
    seq = events[len(events) // 2]
    with traveller.reading(key, seq):
        pass
    [cursor] = traveller._cursors
    place = cursor._way[-1].chunk.place
    monkeypatch.setattr("kvxray_storage.travel_cursor.read_chunks", forbidden)
    monkeypatch.setattr("kvxray_storage.travel_session.read_chunk", forbidden)
    for near in range(place.seq0, place.seq1):
        with traveller.reading(key, near) as state:
            assert state.next_seq == near + 1
    assert traveller.step(key, place.seq1 - 1, "step", -1) < place.seq1
    assert traveller._cursors == [cursor]


def forbidden(*_):
    raise AssertionError("everything needed is in memory")


def test_memory_is_bounded_and_what_was_looked_at_last_stays(database, life):
    key, made = life
    events, _ = stored_events(made)
    traveller = Traveller(database, max_bytes=3_000_000)
    sizes = []
    for seq in random.Random(1).sample(events, 60):
        with traveller.reading(key, seq):
            pass
        traveller.check_integrity()
        sizes.append(traveller.num_bytes)
    assert max(sizes) > 500_000
    nothing = Traveller(database, max_bytes=0)
    assert digest(nothing.state_at(key, events[99])) == digest(state_at(database, key, events[99]))
    assert nothing.num_bytes == 0


def test_a_copy_is_the_caller_s_own(database, life):
    key, made = life
    events, _ = stored_events(made)
    traveller = Traveller(database)
    seq = events[1000]
    copy = traveller.state_at(key, seq)
    before = digest(copy)
    traveller.state_at(key, events[1200])
    copy.forget()
    assert digest(traveller.state_at(key, seq)) == before


def test_many_threads_travel_at_once(database, life):
    key, made = life
    events, _ = stored_events(made)
    traveller = Traveller(database)
    wrong = []

    def travel(seed):
        choose = random.Random(seed)
        for _ in range(12):
            seq = choose.choice(events)
            if digest(traveller.state_at(key, seq)) != digest(state_at(database, key, seq)):
                wrong.append(seq)

    threads = [threading.Thread(target=travel, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    traveller.check_integrity()


def test_what_is_not_stored_is_refused(database, life):
    key, made = life
    traveller = Traveller(database)
    for seq in (0, made.engine.recorder.next_seq + 5):
        with pytest.raises(NotStored):
            traveller.state_at(key, seq)


def test_a_gap_that_is_filled_is_seen(database):
    made = MadeUpHistory(ModelEngine(96, rows=48, seed=12))
    made.snapshot()
    made.steps(20)
    made.steps(1, lost=True)
    made.steps(20)
    [lost] = [one.message for one in made.told if isinstance(one, Lost)]
    seq = made.engine.recorder.next_seq - 1
    traveller = Traveller(database)
    with EventLog(database, chunk_events=250) as log:
        key = made.store(log, "filled")
        assert not traveller.state_at(key, seq).holders_known
        assert log.append(key, lost)
        assert log.repair_gap(key, lost.header.wire_seq, lost.header.wire_seq, 2)
        assert log.flush(30.0)
    made.slow_truth.assert_equals(traveller.state_at(key, seq))
