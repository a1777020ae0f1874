"""Rollups hold what the page shows of every second: counted here once more, plainly, and against the page's figures."""

from __future__ import annotations

from collections import Counter
from statistics import median

import numpy as np
import pytest
import sqlalchemy as sa
from kvxray_backend.analysis.leak_search import find_leaks
from kvxray_backend.figures import Reading, figures_of
from kvxray_backend.windows import EventTotals, EventWindows
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.holder_ends import EngineTime
from kvxray_engine.stream.schema import BlockState, Cause, Kind, Name, RequestStatus
from kvxray_storage import models
from kvxray_storage.event_log import EventLog
from kvxray_storage.fold_rows import begin_anew
from kvxray_storage.histograms import NUM_BUCKETS, add_up, buckets_of, encode_histogram, quantile_us
from kvxray_storage.rebuild import rebuild
from kvxray_storage.rollup_book import RollupBook, RollupRow
from kvxray_storage.rollup_columns import COUNTERS, HISTOGRAMS, MAXIMA, VALUE_COLUMNS
from kvxray_storage.rollups import rollups

from benchmarks.measuring.model_engine import ModelEngine
from tests.storage.made_up_history import MadeUpHistory
from tests.storage.test_epoch_folds import rollup_rows, wait_until_folded
from tests.storage.told_messages import T0_NS, Teller, Told, descriptor, expand

WAIT_S = 60.0
ALL_TIME = (0, 2**62)
S = 1_000_000_000


def tell_a_second(teller, blocks, *, req=None, finish=True):
    """A request that comes, is given blocks, generates two tokens, and gives them back."""
    req = teller.req if req is None else req
    return teller.tell(
        [
            Told(Kind.StepStarted, a1=1),
            Told(Kind.RequestArrived, req, a0=0, a1=32),
            Told(Kind.RequestScheduled, req, a0=32, a1=16),
            Told(Kind.BlockEvicted, blocks=blocks[:1], cause=Cause.capacity),
            Told(Kind.BlockAllocated, req, blocks),
            Told(Kind.TokensGenerated, req, a0=1, a1=1),
            Told(Kind.StepCompleted, a0=1000, a1=17),
            Told(Kind.StepStarted, a0=5000, a1=2),
            Told(Kind.TokensGenerated, req, a0=1, a1=2),
            *([Told(Kind.BlockFreed, req, blocks, cause=Cause.finish, a0=1)] if finish else []),
            *([Told(Kind.RequestFinished, req, a0=32, a1=2)] if finish else []),
            Told(Kind.StepCompleted, a0=2000, a1=1),
        ],
        names=[Name(f"request-{req}")], step=2, after_ns=S,
    )  # fmt: skip


@pytest.fixture
def log(database):
    with EventLog(database, chunk_seconds=0.005) as opened:
        yield opened
        wait_until_folded(opened)
    opened.check_integrity()


def open_epoch(log, blocks=64):
    return log.open_epoch("engine", {}, "life", descriptor(blocks), T0_NS)


