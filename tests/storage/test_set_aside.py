"""What cannot be stored becomes a gap of its own engine's history: the rest of it, and all the others', goes on."""

from __future__ import annotations

import pytest
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.schema import Name
from kvxray_engine.stream.snapshot import dump
from kvxray_storage import chunk_builder, commit_batch, history
from kvxray_storage.event_log import EventLog
from kvxray_storage.records import Cursor
from kvxray_storage.set_aside import CANNOT_BE_STORED
from kvxray_storage.verify import verify
from msgspec.structs import replace

from tests.storage.test_epoch_folds import wait_until_folded
from tests.storage.told_hashes import EVENTFUL, Life
from tests.storage.told_messages import T0_NS, Teller, a_step, descriptor, expand

WAIT_S = 60.0
TOO_LARGE = 1 << 70
"""For any column."""
NOT_TEXT = "\ud800"
"""Half a character: no database takes it."""


@pytest.fixture
def log(database):
    # What is handed in between two flushes is one commit.
    with EventLog(database, chunk_events=15, chunk_seconds=30.0) as opened:
        yield opened
        opened.check_integrity()


class Engine:
    """Tells steps, and keeps those that are to be found again."""

    def __init__(self, log, name):
        self.log, self.teller, self.told = log, Teller(), []
        self.key = log.open_epoch(name, {}, "life-1", descriptor(), T0_NS)

    def tell(self, messages=1):
        for _ in range(messages):
            self.told.append(self.teller.tell_step())
            assert self.log.append(self.key, self.told[-1])

    def tell_bad(self, name):
        """A step of a request with such a name, in a chunk of its own, as ordinals are left out before and after it."""
        self.teller.req += 1
        message = self.teller.tell(a_step(1, self.teller.req, 1), names=[Name("bad")])
        assert self.log.append(self.key, Message(replace(message.header, names=(Name(name),)), message.columns))
        self.teller.req += 1

    def check_stored(self, database):
        names = self.teller.names
        assert history.events(database, self.key, 0, 1_000_000) == expand(self.told, names)


@pytest.fixture
def spoilt_name(monkeypatch):
    """A request's name that cannot be written, though a chunk can be made of it."""
    texts = commit_batch.name_texts

    def spoil(name):
        return (NOT_TEXT, "") if name.id == "spoilt" else texts(name)

    monkeypatch.setattr(commit_batch, "name_texts", spoil)
    return "spoilt"


def check_clean(database, log):
    assert log.failed is None
    wait_until_folded(log)
    verdict = verify(database)
    assert verdict.faults == []


@pytest.mark.parametrize("fails", ["in the statement", "before it"])
def test_a_message_that_cannot_be_written_is_a_gap_and_nothing_else_is_lost(database, log, spoilt_name, fails):
    good, bad = Engine(log, "good"), Engine(log, "bad")
    for _ in range(3):
        good.tell(4)
        bad.tell(4)
        bad.tell_bad(spoilt_name if fails == "in the statement" else NOT_TEXT)
        bad.tell(4)
        good.tell(4)
        assert log.flush(WAIT_S)
        log.check_integrity()
    good.check_stored(database)
    bad.check_stored(database)
    gaps = history.gaps(database, bad.key, 10)
    assert [(gap.wire_seq0, gap.wire_seq1, gap.seq0, gap.seq1, gap.reason) for gap in gaps] == [
        (at, at, 5 * at, 5 * at + 4, CANNOT_BE_STORED) for at in (22, 13, 4)
    ]
    assert history.gaps(database, good.key, 10) == []
    assert (log.cursor(good.key), log.cursor(bad.key)) == (Cursor(24, 120), Cursor(27, 135))
    assert log.stats().stored_events == 5 * (24 + 24)
    assert log.stats().queue_bytes == 0
    check_clean(database, log)


def test_what_came_before_and_after_it_in_one_commit_is_folded(database, log, spoilt_name):
    bad = Engine(log, "bad")
    bad.tell(60)
    bad.tell_bad(spoilt_name)
    bad.tell(60)
    assert log.flush(WAIT_S)
    bad.check_stored(database)
    wait_until_folded(log)
    bad.tell(60)
    assert log.flush(WAIT_S)
    bad.check_stored(database)
    assert not log._writer._folds._behind
    check_clean(database, log)


