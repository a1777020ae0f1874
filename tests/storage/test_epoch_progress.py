"""Which message is next, late or a duplicate; and a cursor that never goes back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kvxray_storage.chunk_builder import ChunkBuilder
from kvxray_storage.epoch_progress import Admission, Arrival, Progress
from kvxray_storage.packing import Packer
from kvxray_storage.records import Cursor, EpochKey, Gap

from tests.storage.told_messages import T0_NS, Teller

KEY = EpochKey(1, 1)


@given(numbers=st.lists(st.integers(0, 30), max_size=60))
def test_every_number_is_taken_once_in_any_order(numbers):
    admission, taken = Admission(), set()
    for number in numbers:
        arrival = admission.judge(number)
        first = min(numbers[0], number)
        if number in taken or first < numbers[0]:
            # What lies before the first message ever seen was never missed.
            assert arrival is Arrival.duplicate
            continue
        assert arrival is (Arrival.next if not taken or number > max(taken) else Arrival.late)
        admission.take(number)
        taken.add(number)
        admission.check_integrity()


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("take"), st.integers(0, 30), st.just(0)),
            st.tuples(st.just("miss"), st.integers(0, 30), st.integers(0, 5)),
        ),
        max_size=40,
    )
)
def test_gaps_never_make_a_stored_message_late(steps):
    admission, taken = Admission(), set()
    for what, number, length in steps:
        if what == "miss":
            admission.miss(number, number + length)
        elif admission.judge(number) is not Arrival.duplicate:
            assert number not in taken
            admission.take(number)
            taken.add(number)
        admission.check_integrity()
        assert not [number for number in taken if number in admission.missing]


def chunk_of(*messages):
    builder = ChunkBuilder(KEY, 4096, 0.25, Packer())
    for message in messages:
        assert builder.add(message, 1, 0.0) == []
    return builder.cut()


def test_the_cursor_follows_chunks_and_gaps_and_late_chunks_leave_it():
    teller = Teller()
    messages = [teller.tell_step() for _ in range(6)]
    progress = Progress(KEY)
    assert progress.cursor is None
    progress = progress.with_chunk(chunk_of(*messages[:2]))
    assert progress.cursor == Cursor(2, 10)
    progress = progress.with_gap(Gap(KEY, 2, 3, 10, 19, T0_NS, "lost"))
    assert progress.cursor == Cursor(4, 20)
    progress = progress.with_chunk(chunk_of(*messages[4:])).with_chunk(chunk_of(messages[2]))
    assert progress.cursor == Cursor(6, 30)
    assert (progress.first_seq, progress.last_seq, progress.num_events, progress.num_chunks) == (0, 29, 25, 3)


def test_a_gap_that_begins_an_epoch():
    progress = Progress(KEY).with_gap(Gap(KEY, 0, 7, 0, 99, T0_NS, "kvxray was not following"))
    assert progress.cursor == Cursor(8, 100)
    assert progress.first_seq is None
