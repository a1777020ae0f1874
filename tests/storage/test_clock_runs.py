"""Times of an engine whose clock was set back, or ahead and right again: each still means one moment."""

from __future__ import annotations

import random
from itertools import pairwise, zip_longest

import pytest
import sqlalchemy as sa
from kvxray_engine.stream.schema import Kind
from kvxray_storage import models
from kvxray_storage.clock_runs import ClockRuns
from kvxray_storage.event_log import EventLog
from kvxray_storage.time_travel import first_time, seq_around_time, seq_at_time

from tests.storage.told_messages import T0_NS, Teller, Told, descriptor

S = 1_000_000_000
MS = 1_000_000
WAIT_S = 60.0


def tick(teller, after_ns):
    """Two events at one time, one a little later."""
    return teller.tell(
        [
            Told(Kind.StepStarted, a0=700 * (teller.wire_seq % 2)),
            Told(Kind.BlockEvicted, blocks=(3,)),
            Told(Kind.StepCompleted, a0=2000, a1=1),
        ],
        after_ns=after_ns,
    )


def told_times(messages):
    """(time, seq) of every event."""
    found = []
    for message in messages:
        begin = message.header.t0_wall_ns + int(message.columns.a0[0]) * 1000
        found += [(begin + late, message.header.seq0 + at) for at, late in enumerate((0, 0, 2_000_000))]
    return found


@pytest.fixture(params=[(), (5, 3600), (1, 20, 1), (-3600, 3605), (-30, 40, -90, 100)], ids=str)
def life(request, database):
    """An engine whose clock was set back now and then, or ahead (less than 0): (epoch, (time, seq) of its events, by
    how much).

    Where it is by a second, not even the chunk ends.
    """
    teller, messages = Teller(), []
    for back_s in (*request.param, None):
        messages += [tick(teller, S // 4) for _ in range(46)]
        teller.t_ns -= (back_s or 0) * S
    with EventLog(database, chunk_events=30) as log:
        key = log.open_epoch("engine", {}, "life", descriptor(), T0_NS)
        for message in messages:
            assert log.append(key, message)
        assert log.flush(WAIT_S)
    return key, told_times(messages), request.param


def test_any_time_is_the_last_event_at_or_before_it(database, life):
    key, times, _ = life
    clock = ClockRuns()
    choose = random.Random(4)
    asked = [t_ns + by for t_ns, _ in choose.sample(times, 12) for by in (-1, 0, 1)]
    asked += [choose.randint(min(times)[0], max(times)[0]) for _ in range(12)]
    for t_ns in asked:
        expected = max((seq for at, seq in times if at <= t_ns), default=None)
        assert seq_at_time(database, key, t_ns, clock) == expected


def plainly_around(times, t_ns):
    """The last event with another after that time and at most a minute after itself, or of its millisecond."""
    found = None
    for (at, seq), after in zip_longest(times, times[1:]):
        is_between = after is not None and at <= t_ns < after[0] <= at + 60 * S
        if is_between or (at <= t_ns and at // MS == t_ns // MS):
            found = seq
    return found


def test_a_time_is_of_the_newest_stretch_that_was_lived_around_it(database, life):
    key, times, set_back = life
    clock, choose = ClockRuns(), random.Random(5)
    ends = [max(times), times[-1], *(one for one, after in pairwise(times) if abs(after[0] - one[0]) > S)]
    for t_ns in {at // MS * MS + MS - 1 for at, _ in [*ends, *choose.sample(times, 12)]}:
        assert seq_around_time(database, key, t_ns, clock) == plainly_around(times, t_ns) is not None
    for _ in range(20):
        t_ns = choose.randint(min(times)[0] - S, max(times)[0] + S)
        assert seq_around_time(database, key, t_ns, clock) == plainly_around(times, t_ns)
    if sum(set_back) > 0 > min(set_back, default=0):
        ahead = max(times)
        assert seq_around_time(database, key, ahead[0], clock) == ahead[1] < seq_at_time(database, key, ahead[0], clock)


def test_before_the_earliest_time_there_is_nothing_and_it_is_named(database, life):
    key, times, _ = life
    earliest, seq = min(times)
    assert seq_at_time(database, key, earliest - 1) is None
    assert first_time(database, key, ClockRuns()) == (earliest, seq)
    assert seq_at_time(database, key, earliest) == max(seq for at, seq in times if at <= earliest)


def test_each_time_the_clock_was_set_back_a_run_begins(database, life):
    key, _, set_back = life
    with database.reading() as connection:
        runs = ClockRuns().of(connection, key)
    assert 1 + sum(back_s > 1 for back_s in set_back) <= len(runs) <= 1 + len(set_back)


def test_what_comes_later_or_late_is_found_too(database):
    teller = Teller()
    first, late, *rest = [tick(teller, S) for _ in range(6)]
    teller.t_ns -= 4 * S
    after = [tick(teller, S) for _ in range(4)]
    clock = ClockRuns()
    with EventLog(database, chunk_events=1) as log:
        key = log.open_epoch("engine", {}, "life", descriptor(), T0_NS)

        def store(*messages):
            for message in messages:
                assert log.append(key, message)
            assert log.flush(WAIT_S)

        header = late.header
        assert seq_at_time(database, key, T0_NS + S, clock) is None
        for gap in (first.header, header):
            assert log.gap(key, gap.wire_seq, gap.wire_seq, gap.seq0, gap.seq0 + gap.n - 1, 1, "lost")
        told = []
        for messages in (rest, after[:2], after[2:], [late], [first]):
            store(*messages)
            told += told_times(messages)
            for t_ns, _ in told:
                assert seq_at_time(database, key, t_ns, clock) == max(seq for at, seq in told if at <= t_ns)


def test_a_beginning_that_was_pruned_is_not_found(database, life):
    key, times, _ = life
    clock = ClockRuns()
    assert first_time(database, key, clock) == min(times)
    chunk = models.chunk
    with database.writing() as connection:
        connection.execute(sa.delete(chunk).where(chunk.c.seq1 < 70))
        kept = connection.execute(sa.select(sa.func.min(chunk.c.seq0))).scalar_one()
    left = [one for one in times if one[1] >= kept]
    assert first_time(database, key, clock) == min(left)
    for t_ns, _ in times[::17]:
        expected = max((seq for at, seq in left if at <= t_ns), default=None)
        assert seq_at_time(database, key, t_ns, clock) == expected
