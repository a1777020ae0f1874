"""kill -9 in the middle of writing: nothing acknowledged is lost, nothing is stored twice, the database is sound."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

from kvxray_storage import history
from kvxray_storage.database import open_database
from kvxray_storage.records import EpochKey

from tests.storage.told_messages import Teller, expand

ROUNDS = 3
ROOT = Path(__file__).parents[2]
KEY = EpochKey(1, 1)

WRITER = """
import sys
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog
from tests.storage.told_messages import T0_NS, Teller, descriptor

log = EventLog(open_database(sys.argv[1]), chunk_events=40, chunk_seconds=0.005)
key = log.open_epoch("engine", {}, "life-1", descriptor(), T0_NS)
cursor = log.cursor(key)
next_wire_seq = cursor.next_wire_seq if cursor else 0
print(next_wire_seq, flush=True)
teller = Teller()
while True:
    message = teller.tell_step(teller.wire_seq)
    # A publisher's replay begins a little before the cursor: what is stored already comes again.
    if message.header.wire_seq < next_wire_seq - 3:
        continue
    while not log.append(key, message):
        pass
    if message.header.wire_seq % 10 == 0:
        log.check_integrity()
        cursor = log.cursor(key)
        print(cursor.next_wire_seq if cursor else 0, flush=True)
"""


def write_until_killed(url: str, lines: int) -> int:
    """The last cursor that a writer told before it was killed, `lines` lines after its first commit."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, url], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        told = [int(process.stdout.readline())]
        while told[-1] == told[0]:
            told.append(int(process.stdout.readline()))
        told += [int(process.stdout.readline()) for _ in range(lines)]
    finally:
        process.kill()
        rest = process.stdout.read().split("\n")
        process.stdout.close()
        process.wait()
    return max([*told, *(int(line) for line in rest[:-1])])


def test_killed_writers_lose_nothing_that_they_acknowledged(tmp_path):
    url = f"sqlite:///{tmp_path / 'kvxray.db'}"
    moments = random.Random(4)
    for _ in range(ROUNDS):
        acknowledged = write_until_killed(url, lines=moments.randrange(5, 60))
        database = open_database(url)
        database.check_integrity()
        stored = history.events(database, KEY, 0, 1_000_000)
        [epoch] = history.epochs(database, "engine")
        database.close()
        assert len(stored) >= 5 * acknowledged
        teller = Teller()
        messages = [teller.tell_step(step) for step in range(len(stored) // 5)]
        assert stored == expand(messages, teller.names)
        assert epoch.num_events == len(stored)
