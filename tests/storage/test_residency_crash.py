"""kill -9 while a stream of hashes is stored: what was acknowledged is told as it was live, at any moment."""

from __future__ import annotations

import random
import sys
import types

from kvxray_storage.checking.residency_difference import residency_difference
from kvxray_storage.database import open_database
from kvxray_storage.records import EpochKey
from kvxray_storage.residency_travel import residency_at
from kvxray_storage.verify import verify

from tests.storage.crash_hashes import life, write_on
from tests.storage.test_event_log_crash import WAIT_S, receive, starter
from tests.storage.told_hashes import last_seq

KILLS = 4
ALL = 1 << 40
KEY = EpochKey(1, 1)


def write_until(context, url, most):
    """The last cursor that a writer told before it was killed, after so many of them (None: it came to the end)."""
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=write_on, args=(url, writer))
    process.start()
    writer.close()
    told = []
    while (most is None or len(told) < most) and ALL not in told:
        assert reader.poll(WAIT_S), "the writer tells nothing"
        told.append(receive(reader))
    if most is not None:
        process.kill()
    process.join()
    told += iter(lambda: receive(reader), None)
    reader.close()
    return max(told)


def test_killed_writers_leave_moments_that_can_be_told(database_url, monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    context, moments, followed = starter(), random.Random(2), life()
    for kill in range(KILLS):
        most = moments.randrange(30, 90) if kill + 1 < KILLS else None
        acknowledged = write_until(context, database_url, most)
        database = open_database(database_url)
        for at in range(kill, len(followed.told), 9):
            if followed.told[at].header.wire_seq < acknowledged:
                state = residency_at(database, KEY, last_seq(followed.told[at]))
                assert residency_difference(state, followed.folds[at]) == ""
        database.close()
    assert acknowledged == ALL
    database = open_database(database_url)
    assert verify(database).faults == []
    database.close()
