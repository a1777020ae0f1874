"""Minutes of signals are stored once, read in order, and the oldest of them go first."""

from __future__ import annotations

import random

from kvxray_storage.event_log import EventLog
from kvxray_storage.retention import Limits
from kvxray_storage.retention_keeper import Retention, RetentionKeeper
from kvxray_storage.signal_minutes import (
    SignalMinute,
    delete_minutes,
    newest_minute,
    oldest_quarter,
    read_minutes,
    sources_with_minutes,
    store_minutes,
)

EAST = [SignalMinute("east", 60 * number, bytes([number])) for number in range(1, 9)]
WEST = [SignalMinute("west", 120, b"w")]


def store(database, minutes):
    with database.writing() as connection:
        store_minutes(connection, minutes)


def test_they_are_read_in_order_and_as_far_as_asked_for(database):
    store(database, [*reversed(EAST), *WEST])
    assert read_minutes(database, "east", 0, 1000, 100) == EAST
    assert read_minutes(database, "east", 120, 240, 100) == EAST[1:3]
    assert read_minutes(database, "east", 0, 1000, 2) == EAST[:2]
    assert (newest_minute(database, "east"), newest_minute(database, "nobody")) == (480, None)
    assert newest_minute(database, "east", 300) == 240
    assert sources_with_minutes(database) == ["east", "west"]


def test_a_minute_is_stored_once(database):
    store(database, EAST)
    store(database, [SignalMinute("east", 60, b"another")])
    assert read_minutes(database, "east", 60, 61, 9) == EAST[:1]


def test_the_oldest_go_first(database):
    store(database, [*EAST, *WEST])
    before_s = oldest_quarter(database, 60)
    assert before_s == 60 + 420 // 4
    with database.writing() as connection:
        assert delete_minutes(connection, before_s) == 3
        assert delete_minutes(connection, before_s) == 0
    assert read_minutes(database, "east", 0, 1000, 100) == EAST[2:]
    assert read_minutes(database, "west", 0, 1000, 100) == []


def test_of_a_short_time_nothing_goes(database):
    assert oldest_quarter(database, 60) is None
    store(database, EAST[:2])
    assert oldest_quarter(database, 60) is None


def test_they_make_room_where_nothing_else_is_left_to_go(database):
    some = random.Random(7)
    minutes = [SignalMinute("east", 60 * number, some.randbytes(40_000)) for number in range(2_000)]
    with EventLog(database) as log:
        store(database, minutes)
        keeper = RetentionKeeper(database, log, Retention(Limits(None, 64 << 20), {}))
        keeper.look()
        left = read_minutes(database, "east", 0, 10**9, 10**6)
    assert 0 < len(left) < len(minutes)
    assert left == minutes[-len(left) :]
