"""kill -9 in the middle of writing: nothing acknowledged is lost, nothing is stored twice, the database is sound."""

from __future__ import annotations

import multiprocessing
import random
import sys
import time
import types

from kvxray_storage import history
from kvxray_storage.database import open_database
from kvxray_storage.records import EpochKey

from tests.storage.crash_writer import CURSOR, EVENTS, is_lost, message, name_of, write_for_ever
from tests.storage.told_messages import expand

KILLS = 20
LONGEST_S = 0.4
WAIT_S = 60.0
KEY = EpochKey(1, 1)


def test_twenty_killed_writers_lose_nothing_that_they_acknowledged(database_url, database_kind, request, monkeypatch):
    # What other tests made the main module is nothing that a new process should run again.
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    start = starter()
    moments = random.Random(4)
    acknowledged = checked = 0
    for kill in range(KILLS):
        # One of four is killed at any moment from its start on: while it opens the database, or makes its tables.
        told = write_until_killed(start, database_url, moments.uniform(0, LONGEST_S), anywhere=kill % 4 == 0)
        assert all(earlier <= later for earlier, later in zip(told, told[1:], strict=False))
        acknowledged = max([acknowledged, *told])
        checked = check(database_url, acknowledged, checked)
    assert acknowledged > 100, "nothing was under load"
    if database_kind == "postgresql":
        request.getfixturevalue("postgres_server").check("kvxray")


def starter():
    """A process that has imported everything and forks the writers: twenty starts cost what one does."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.storage.crash_writer", "psycopg"])
    return context


def write_until_killed(context, url, after_s, *, anywhere):
    """The cursors that one writer told. Killed `after_s` seconds after its start, or after its first new commit."""
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=write_for_ever, args=(url, writer))
    process.start()
    writer.close()
    told = []
    try:
        while not anywhere and (len(told) < 2 or told[-1] == told[0]):
            assert reader.poll(WAIT_S), "the writer commits nothing"
            told.append(receive(reader))
            assert told[-1] is not None, "the writer ended by itself"
        time.sleep(after_s)
    finally:
        process.kill()
        process.join()
    told += iter(lambda: receive(reader), None)
    reader.close()
    return told


def receive(reader):
    """None: it was killed, and this was all."""
    try:
        return CURSOR.unpack(reader.recv_bytes())[0]
    except EOFError:
        return None


def check(url, acknowledged, checked):
    """Message `checked` and all after it are stored up to the cursor, as they were told; returns the cursor's."""
    database = open_database(url)
    database.check_integrity()
    stored = history.events(database, KEY, EVENTS * checked, 10_000_000)
    gaps = history.gaps(database, KEY, 1_000_000)
    epochs = history.epochs(database, "engine")
    database.close()
    if not epochs:
        assert acknowledged == 0
        return 0
    end = stored[-1].seq // EVENTS + 1 if stored else checked
    end += 2 if is_lost(end) and end in [gap.wire_seq0 for gap in gaps] else 0
    assert end >= acknowledged
    told = [wire_seq for wire_seq in range(checked, end) if not is_lost(wire_seq)]
    names = {wire_seq: name_of(wire_seq) for wire_seq in told}
    assert stored == expand([message(wire_seq) for wire_seq in told], names)
    lost = [wire_seq for wire_seq in range(end) if is_lost(wire_seq)]
    assert sorted(wire_seq for gap in gaps for wire_seq in range(gap.wire_seq0, gap.wire_seq1 + 1)) == lost
    assert epochs[0].num_events == EVENTS * (end - len(lost))
    return end