def test_every_second_has_its_counts(database, log):
    key, teller = open_epoch(log), Teller()
    for _ in range(3):
        assert log.append(key, tell_a_second(teller, (3, 4)))
        wait_until_folded(log)  # a chunk each
    found = rollups(database, key, *ALL_TIME, 1, VALUE_COLUMNS)
    assert found["t_s"].tolist() == [T0_NS // S + at for at in (1, 2, 3)]
    counts = {name: found[name].tolist() for name in (*COUNTERS, *MAXIMA) if found[name].any()}
    assert counts == {
        "events": [14] * 3, "steps": [2] * 3, "step_us": [3000] * 3, "allocations": [2] * 3, "frees": [2] * 3,
        "evictions_for_capacity": [1] * 3, "requests_arrived": [1] * 3, "requests_scheduled": [1] * 3,
        "requests_finished": [1] * 3, "tokens_queried": [32] * 3, "tokens_hit": [16] * 3,
        "tokens_generated": [2] * 3, "tokens_computed": [18] * 3, "step_us_max": [2000] * 3,
        # Tokens exist when their step completes: 1 ms after the arrival, and 6 ms after that one.
        "ttft_count": [1] * 3, "ttft_us": [1000] * 3, "ttft_us_max": [1000] * 3,
        "itl_count": [1] * 3, "itl_us": [6000] * 3, "itl_us_max": [6000] * 3,
    }  # fmt: skip
    assert quantile_us(add_up(found["ttft_histogram"]), 0.5) == pytest.approx(1000, rel=0.19)
    assert found["free_last"].tolist() == [2.0, 2.0, 2.0]
    assert found["usable_blocks"].tolist() == [63.0] * 3
    minute = rollups(database, "engine", *ALL_TIME, 60, ["events", "used_max", "ttft_count"])
    assert (minute["events"].tolist(), minute["ttft_count"].tolist()) == ([42], [3])


def test_a_stretch_of_time_is_read_and_nothing_else(database, log):
    key, teller = open_epoch(log), Teller()
    for _ in range(5):
        log.append(key, tell_a_second(teller, (3,)))
    wait_until_folded(log)
    first = T0_NS // S + 1
    found = rollups(database, "engine", (first + 1) * S, (first + 3) * S + 5, 1, ["events"])
    assert found["t_s"].tolist() == [first + 1, first + 2, first + 3]
    assert rollups(database, "nobody", *ALL_TIME, 1, ["events", "ttft_histogram"])["events"].tolist() == []


def test_the_last_seconds_of_a_life_are_counted_when_the_next_one_begins(database):
    """Its last chunk is cut because the source begins anew, in the same commit."""
    with EventLog(database, chunk_seconds=60) as log:
        key, teller = open_epoch(log), Teller()
        assert log.append(key, tell_a_second(teller, (3,)))
        wait_until_folded(log)
        for _ in range(2):
            assert log.append(key, tell_a_second(teller, (3,)))
        log.open_epoch("engine", {}, "next life", descriptor(64), T0_NS + 100 * S)
        wait_until_folded(log)
        assert rollups(database, key, *ALL_TIME, 1, ["events"])["events"].tolist() == [12] * 3


@pytest.fixture(scope="module")
def made():
    made = MadeUpHistory(ModelEngine(512, rows=128, seed=3, seldom=1.5))
    made.steps(400)
    return made


def test_the_last_row_says_what_the_page_says(database, log, made):
    key = made.store(log)
    wait_until_folded(log)
    found = rollups(database, key, *ALL_TIME, 1, VALUE_COLUMNS)
    last = {name: values[-1] for name, values in found.items()}
    state = made.truth
    windows = EventWindows()
    windows.note(state.t_ns, EventTotals.of(state))
    running = state.requests.count(RequestStatus.running)
    now = EngineTime(state.t_ns, state.step, is_idle=running == 0)
    leaks = find_leaks(state, now)
    leaked = {int(block) for leak in leaks for block in leak.blocks}
    only = {int(block) for leak in leaks for block in leak.blocks_only}
    page = figures_of(Reading(state, windows, 1, 0, state.t_ns, len(leaked), len(only)))
    usable = last["usable_blocks"]
    assert last["used_last"] / usable == page["used"].value
    assert last["cached_last"] / usable == page["cached"].value
    assert last["shared_last"] / usable == page["shared"].value
    assert last["empty_slots_last"] / last["held_slots_last"] == pytest.approx(page["internal_fragmentation"].value)
    for name in ("leaked", "leaked_only", "running", "waiting"):
        assert last[f"{name}_last"] == page[name].value, name
    assert last["holds_last"] == len(state.holds()[0])
    assert {one.name: last[f"{one.name}_last"] for one in BlockState} == {
        one.name: count for one, count in state.counts().items()
    }


def test_sums_over_all_seconds_are_the_totals_of_the_fold(database, log, made):
    key = made.store(log)
    wait_until_folded(log)
    state, totals = made.truth, EventTotals.of(made.truth)
    for seconds in (1, 60):
        found = rollups(database, key, *ALL_TIME, seconds, VALUE_COLUMNS)
        evictions = sum(found[name].sum() for name in COUNTERS if name.startswith("evictions"))
        assert evictions == totals.evictions
        assert found["allocations"].sum() == totals.allocations
        assert found["preemptions"].sum() == totals.preemptions
        assert found["tokens_generated"].sum() == totals.tokens
        assert (found["tokens_queried"].sum(), found["tokens_hit"].sum()) == (totals.queried, totals.hit)
        assert found["tokens_computed"].sum() == state.computed_tokens
        assert found["events"].sum() == state.kind_totals.sum()


def test_times_to_tokens_are_those_that_plain_counting_finds(database, log, made):
    key = made.store(log)
    wait_until_folded(log)
    arrived, last, ttft, itl = {}, {}, [], Counter()
    for row in expand(list(made.told), {}):
        if row.kind == Kind.RequestArrived:
            arrived[row.req] = row.t_ns + row.a0 * 1000
        if row.kind == Kind.TokensGenerated and row.a0:
            if row.a0 == row.a1 and row.req in arrived:
                ttft.append(max(row.t_ns - arrived[row.req], 0) // 1000)
            elif row.a0 != row.a1 and row.req in last:
                itl["count"] += row.a0
                itl["us"] += (row.t_ns - last[row.req]) // 1000
            last[row.req] = row.t_ns
    found = rollups(database, key, *ALL_TIME, 1, VALUE_COLUMNS)
    assert (found["ttft_count"].sum(), found["ttft_us"].sum()) == (len(ttft), sum(ttft))
    assert (found["itl_count"].sum(), found["itl_us"].sum()) == (itl["count"], itl["us"])
    assert found["ttft_us_max"].max() == max(ttft)
    assert quantile_us(add_up(found["ttft_histogram"]), 0.5) == pytest.approx(median(ttft), rel=0.2)


def test_counting_over_gives_the_same(database, made):
    with EventLog(database, chunk_events=500) as log:
        key = made.store(log)
        wait_until_folded(log)
    before = rollup_rows(database, key)
    assert len(before[0]) > 2
    rebuild(database, key)
    assert rollup_rows(database, key) == before


def test_what_a_pruned_chunk_left_in_the_rollups_stays(database, monkeypatch):
    monkeypatch.setattr("kvxray_storage.epoch_fold.KEYFRAME_ROWS", 64)
    with EventLog(database, chunk_seconds=0.005) as log:
        key, teller = open_epoch(log), Teller()
        for _ in range(40):
            assert log.append(key, tell_a_second(teller, (3, 4)))
            if teller.wire_seq % 5 == 0:
                wait_until_folded(log)
    before = rollup_rows(database, key)
    frame, chunk = models.keyframe, models.chunk
    with database.writing() as connection:
        kept = connection.execute(
            sa.select(frame.c.wire_seq).order_by(frame.c.wire_seq).offset(2).limit(1)
        ).scalar_one()
        connection.execute(sa.delete(frame).where(frame.c.wire_seq < kept))
        connection.execute(sa.delete(chunk).where(chunk.c.wire_seq0 < kept))
    rebuild(database, key)
    assert rollup_rows(database, key) == before


@pytest.mark.parametrize("back_s", [2, 30, 3600])
def test_a_clock_that_goes_back_counts_in_the_seconds_it_tells_and_a_restart_changes_nothing(database, back_s):
    teller = Teller()
    messages = [tell_a_second(teller, (3, 4)) for _ in range(5)]
    teller.t_ns -= back_s * S
    messages += [tell_a_second(teller, (3, 4)) for _ in range(5)]
    for half in (messages[:7], messages[7:]):
        with EventLog(database, chunk_seconds=0.005) as log:
            key = open_epoch(log)
            for message in half:
                assert log.append(key, message)
                wait_until_folded(log)
    found = rollups(database, key, *ALL_TIME, 1, ["events", "ttft_count"])
    expected = Counter(message.header.t0_wall_ns // S for message in messages)
    assert dict(zip(found["t_s"].tolist(), found["ttft_count"].tolist(), strict=True)) == expected
    before = rollup_rows(database, key)
    rebuild(database, key)
    assert rollup_rows(database, key) == before


def test_gauges_are_not_known_while_the_blocks_are_not(database, log):
    key, teller = open_epoch(log), Teller(wire_seq=5, seq=100)
    assert log.append(key, teller.tell([Told(Kind.StepStarted, a1=1)]))
    wait_until_folded(log)
    found = rollups(database, key, *ALL_TIME, 1, VALUE_COLUMNS)
    assert found["unknown_last"].tolist() == [63.0]
    for name in ("used", "cached", "holds", "running", "leaked", "empty_slots"):
        assert np.isnan(found[f"{name}_last"]).all(), name


def test_leaks_are_counted_as_the_page_counts_them(database, log):
    key, teller = open_epoch(log), Teller()
    state = BlockMap(descriptor(64))
    lease = Name("lease", kind="lease", deadline=T0_NS + 4 * S)
    told = [
        tell_a_second(teller, (3, 4), finish=False),
        teller.tell([Told(Kind.StepStarted, a1=3), Told(Kind.BlockReferenced, 1, (3,), (2,), Cause.lease)],
                    names=[lease], step=3),
        teller.tell([Told(Kind.StepStarted, a1=4), Told(Kind.RequestFinished, 0, a0=1, a1=2)], step=4),
    ]  # fmt: skip
    told += [tell_a_second(teller, (9,)) for _ in range(12)]
    expected = []
    for message in told:
        state.apply(message)
        leaks = find_leaks(state, EngineTime(state.t_ns, state.step, is_idle=True))
        blocks = {int(block) for leak in leaks for block in leak.blocks}
        expected.append((len(blocks), len({int(one) for leak in leaks for one in leak.blocks_only})))
        assert log.append(key, message)
        wait_until_folded(log)
    found = rollups(database, key, *ALL_TIME, 1, ["leaked_last", "leaked_only_last"])
    by_second = {message.header.t0_wall_ns // S: one for message, one in zip(told, expected, strict=True)}
    pairs = zip(found["leaked_last"].tolist(), found["leaked_only_last"].tolist(), strict=True)
    assert list(pairs) == list(by_second.values())
    assert {one for one, _ in by_second.values()} == {0, 2}


def a_slow_life():
    """Everything that a pool tells, a step every two seconds."""
    engine = ModelEngine(192, rows=64, seed=4, seldom=1.5)
    messages = []
    for _ in range(90):
        messages.append(engine.step())
        engine.clock.advance_ns(2 * S - engine.clock.wall_ns() % S)
    return engine.descriptor(), messages


def a_leaking_life():
    """One request runs, the other ended and still has its blocks: after two steps, of which one is too long already."""
    teller = Teller()
    told = [tell_a_second(teller, blocks, finish=False) for blocks in ((3, 4), (5,))]
    ended = [Told(Kind.StepStarted, a1=3), Told(Kind.RequestFinished, 0, a0=1, a1=2)]
    told.append(teller.tell(ended, step=3, after_ns=S))
    return descriptor(64), told + [
        teller.tell([Told(Kind.StepStarted, a1=step)], step=step, after_ns=4 * S) for step in range(4, 9)
    ]


@pytest.mark.parametrize("life", [a_slow_life, a_leaking_life])
def test_each_second_has_its_gauges_also_where_a_chunk_holds_minutes(database, life):
    """As an import, or a backlog, stores them."""
    first, messages = life()
    kept, chunks = [], []
    for at_once in (1, len(messages)):
        with EventLog(database, chunk_events=100_000, chunk_seconds=600) as log:
            key = log.open_epoch("engine", {}, f"by {at_once}", first, T0_NS)
            for number, message in enumerate(messages, 1):
                assert log.append(key, message)
                assert number % at_once or log.flush(WAIT_S)
            wait_until_folded(log)
            chunks.append(log.stats().chunks)
        kept.append({seconds: rollups(database, key, *ALL_TIME, seconds, VALUE_COLUMNS) for seconds in (1, 60)})
    one_each, one_chunk = kept
    assert chunks == [len(messages), len(messages) + 1]
    for seconds in (1, 60):
        for name in VALUE_COLUMNS:
            assert one_chunk[seconds][name].tolist() == one_each[seconds][name].tolist(), name
    assert not np.isnan(one_chunk[1]["running_last"]).any()
    assert len(one_chunk[1]["t_s"]) >= len(messages) - 1
    assert one_chunk[1]["leaked_last"].any()


def test_a_database_of_an_older_kvxray_is_folded_when_it_is_opened(database, made):
    with EventLog(database, chunk_events=500) as log:
        key = made.store(log)
        wait_until_folded(log)
    expected = rollup_rows(database, key)
    with database.writing() as connection:
        begin_anew(connection, key)
        connection.execute(sa.delete(models.keyframe))
        connection.execute(sa.delete(models.rollup_1m))
    with EventLog(database) as log:
        assert log.open_epoch("engine", {}, "made-up", made.first, 1) == key
        wait_until_folded(log)
    assert rollup_rows(database, key) == expected


def test_a_keyframe_that_cannot_be_read_does_not_stop_the_fold(database, made):
    with EventLog(database, chunk_events=500) as log:
        key = made.store(log)
        wait_until_folded(log)
    expected = rollup_rows(database, key)
    with database.writing() as connection:
        connection.execute(sa.update(models.keyframe).values(state=b"no state", rollup=b"no rollup"))
    with EventLog(database) as log:
        assert log.open_epoch("engine", {}, "made-up", made.first, 1) == key
        wait_until_folded(log)
    assert rollup_rows(database, key) == expected


def test_chunks_that_cannot_be_read_are_passed_over_and_their_seconds_lack_them(database, caplog):
    with EventLog(database, chunk_seconds=0.005) as log:
        key, teller = open_epoch(log), Teller()
        for _ in range(40):
            assert log.append(key, tell_a_second(teller, (3,)))
            wait_until_folded(log)
    chunk = models.chunk
    with database.writing() as connection:
        damaged = sa.update(chunk).where(chunk.c.wire_seq0.between(5, 35)).values(data=b"damaged")
        connection.execute(damaged)
    rebuild(database, key)
    found = rollups(database, key, *ALL_TIME, 1, ["events", "unknown_last"])
    assert found["events"].tolist() == [12] * 9
    assert found["unknown_last"].tolist() == [0.0] * 5 + [62.0] * 4
    assert "a stored chunk cannot be folded" in caplog.text


def test_an_error_in_the_fold_costs_no_event(database, monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError("a mistake")

    with EventLog(database, chunk_seconds=0.005) as log:
        key, teller = open_epoch(log), Teller()
        assert log.append(key, tell_a_second(teller, (3,)))
        wait_until_folded(log)
        monkeypatch.setattr("kvxray_storage.folded_pool.add_events", fail)
        assert log.append(key, tell_a_second(teller, (3,)))
        assert log.flush(WAIT_S)
        assert log.failed is None
        assert log.stats().stored_events == 24
    assert "keyframes and rollups" in caplog.text
    monkeypatch.undo()
    with EventLog(database) as log:
        open_epoch(log)
        wait_until_folded(log)
    assert rollups(database, key, *ALL_TIME, 1, ["events"])["events"].sum() == 24


def test_a_books_bytes_go_on_where_it_stood():
    book = RollupBook(lambda *_: None)
    for second in (100, 101, 163):
        for row in book.rows_of(second):
            row.counters += second
            row.histograms[0, 7] += 1
            row.read(np.arange(14), 63)
    again = RollupBook(lambda *_: None)
    again.decode(book.encode())
    again.check_integrity()
    for mine, theirs in zip(again.rows_of(163), book.rows_of(163), strict=True):
        assert mine.values() == theirs.values()
    assert again.encode() == book.encode()


@pytest.mark.parametrize("data", [b"", b"nonsense", RollupBook(lambda *_: None).encode()[:-3]])
def test_bytes_that_are_no_book_are_refused(data):
    with pytest.raises(ValueError, match="cannot be read"):
        RollupBook(lambda *_: None).decode(data)


def test_a_row_comes_back_from_its_columns():
    row = RollupRow()
    row.counters[:], row.maxima[:] = range(len(COUNTERS)), range(len(MAXIMA))
    row.histograms[:] = np.arange(len(HISTOGRAMS) * NUM_BUCKETS).reshape(len(HISTOGRAMS), -1)
    row.read(np.arange(-1, 13), 63)
    row.read(np.arange(14)[::-1].copy(), 63)
    assert set(row.values()) == set(VALUE_COLUMNS)
    assert RollupRow.from_values(row.values()).values() == row.values()


def test_a_quantile_is_off_by_a_bucket_at_most():
    took = np.array([900, 1_000, 1_100, 50_000, 2**31])
    counts = np.bincount(buckets_of(took), minlength=NUM_BUCKETS)
    assert encode_histogram(counts)
    assert quantile_us(counts, 0.5) == pytest.approx(1_100, rel=0.19)
    assert quantile_us(counts, 1.0) == pytest.approx(2**31, rel=0.19)
    assert quantile_us(np.zeros(NUM_BUCKETS, np.int64), 0.5) is None


def test_a_snapshot_in_the_middle_counts_nothing_twice(database, log):
    made = MadeUpHistory(ModelEngine(64, rows=32, seed=5))
    made.steps(30)
    made.snapshot()
    made.steps(30)
    key = made.store(log)
    wait_until_folded(log)
    found = rollups(database, key, *ALL_TIME, 60, ["events"])
    assert found["events"].sum() == made.truth.kind_totals.sum()
