"""The queue is bounded whatever happens, and no loss goes untold."""

from __future__ import annotations

from kvxray_storage.records import EpochKey, Gap, OpenedEpoch, Repair
from kvxray_storage.write_queue import MAX_FINDINGS, RECORD_RESERVE_BYTES, Arrived, WriteQueue, message_bytes

from tests.storage.told_messages import T0_NS, Teller

A, B = EpochKey(1, 1), EpochKey(2, 1)


def gap(key, number, reason="lost"):
    return Gap(key, number, number, 5 * number, 5 * number + 4, T0_NS, reason)


def arrived(key=A):
    return Arrived(key, Teller().tell_step(), 0.0)


def take_all(queue):
    taken = []
    while (one := queue.take()) is not None:
        taken.append(one[0])
    return taken


def test_entries_come_out_in_order_and_count_until_they_are_given_back():
    queue = WriteQueue(10_000)
    first, second = arrived(), arrived()
    assert queue.offer(first, 6_000, 1.0)
    assert not queue.offer(second, 6_000, 2.0)
    assert queue.offer(second, 4_000, 2.0)
    assert (queue.num_events, queue.first_at) == (10, 1.0)
    assert take_all(queue) == [first, second]
    queue.check_integrity(taken_bytes=10_000)
    assert (queue.num_events, queue.first_at) == (0, None)
    assert not queue.offer(arrived(), 1, 3.0)
    queue.give_back(10_000, 0)
    queue.check_integrity(taken_bytes=0)
    assert queue.offer(arrived(), 10_000, 3.0)


def test_a_run_ends_where_its_messages_have_enough_events_or_something_else_comes():
    queue = WriteQueue(1 << 20)
    messages = [arrived() for _ in range(6)]  # five events each
    for one in messages:
        assert queue.offer(one, 10, 1.0)
    assert queue.offer_record(gap(A, 9), 1.0)
    assert queue.offer(arrived(B), 10, 1.0)
    assert queue.take_run(12) == [(one, 10) for one in messages[:3]]
    assert [type(entry) for entry, _ in queue.take_run(10_000)] == [Arrived, Arrived, Arrived, Gap]
    assert queue.first_at == 1.0
    assert [entry.key for entry, _ in queue.take_run(5)] == [B]
    assert queue.take_run(5) == []
    assert (queue.num_events, queue.first_at) == (0, None)
    queue.check_integrity(taken_bytes=70)


def test_a_run_of_messages_without_events_ends_too():
    queue = WriteQueue(1 << 20)
    empty = Arrived(A, Teller().tell([]), 0.0)
    assert empty.message.header.n == 0
    for _ in range(1000):
        assert queue.offer(empty, 1, 0.0)
    assert len(queue.take_run(10)) < 1000


def test_gaps_of_two_sources_that_take_turns_are_one_each():
    queue = WriteQueue(0)
    for number in range(50_000):
        assert queue.offer_record(gap(A, number), 0.0)
        assert queue.offer_record(gap(B, number), 0.0)
    assert [(one.key, one.wire_seq0, one.wire_seq1, one.seq1) for one in take_all(queue)] == [
        (A, 0, 49_999, 249_999),
        (B, 0, 49_999, 249_999),
    ]


def test_gaps_join_only_what_they_follow():
    queue = WriteQueue(10_000)
    assert queue.offer_record(gap(A, 1), 0.0)
    assert queue.offer_record(gap(A, 3), 0.0)
    assert queue.offer_record(gap(A, 4, "another reason"), 0.0)
    assert queue.offer(arrived(), 1, 0.0)
    assert queue.offer_record(gap(A, 5, "another reason"), 0.0)
    assert len(take_all(queue)) == 5
    assert queue.offer_record(gap(A, 6, "another reason"), 0.0)
    assert len(take_all(queue)) == 1


def test_without_room_for_records_gaps_and_epochs_are_still_taken():
    queue = WriteQueue(0)
    while queue.record_bytes + 512 <= RECORD_RESERVE_BYTES:
        assert queue.offer_record(Repair(A, 0, 0, 0), 0.0)
    assert not queue.offer_record(Repair(A, 0, 0, 0), 0.0)
    assert queue.offer_record(OpenedEpoch(A, "engine", "{}", "life-1", "{}", 0), 0.0)
    assert queue.offer_record(gap(A, 1), 0.0)
    assert queue.offer_record(gap(A, 2, "another reason"), 0.0)
    last = take_all(queue)[-1]
    assert (last.wire_seq0, last.wire_seq1, last.reason) == (1, 2, "lost")


def test_findings_are_bounded_by_number(make_finding):
    queue = WriteQueue(0)
    for number in range(MAX_FINDINGS):
        assert queue.offer_finding(make_finding(f"leak-{number}"), 0.0)
    assert not queue.offer_finding(make_finding("one too many"), 0.0)
    assert queue.offer_finding(make_finding("leak-7", state="ended"), 0.0)
    taken = queue.take_findings()
    assert len(taken) == MAX_FINDINGS
    assert taken[7].state == "ended"
    assert len(queue) == 0


def test_a_message_takes_at_least_what_its_columns_take():
    message = Teller().tell([], num_hashes=100)
    assert message_bytes(message) >= 3_200
