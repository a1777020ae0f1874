"""A process that stores a stream of hashes until it is killed, and goes on where the last one was acknowledged."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection
from typing import Final

from kvxray_storage import epoch_fold
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog

from tests.storage.crash_writer import CURSOR
from tests.storage.told_hashes import EVENTFUL, Life
from tests.storage.told_messages import T0_NS

LOST: Final = frozenset({5, 6, 40, 77, 200})
PAUSE_S: Final = 0.002
_REPLAYED: Final = 3


def life() -> Life:
    return Life().hear_all(*EVENTFUL, lost=LOST)


def write_on(url: str, told: Connection) -> None:
    """Tells the cursor, now and then, over `told`, and 2^40 when all is stored."""
    epoch_fold.KEYFRAME_ROWS = 100  # type: ignore[misc]
    followed = life()
    log = EventLog(open_database(url), chunk_events=20, chunk_seconds=0.005)
    key = log.open_epoch("engine", {}, "life-1", followed.descriptor, T0_NS)
    cursor = log.cursor(key)
    durable = cursor.next_wire_seq if cursor else 0
    begin = next((at for at, one in enumerate(followed.told) if one.header.wire_seq >= durable - _REPLAYED), 0)
    if not durable:
        followed.begin_in(log, key)
    for at in range(begin, len(followed.told)):
        followed.tell(log, key, at)
        time.sleep(PAUSE_S)
        now = log.cursor(key)
        told.send_bytes(CURSOR.pack(now.next_wire_seq if now else 0))
    log.flush(60)
    told.send_bytes(CURSOR.pack(1 << 40))
    log.close()