def test_messages_of_which_no_chunk_can_be_made_are_a_gap(database, log, monkeypatch):
    good, bad = Engine(log, "good"), Engine(log, "bad")
    close = chunk_builder._close
    spoilt = [False]

    def fail(key, messages, *others):
        if spoilt[0] and key == bad.key:
            raise OverflowError("a number has no room")
        return close(key, messages, *others)

    monkeypatch.setattr(chunk_builder, "_close", fail)
    good.tell(2)
    bad.tell(2)
    assert log.flush(WAIT_S)
    spoilt[0] = True
    kept = list(bad.told)
    bad.tell(2)
    bad.told = kept
    good.tell(2)
    assert log.flush(WAIT_S)
    spoilt[0] = False
    good.tell(2)
    bad.tell(2)
    assert log.flush(WAIT_S)
    good.check_stored(database)
    bad.check_stored(database)
    [gap] = history.gaps(database, bad.key, 10)
    assert (gap.wire_seq0, gap.wire_seq1, gap.seq0, gap.seq1) == (2, 3, 10, 19)
    assert log.cursor(bad.key) == Cursor(6, 30)
    check_clean(database, log)


@pytest.mark.parametrize("place", ["chunk_builder.draft", "chunk.Draft.pack", "folded_pool.snapshot.Draft.pack"])
def test_what_cannot_be_packed_does_not_stop_the_log(database, log, monkeypatch, place):
    """Also in the thread that packs; a keyframe is drawn beside the first chunk, which needs none."""

    def fail(*_):
        raise ZeroDivisionError

    bad = Engine(log, "bad")
    with monkeypatch.context() as patched:
        patched.setattr(f"kvxray_storage.{place}", fail)
        bad.tell()
        assert log.flush(WAIT_S)
    if "snapshot" not in place:
        [gap] = history.gaps(database, bad.key, 10)
        assert (gap.wire_seq0, gap.wire_seq1) == (0, 0)
        bad.told.clear()
    bad.tell(3)
    assert log.flush(WAIT_S)
    bad.check_stored(database)
    assert log.cursor(bad.key) == Cursor(4, 20)
    check_clean(database, log)


def test_an_epoch_that_cannot_be_opened_costs_only_itself(database, log):
    good = Engine(log, "good")
    good.tell(3)
    lost = log.open_epoch("bad", {}, "life-1", descriptor(), TOO_LARGE)
    teller = Teller()
    for _ in range(3):
        assert log.append(lost, teller.tell_step())
        good.tell()
    assert log.flush(WAIT_S)
    assert log.append(lost, teller.tell_step())
    assert log.gap(lost, 9, 9, 45, 49, T0_NS, "lost")
    good.tell()
    assert log.flush(WAIT_S)
    good.check_stored(database)
    assert log.stats().queue_bytes == 0
    log.check_integrity()
    next_life = log.open_epoch("bad", {}, "life-2", descriptor(), T0_NS)
    message = Teller("life-2").tell_step()
    assert log.append(next_life, message)
    assert log.flush(WAIT_S)
    assert history.events(database, next_life, 0, 100) == expand([message], {0: "request-0"})
    check_clean(database, log)


def test_a_keyframe_a_gap_or_a_finding_that_cannot_be_written_costs_only_itself(database, log, make_finding):
    good, bad = Engine(log, "good"), Engine(log, "bad")
    good.tell(2)
    bad.tell(2)
    state = dump(BlockMap(descriptor(), source="bad"))
    assert log.keyframe(bad.key, 10, 2, TOO_LARGE, state)
    assert log.gap(bad.key, 2, 3, 10, 19, TOO_LARGE, "lost")
    bad.teller.lose(2, 10)
    assert log.finding(make_finding("bad", seq0=TOO_LARGE))
    assert log.finding(make_finding("good"))
    bad.tell(2)
    good.tell(2)
    assert log.flush(WAIT_S)
    good.check_stored(database)
    bad.check_stored(database)
    assert [finding.id for finding in history.findings(database, None)] == ["good"]
    check_clean(database, log)


def test_a_stream_of_hashes_loses_one_batch_and_is_verified(database, log):
    good, life = Engine(log, "good"), Life().hear_all(*EVENTFUL[:3])
    at = next(at for at, one in enumerate(life.told) if at > 5)
    message = life.told[at]
    life.told[at] = Message(replace(message.header, names=(Name(NOT_TEXT),)), message.columns)
    key = log.open_epoch("hashes", {}, "life-1", life.descriptor, T0_NS)
    life.begin_in(log, key)
    for one in range(len(life.told)):
        life.tell(log, key, one)
        if one % 10 == 0:
            good.tell()
    assert log.flush(WAIT_S)
    good.check_stored(database)
    stored = {row.seq for row in history.events(database, key, 0, 1_000_000)}
    told = {seq for one in life.told for seq in range(one.header.seq0, one.header.seq0 + one.header.n)}
    missing = {seq for gap in history.gaps(database, key, 10) for seq in told if gap.seq0 <= seq <= gap.seq1}
    assert stored | missing == told
    assert not stored & missing
    assert message.header.seq0 in missing
    check_clean(database, log)
