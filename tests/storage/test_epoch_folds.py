"""Whatever comes late, is lost or interrupted: every keyframe is the fold from the start, and every rollup is what
counting over again gives.
"""

from __future__ import annotations

import time

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from kvxray_engine.stream import snapshot
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.schema import Kind
from kvxray_storage import epoch_fold, models
from kvxray_storage.commit_batch import CommitBatch
from kvxray_storage.database import open_database
from kvxray_storage.epoch_folds import EpochFolds
from kvxray_storage.event_log import EventLog
from kvxray_storage.fold_rows import begin_anew
from kvxray_storage.packing import Packer
from kvxray_storage.rebuild import rebuild
from kvxray_storage.rollups import rollups

from benchmarks.measuring.model_engine import ModelEngine
from tests.storage.made_up_history import MadeUpHistory

WAIT_S = 60.0
COLUMNS = ("ref", "hash_ordinal", "parent_ordinal", "slots", "group", "t_alloc", "t_last", "written", "state")
TOTALS = ("queried_tokens", "hit_tokens", "generated_tokens", "computed_tokens")
PLACE = ("next_seq", "next_wire_seq", "t_ns", "step", "holders_known", "num_blocks")


@pytest.fixture(autouse=True)
def many_keyframes(monkeypatch):
    monkeypatch.setattr(epoch_fold, "KEYFRAME_ROWS", 64)


def wait_until_folded(log):
    """Flushed, and no fold is behind."""
    assert log.flush(WAIT_S)
    end = time.monotonic() + WAIT_S
    while log._writer._folds.due_at is not None:
        assert time.monotonic() < end, "the fold does not catch up"
        time.sleep(0.001)
    assert log.failed is None
    assert not log._writer._folds._given_up
    assert log.flush(WAIT_S)


def keyframes(database, key, origin=None):
    frame = models.keyframe
    query = sa.select(frame).where(frame.c.source_id == key.source_id, frame.c.epoch == key.epoch)
    with database.reading() as connection:
        rows = connection.execute(query.order_by(frame.c.wire_seq)).all()
    return [row for row in rows if origin in (None, row.origin)]


def rollup_rows(database, key):
    with database.reading() as connection:
        return [
            [tuple(row) for row in connection.execute(sa.select(table).order_by(table.c.t_s))]
            for table in (models.rollup_1s, models.rollup_1m)
        ]


def assert_same(found, expected):
    for name in PLACE:
        assert getattr(found, name) == getattr(expected, name), name
    for name in COLUMNS:
        assert (getattr(found, name) == getattr(expected, name)).all(), name
    if expected.holders_known:  # else what is released without having been seen counts as it comes
        for mine, theirs in zip(found.holds(), expected.holds(), strict=True):
            assert mine.tolist() == theirs.tolist()
    assert found.requests.rows.tolist() == expected.requests.rows.tolist()
    assert found.kind_totals.tolist() == expected.kind_totals.tolist()
    assert [getattr(found, name) for name in TOTALS] == [getattr(expected, name) for name in TOTALS]


