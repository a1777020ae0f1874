"""The event log stores each message once, acknowledges only what is durable, and says what it could not take."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa
from kvxray_engine.errors import UserError
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.schema import Name
from kvxray_engine.stream.snapshot import dump
from kvxray_storage import history, models
from kvxray_storage.event_log import EventLog
from kvxray_storage.postings import runs_of_holder
from kvxray_storage.records import Cursor, EpochKey
from kvxray_storage.write_queue import message_bytes

from tests.storage.told_messages import T0_NS, Teller, a_step, descriptor, expand

WAIT_S = 60.0


@pytest.fixture
def log(database):
    with EventLog(database, chunk_seconds=0.01) as opened:
        yield opened
        opened.check_integrity()


def open_epoch(log, incarnation="life-1", source="engine", wall_ns=T0_NS):
    return log.open_epoch(source, {"model": "told"}, incarnation, descriptor(), wall_ns)


def append_all(log, key, messages):
    for message in messages:
        assert log.append(key, message)
        log.check_integrity()


def chunk_ranges(database, key):
    chunk = models.chunk
    with database.reading() as connection:
        query = sa.select(chunk.c.wire_seq0, chunk.c.wire_seq1).where(chunk.c.epoch == key.epoch)
        return [tuple(row) for row in connection.execute(query.order_by(chunk.c.wire_seq0))]


def all_events(database, key):
    return history.events(database, key, 0, 1_000_000)


# What is stored


def test_messages_come_back_as_the_events_they_told(database, log):
    key, teller = open_epoch(log), Teller()
    messages = [teller.tell_step(step, block=step % 60 + 1) for step in range(50)]
    append_all(log, key, messages)
    assert log.flush(WAIT_S)
    assert all_events(database, key) == expand(messages, teller.names)
    assert log.stats().stored_events == 250
    assert log.stats().queue_bytes == 0
    database.check_integrity()


def test_what_is_handed_in_is_committed_without_asking(database, log):
    key, teller = open_epoch(log), Teller()
    append_all(log, key, [teller.tell_step()])
    with log._changed:
        assert log._changed.wait_for(lambda: log._writer.committed[key].cursor == Cursor(1, 5), WAIT_S)
    assert len(all_events(database, key)) == 5


def test_the_cursor_is_what_was_committed_and_nothing_more(database):
    with EventLog(database, chunk_seconds=60.0) as log:
        key, teller = open_epoch(log), Teller()
        assert log.cursor(key) is None
        append_all(log, key, [teller.tell_step(), teller.tell_step()])
        assert log.cursor(key) is None
        assert log.flush(WAIT_S)
        assert log.cursor(key) == Cursor(next_wire_seq=2, next_seq=10)
        append_all(log, key, [teller.tell_step()])
        assert log.cursor(key) == Cursor(2, 10)


def test_the_cursor_and_its_chunks_are_one_transaction(database, log):
    key, teller = open_epoch(log), Teller()
    append_all(log, key, [teller.tell_step() for _ in range(3)])
    assert log.flush(WAIT_S)
    with database.reading() as connection:
        cursor = connection.execute(sa.select(models.cursor)).one()
        last = connection.execute(sa.select(sa.func.max(models.chunk.c.wire_seq1))).scalar_one()
        epoch = connection.execute(sa.select(models.epoch)).one()
    assert (cursor.next_wire_seq, cursor.next_seq) == (last + 1, 15)
    assert (epoch.first_seq, epoch.last_seq, epoch.num_events, epoch.num_chunks) == (0, 14, 15, 1)


def test_a_full_chunk_does_not_wait_for_its_time(database):
    with EventLog(database, chunk_events=10, chunk_seconds=600.0) as log:
        key, teller = open_epoch(log), Teller()
        append_all(log, key, [teller.tell_step() for _ in range(4)])
        with log._changed:
            assert log._changed.wait_for(lambda: log._writer.committed[key].cursor == Cursor(4, 20), WAIT_S)
    assert chunk_ranges(database, key) == [(0, 1), (2, 3)]


def test_chunks_are_larger_while_more_waits_than_one_holds(database, monkeypatch):
    teller = Teller()
    messages = [teller.tell_step() for _ in range(30)]
    with EventLog(database, chunk_events=10, chunk_seconds=600.0) as log:
        key = open_epoch(log)
        with log._changed:  # the writer comes to nothing before all of it waits
            append_all(log, key, messages)
        with log._changed:
            assert log._changed.wait_for(lambda: log._writer.committed[key].cursor == Cursor(30, 150), WAIT_S)
    sizes = [last - first + 1 for first, last in chunk_ranges(database, key)]
    assert sizes == [12, 12, 6], "also the last ones, when less waits than at first"
    assert all_events(database, key) == expand(messages, teller.names)


def test_several_sources_are_kept_apart(database, log):
    keys = [open_epoch(log, source=name) for name in ("a", "b")]
    tellers = [Teller(), Teller()]
    told = [[teller.tell_step(step, block) for step in range(5)] for block, teller in enumerate(tellers, 7)]
    for messages in zip(*told, strict=True):
        for key, message in zip(keys, messages, strict=True):
            assert log.append(key, message)
    assert log.flush(WAIT_S)
    for key, teller, messages in zip(keys, tellers, told, strict=True):
        assert all_events(database, key) == expand(messages, teller.names)


def test_a_changed_descriptor_is_stored_and_becomes_the_epochs(database, log):
    key, teller = open_epoch(log), Teller()
    messages = [teller.tell_step(), teller.tell_descriptor(descriptor(128)), teller.tell_step()]
    append_all(log, key, messages)
    assert log.flush(WAIT_S)
    assert chunk_ranges(database, key) == [(0, 0), (1, 1), (2, 2)]
    assert history.epochs(database, "engine")[0].descriptor.num_blocks == 128
    assert all_events(database, key) == expand(messages, teller.names)
    assert log.cursor(key) == Cursor(3, 10)


def test_a_keyframe_cuts_the_chunk_and_brings_the_names_of_requests_that_were_there_before(database, log):
    key, teller = open_epoch(log), Teller(req=5)
    early = BlockMap(descriptor())
    early.requests.add_names(3, [Name("began-before-us")])
    append_all(log, key, [teller.tell_step()])
    assert log.keyframe(key, seq=5, wire_seq=1, t_ns=T0_NS, state=dump(early))
    teller.names[3] = "began-before-us"
    late = teller.tell(a_step(step=1, req=3, block=9))
    append_all(log, key, [late])
    assert log.flush(WAIT_S)
    assert chunk_ranges(database, key) == [(0, 0), (1, 1)]
    assert {row.request_id for row in all_events(database, key)} == {"request-5", "began-before-us", None}
    with database.reading() as connection:
        told = sa.select(models.keyframe).where(models.keyframe.c.origin == "snapshot")
        stored = connection.execute(told).one()
    assert (stored.seq, stored.wire_seq, stored.kind, stored.state) == (5, 1, "pool", dump(early))


def test_holders_are_indexed_by_the_chunks_they_occur_in(database, log):
    key, teller = open_epoch(log), Teller()
    append_all(log, key, [teller.tell_step() for _ in range(3)])
    assert log.flush(WAIT_S)
    with database.reading() as connection:
        assert [runs_of_holder(connection, key, req) for req in range(4)] == [[(0, 2)]] * 3 + [[]]


@pytest.mark.parametrize(
    ("name", "detail"),
    [(Name("a"), "{}"), (Name("a", "pin", parent=7, salt="s"), '{"kind":"pin","parent":7,"salt":"s"}')],
)
def test_of_a_holder_what_is_unusual_is_stored(database, log, name, detail):
    key, teller = open_epoch(log), Teller()
    append_all(log, key, [teller.tell(a_step(1, 0, block=1), names=[name])])
    assert log.flush(WAIT_S)
    with database.reading() as connection:
        assert connection.execute(sa.select(models.name.c.detail)).scalars().all() == [detail]


# Order, repetition, loss


def test_a_message_handed_in_twice_is_stored_once(database, log):
    key, teller = open_epoch(log), Teller()
    messages = [teller.tell_step() for _ in range(4)]
    append_all(log, key, [*messages, messages[1], messages[3], messages[0]])
    assert log.flush(WAIT_S)
    assert all_events(database, key) == expand(messages, teller.names)
    assert log.stats().duplicates == 3


def test_a_gap_is_recorded_and_the_cursor_moves_past_it(database, log):
    key, teller = open_epoch(log), Teller()
    append_all(log, key, [teller.tell_step()])
    teller.lose(messages=3, events=12)
    assert log.gap(key, 1, 3, 5, 16, T0_NS, "lost on the wire")
    assert log.flush(WAIT_S)
    assert log.cursor(key) == Cursor(4, 17)
    append_all(log, key, [teller.tell_step()])
    assert log.flush(WAIT_S)
    assert history.gaps(database, key, 10) == [history.GapRow(1, 3, 5, 16, T0_NS, "lost on the wire", repaired_ns=None)]
    assert history.count_gaps(database, key) == 1
    assert [row.seq for row in all_events(database, key)] == [*range(5), *range(17, 22)]


def test_gaps_that_follow_each_other_are_one(database):
    with EventLog(database, chunk_seconds=60.0) as log:
        key = open_epoch(log)
        for lost in range(1000):
            assert log.gap(key, lost, lost, 5 * lost, 5 * lost + 4, T0_NS, "the log's queue was full")
        assert log.flush(WAIT_S)
        [gap] = history.gaps(database, key, 10)
        assert (gap.wire_seq0, gap.wire_seq1, gap.seq0, gap.seq1) == (0, 999, 0, 4999)


def test_a_gap_whose_end_is_not_known(database, log):
    key, teller = open_epoch(log), Teller()
    append_all(log, key, [teller.tell_step()])
    assert log.gap(key, 1, 2, 5, None, T0_NS, "the engine was killed")
    assert log.flush(WAIT_S)
    assert history.gaps(database, key, 1)[0].seq1 is None
    assert log.cursor(key) == Cursor(3, 5)


def test_late_messages_are_stored_in_their_place_once_and_the_gap_is_marked_repaired(database, log):
    key, teller = open_epoch(log), Teller()
    messages = [teller.tell_step(step) for step in range(6)]
    append_all(log, key, messages[:2])
    assert log.gap(key, 2, 3, 10, 19, T0_NS, "lost on the wire")
    append_all(log, key, messages[4:])
    append_all(log, key, [messages[3], messages[2], messages[3]])
    assert log.repair_gap(key, 2, 3, T0_NS + 7)
    assert log.flush(WAIT_S)
    assert all_events(database, key) == expand(messages, teller.names)
    assert history.gaps(database, key, 10)[0].repaired_ns == T0_NS + 7
    assert log.cursor(key) == Cursor(6, 30)
    assert log.stats().duplicates == 1


def test_a_gap_is_still_known_after_a_restart_so_that_late_messages_are(database):
    teller = Teller()
    messages = [teller.tell_step(step) for step in range(6)]
    with EventLog(database) as log:
        key = open_epoch(log)
        append_all(log, key, messages[:1])
        log.gap(key, 1, 3, 5, 19, T0_NS, "lost on the wire")
        append_all(log, key, [*messages[4:], messages[2]])
    with EventLog(database) as log:
        assert open_epoch(log) == key
        append_all(log, key, messages)
        log.check_integrity()
        assert log.stats().duplicates == 4
    assert all_events(database, key) == expand(messages, teller.names)


# Epochs


def test_the_same_incarnation_goes_on_after_a_restart(database):
    teller = Teller()
    messages = [teller.tell_step(step) for step in range(8)]
    with EventLog(database) as log:
        key = open_epoch(log)
        append_all(log, key, messages[:4])
    with EventLog(database) as log:
        assert open_epoch(log, wall_ns=T0_NS + 5) == key
        assert log.cursor(key) == Cursor(4, 20)
        assert log.stats().stored_events == 20
        append_all(log, key, messages[2:])
    assert all_events(database, key) == expand(messages, teller.names)
    [epoch] = history.epochs(database, "engine")
    assert (epoch.epoch, epoch.started_ns, epoch.ended_ns) == (1, T0_NS, None)
    assert (epoch.first_seq, epoch.last_seq, epoch.num_events) == (0, 39, 40)


def test_a_new_incarnation_is_the_next_epoch_and_the_earlier_one_is_over(database, log):
    first = open_epoch(log, "life-1")
    append_all(log, first, [Teller("life-1").tell_step()])
    second = open_epoch(log, "life-2", wall_ns=T0_NS + 9)
    append_all(log, second, [Teller("life-2").tell_step(block=2)])
    assert log.flush(WAIT_S)
    assert (first, second) == (EpochKey(1, 1), EpochKey(1, 2))
    assert [(one.epoch, one.incarnation, one.ended_ns) for one in history.epochs(database, "engine")] == [
        (1, "life-1", T0_NS + 9),
        (2, "life-2", None),
    ]
    assert len(all_events(database, first)) == len(all_events(database, second)) == 5


def test_numbers_of_epochs_and_sources_go_on_after_a_restart(database):
    with EventLog(database) as log:
        assert open_epoch(log, "life-1", "a") == EpochKey(1, 1)
        assert open_epoch(log, "life-1", "b") == EpochKey(2, 1)
    with EventLog(database) as log:
        assert open_epoch(log, "life-2", "b") == EpochKey(2, 2)
        assert open_epoch(log, "life-1", "c") == EpochKey(3, 1)
        assert open_epoch(log, "life-1", "a") == EpochKey(1, 1)
    assert [(one.name, one.labels) for one in history.sources(database)] == [
        (name, {"model": "told"}) for name in ("a", "b", "c")
    ]


def test_an_earlier_incarnation_that_speaks_again_is_open_again(database, log):
    open_epoch(log, "life-1")
    open_epoch(log, "life-2", wall_ns=T0_NS + 1)
    open_epoch(log, "life-1", wall_ns=T0_NS + 2)
    assert [one.ended_ns for one in history.epochs(database, "engine")] == [None, T0_NS + 2]


# Findings


def test_a_finding_is_opened_ended_and_survives_a_restart(database, make_finding):
    with EventLog(database) as log:
        open_epoch(log)
        assert log.finding(make_finding())
        assert log.finding(make_finding("leak-2", time_ns=T0_NS + 1))
        assert log.flush(WAIT_S)
        assert history.findings(database, "engine", "open") == [
            make_finding("leak-2", time_ns=T0_NS + 1),
            make_finding(),
        ]
        ended = make_finding(state="ended", ended_ns=T0_NS + 5, numbers={"blocks": 0})
        assert log.finding(ended)
    assert history.findings(database, "engine", "ended") == [ended]
    assert history.findings(database, "engine", "open") == [make_finding("leak-2", time_ns=T0_NS + 1)]
    assert len(history.findings(database, None, "all")) == 2
    assert history.findings(database, "another", "all") == []


def test_of_many_updates_of_a_finding_the_last_counts(database, make_finding):
    with EventLog(database, chunk_seconds=60.0) as log:
        for blocks in range(1000):
            assert log.finding(make_finding(numbers={"blocks": blocks}))
        assert log.flush(WAIT_S)
    assert history.findings(database, "engine") == [make_finding(numbers={"blocks": 999})]


# Bounds


def test_a_full_queue_refuses_counts_and_recovers(database):
    teller = Teller()
    messages = [teller.tell_step(step) for step in range(10)]
    room = 4 * message_bytes(messages[0])
    with EventLog(database, chunk_seconds=60.0, max_queue_bytes=room) as log:
        key = open_epoch(log)
        taken = [log.append(key, message) for message in messages]
        assert taken == [True] * 4 + [False] * 6
        assert log.stats().queue_bytes <= room
        assert (log.dropped, log.stats().dropped_events) == (6, 30)
        assert log.gap(key, 4, 9, 20, 49, T0_NS, "the log's queue was full")
        log.check_integrity()
        assert log.flush(WAIT_S)
        assert log.cursor(key) == Cursor(10, 50)
        assert log.append(key, messages[7])
    assert [row.seq for row in all_events(database, key)] == [*range(20), *range(35, 40)]


def test_a_keyframe_that_does_not_fit_is_refused(database):
    with EventLog(database, max_queue_bytes=10_000) as log:
        key = open_epoch(log)
        assert not log.keyframe(key, 0, 0, T0_NS, b"x" * 20_000, names={})
        assert log.keyframe(key, 0, 0, T0_NS, b"x" * 2_000, names={})


def test_a_keyframe_that_cannot_be_read_is_stored_as_it_is(database, log):
    key = open_epoch(log)
    assert log.keyframe(key, 0, 0, T0_NS, b"not a snapshot")
    assert log.flush(WAIT_S)
    assert log.failed is None


def test_a_closed_log_takes_nothing_more(database, make_finding):
    teller = Teller()
    log = EventLog(database)
    key = open_epoch(log)
    assert log.append(key, teller.tell_step())
    assert log.close()
    assert not log.append(key, teller.tell_step())
    assert not log.finding(make_finding())
    assert len(all_events(database, key)) == 5


def test_two_logs_on_one_database_are_refused(database):
    with EventLog(database), pytest.raises(UserError, match="Another kvxray already writes to the database at"):
        EventLog(database)
    EventLog(database).close()


def test_an_internal_error_that_no_entry_is_to_blame_for_stops_the_log_and_is_said(database, monkeypatch):
    with EventLog(database, chunk_seconds=0.01) as log:
        key, teller = open_epoch(log), Teller()

        def fail(*_):
            raise ZeroDivisionError

        monkeypatch.setattr("kvxray_storage.epoch_folds.EpochFolds.settle", fail)
        assert log.append(key, teller.tell_step())
        with log._changed:
            assert log._changed.wait_for(lambda: log._writer.stopped, WAIT_S)
        assert "internal error" in log.failed
        assert not log.append(key, teller.tell_step())


def test_appending_from_many_threads(database):
    with EventLog(database, chunk_events=64, chunk_seconds=0.01) as log:
        keys = [open_epoch(log, source=f"engine-{at}") for at in range(4)]
        told = [[teller.tell_step(step) for step in range(100)] for teller in (Teller() for _ in keys)]

        def feed(key, messages):
            for message in messages:
                assert log.append(key, message)

        threads = [threading.Thread(target=feed, args=each) for each in zip(keys, told, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert log.flush(WAIT_S)
        log.check_integrity()
        assert [log.cursor(key) for key in keys] == [Cursor(100, 500)] * 4
    for key in keys:
        assert [row.seq for row in all_events(database, key)] == list(range(500))
