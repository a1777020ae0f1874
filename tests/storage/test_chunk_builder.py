"""Where a chunk ends."""

from __future__ import annotations

import pytest
from kvxray_engine.stream.schema import Kind
from kvxray_storage.chunk_builder import ChunkBuilder
from kvxray_storage.packing import Packer
from kvxray_storage.records import EpochKey

from tests.storage.told_messages import Teller, Told, descriptor

HOUR_NS = 3600 * 10**9


def builder(chunk_events=4096, chunk_seconds=0.25):
    return ChunkBuilder(EpochKey(1, 1), chunk_events, chunk_seconds, Packer())


def ranges(chunks):
    return [(chunk.wire_seq0, chunk.wire_seq1) for chunk in chunks]


def add_all(under_test, messages):
    closed = []
    for message in messages:
        closed += under_test.add(message, 1, 0.0)
        under_test.check_integrity()
    last = under_test.cut()
    return ranges(closed + ([last] if last else []))


def test_messages_that_follow_each_other_make_one_chunk():
    teller = Teller()
    assert add_all(builder(), [teller.tell_step(step) for step in range(9)]) == [(0, 8)]


def test_a_chunk_ends_with_its_number_of_events():
    teller = Teller()
    assert add_all(builder(chunk_events=10), [teller.tell_step(step) for step in range(5)]) == [(0, 1), (2, 3), (4, 4)]


def test_a_message_larger_than_a_chunk_is_a_chunk():
    teller = Teller()
    large = [Told(Kind.StepStarted), Told(Kind.BlockAllocated, 0, tuple(range(30)))]
    under_test = builder(chunk_events=10)
    assert under_test.add(teller.tell_step(), 1, 0.0) == []
    closed = under_test.add(teller.tell(large), 1, 0.0)
    assert ranges(closed) == [(0, 1)]
    assert closed[0].num_events == 36


def test_a_chunk_is_due_after_its_time():
    teller, under_test = Teller(), builder(chunk_seconds=0.25)
    assert under_test.due_at is None
    under_test.add(teller.tell_step(), 1, 100.0)
    under_test.add(teller.tell_step(), 1, 100.2)
    assert under_test.due_at == 100.25
    assert ranges([under_test.cut()]) == [(0, 1)]
    assert under_test.due_at is None
    assert under_test.cut() is None


def test_a_hole_cuts():
    teller = Teller()
    first = teller.tell_step()
    teller.lose(messages=2, events=7)
    assert add_all(builder(), [first, teller.tell_step()]) == [(0, 0), (3, 3)]


def test_another_hash_width_cuts():
    teller = Teller(hash_width=32)
    first = teller.tell_step()
    teller.hash_width = 8
    assert add_all(builder(), [first, teller.tell_step()]) == [(0, 0), (1, 1)]


def test_a_changed_descriptor_is_a_chunk_of_its_own():
    teller = Teller()
    messages = [teller.tell_step(), teller.tell_descriptor(descriptor(128)), teller.tell_step()]
    under_test = builder()
    assert under_test.add(messages[0], 1, 0.0) == []
    before, changed = under_test.add(messages[1], 1, 0.0)
    assert ranges([before, changed]) == [(0, 0), (1, 1)]
    assert (changed.num_events, changed.seq0, changed.seq1) == (0, 5, 4)
    assert b'"num_blocks":128' in changed.descriptor
    assert under_test.add(messages[2], 1, 0.0) == []


@pytest.mark.parametrize("after_ns", [-1_000, HOUR_NS])
def test_a_clock_that_went_back_or_an_hour_cuts(after_ns):
    teller = Teller()
    messages = [teller.tell_step(), teller.tell([Told(Kind.StepStarted)], after_ns=after_ns)]
    assert add_all(builder(), messages) == [(0, 0), (1, 1)]


def test_a_time_that_would_not_fit_its_column_cuts():
    teller = Teller()
    late = Told(Kind.StepStarted, a0=2**32 - 500)
    messages = [teller.tell_step(), teller.tell([late], after_ns=1_000_000)]
    assert add_all(builder(), messages) == [(0, 0), (1, 1)]


def test_a_message_that_does_not_begin_with_a_step_begins_a_chunk():
    teller = Teller()
    messages = [teller.tell_step(), teller.tell([Told(Kind.CacheCleared)]), teller.tell_step()]
    assert add_all(builder(), messages) == [(0, 0), (1, 2)]


def test_a_chunk_gives_back_what_its_messages_took_of_the_queue():
    teller, under_test = Teller(), builder()
    under_test.add(teller.tell_step(), 100, 0.0)
    under_test.add(teller.tell_step(), 23, 0.0)
    assert under_test.queue_bytes == 123
    assert under_test.cut().queue_bytes == 123
    assert under_test.queue_bytes == 0


def test_a_chunk_may_be_let_grow_and_is_then_full_but_open():
    builder, teller = ChunkBuilder(EpochKey(1, 1), 10, 60.0, Packer()), Teller()
    assert [builder.add(teller.tell_step(), 1, 0.0, max_events=40) for _ in range(3)] == [[]] * 3
    assert builder.is_full
    [chunk] = builder.add(teller.tell_step(), 1, 0.0)
    assert (chunk.num_events, builder.is_full) == (20, False)