class Folds(RuleBasedStateMachine):
    """`told`: messages by number, stored or lost; `states`: the engine's own, told before a message; `stored`."""

    @initialize(target=None, seed=st.integers(0, 5), from_start=st.booleans())
    def begin(self, seed, from_start):
        self.made = MadeUpHistory(ModelEngine(24, rows=12, seed=seed, seldom=1.5))
        self.first = self.made.first
        self.told, self.states, self.stored = [], {}, set()
        self.gaps = {}
        self.database = open_database(f"sqlite:///{self.folder}/{id(self)}.db")
        self.open()
        if not from_start:
            self.made.steps(5)
            self.begin_at = self.made.truth.next_wire_seq
            self.snapshot()
        else:
            self.begin_at = 0

    def open(self):
        self.log = EventLog(self.database, chunk_events=40, chunk_seconds=0.001)
        self.key = self.log.open_epoch("engine", {}, "life", self.first, 1)

    def step(self):
        before = len(self.made.told)
        self.made.steps(1)
        [message] = self.made.told[before:]
        self.told.append(message)
        return message

    @rule(count=st.integers(1, 12))
    def append(self, count):
        for _ in range(count):
            message = self.step()
            assert self.log.append(self.key, message)
            self.stored.add(message.header.wire_seq)

    @rule(count=st.integers(1, 3))
    def lose(self, count):
        for _ in range(count):
            header = self.step().header
            assert self.log.gap(
                self.key, header.wire_seq, header.wire_seq, header.seq0, header.seq0 + header.n - 1, 1, ""
            )

    @precondition(lambda self: len(self.stored) < len(self.told))
    @rule(data=st.data())
    def comes_late(self, data):
        missing = [message for message in self.told if message.header.wire_seq not in self.stored]
        first = data.draw(st.integers(0, len(missing) - 1))
        for message in missing[first : first + data.draw(st.integers(1, 3))]:
            assert self.log.append(self.key, message)
            self.stored.add(message.header.wire_seq)

    @rule()
    def snapshot(self):
        truth = self.made.truth
        self.states[truth.next_wire_seq] = truth.copy()
        assert self.log.keyframe(self.key, truth.next_seq, truth.next_wire_seq, truth.t_ns, snapshot.dump(truth))

    @precondition(lambda self: self.told)
    @rule(blocks=st.sampled_from([16, 24, 40]))
    def change_blocks(self, blocks):
        self.made.change_blocks(blocks)
        message = self.made.told[-1]
        self.told.append(message)
        assert self.log.append(self.key, message)
        self.stored.add(message.header.wire_seq)

    @rule(waits=st.booleans())
    def restart(self, waits):
        if waits:
            wait_until_folded(self.log)
        assert self.log.close()
        self.log.check_integrity()
        self.open()

    @rule()
    def flush(self):
        assert self.log.flush(WAIT_S)

    @invariant()
    def holds_its_own_laws(self):
        self.log.check_integrity()

    @rule()
    def look(self):
        wait_until_folded(self.log)
        found = {row.wire_seq: row for row in keyframes(self.database, self.key)}
        folded = self.folds_from_start(set(found))
        for wire_seq, row in found.items():
            assert row.rollup is not None
            assert_same(snapshot.load(row.state), folded[wire_seq])

    def folds_from_start(self, places):
        """The state before each of these messages: message by message, from the first one or the first snapshot."""
        first = min([*self.stored, *self.states], default=0)
        state = BlockMap(self.first, source="engine", known=first == 0)
        found = {}
        messages = {message.header.wire_seq: message for message in self.told}
        state.next_wire_seq = first
        if first in messages:
            header = messages[first].header
            state.next_seq, state.t_ns = header.seq0, header.t0_wall_ns
        for wire_seq in range(first, self.made.truth.next_wire_seq + 1):
            if wire_seq in self.states:
                state = self.states[wire_seq].copy()
            if wire_seq in places:
                found[wire_seq] = state.copy()
            if wire_seq in self.stored:
                if state.next_wire_seq < wire_seq:
                    state.forget()
                state.apply(messages[wire_seq])
        return found

    def teardown(self):
        if not hasattr(self, "log"):
            return
        self.look()
        self.count_over()
        assert self.log.close()
        before = rollup_rows(self.database, self.key), keyframes(self.database, self.key)
        rebuild(self.database, self.key)
        after = rollup_rows(self.database, self.key), keyframes(self.database, self.key)
        assert after == before
        self.database.check_integrity()
        self.database.close()

    def count_over(self):
        stored = [message for message in self.told if message.header.wire_seq in self.stored]
        for seconds in (1, 60):
            found = rollups(self.database, self.key, 0, 2**62, seconds, ["events", "allocations", "tokens_generated"])
            columns = [message.columns for message in stored]
            assert found["events"].sum() == sum(one.num_events for one in columns)
            assert found["allocations"].sum() == sum(one.kind_counts()[Kind.BlockAllocated] for one in columns)
            generated = sum(int(one.a0[one.kind == Kind.TokensGenerated].sum()) for one in columns)
            assert found["tokens_generated"].sum() == generated


def test_every_keyframe_is_the_fold_from_the_start_whatever_happens(tmp_path_factory, request):
    class Here(Folds):
        folder = tmp_path_factory.mktemp("folds")

    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=10, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


@pytest.fixture
def behind(database, monkeypatch):
    """An epoch that is stored and not folded: (key, its first descriptor, what its fold makes)."""
    made = MadeUpHistory(ModelEngine(24, rows=12, seed=3, seldom=1.5))
    made.steps(120)
    with EventLog(database, chunk_events=40) as log:
        key = made.store(log, flush_every=5)
        wait_until_folded(log)
    expected = rollup_rows(database, key), keyframes(database, key)
    assert len(expected[1]) > 10
    with database.writing() as connection:
        begin_anew(connection, key)
        connection.execute(sa.delete(models.keyframe))
        connection.execute(sa.delete(models.rollup_1m))
    # Behind for as many commits as it has chunks.
    monkeypatch.setattr("kvxray_storage.catch_up.SLICE_CHUNKS", 1)
    monkeypatch.setattr("kvxray_storage.epoch_folds.SLICE_S", 0.0)
    return key, made.first, expected


def test_an_epoch_that_is_behind_is_folded_to_its_end_though_the_source_lives_in_the_next(database, behind):
    key, descriptor, expected = behind
    with EventLog(database, chunk_events=40) as log:
        assert log.open_epoch("engine", {}, "made-up", descriptor, 1) == key
        log.open_epoch("engine", {}, "after a restart", descriptor, 2)
        wait_until_folded(log)
        assert key not in log._writer._folds._live
    assert (rollup_rows(database, key), keyframes(database, key)) == expected


def test_an_epoch_left_behind_is_taken_up_by_the_next_log_though_nobody_opens_it(database, behind):
    key, descriptor, expected = behind
    with EventLog(database, chunk_events=40) as log:
        log.open_epoch("engine", {}, "after a restart", descriptor, 2)
        log.look_back()
        wait_until_folded(log)
        assert key not in log._writer._folds._live
    assert (rollup_rows(database, key), keyframes(database, key)) == expected


def test_what_is_looked_back_at_comes_after_what_is_opened(database, behind):
    key, descriptor, expected = behind
    folds = EpochFolds(database, database.writing, Packer())
    folds.left.wanted = True
    folds.open(CommitBatch(), key, descriptor)
    while key in folds._behind:
        assert folds.left
        folds.catch_up()
    assert folds.due_at is not None
    while folds.due_at is not None:
        folds.catch_up()
        assert not folds._behind, "it is folded already"
    assert (rollup_rows(database, key), keyframes(database, key)) == expected
