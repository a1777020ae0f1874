"""An endless stream of which every message follows from its number, and a process that stores it until it is killed."""

from __future__ import annotations

import struct
import time
from multiprocessing.connection import Connection
from typing import Final

from kvxray_engine.stream.schema import Name
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog

from tests.storage.told_messages import T0_NS, Teller, a_step, descriptor

EVENTS: Final = 5
STEP_NS: Final = 1_000_000
_PERIOD, _LOST = 50, 2
_REPLAYED = 3
CURSOR: Final = struct.Struct("<q")


def is_lost(wire_seq: int) -> bool:
    """Two of fifty never arrive."""
    return wire_seq % _PERIOD >= _PERIOD - _LOST


def message(wire_seq: int):
    """Five events of a new request."""
    teller = Teller(
        wire_seq=wire_seq, seq=EVENTS * wire_seq, req=wire_seq, hash=wire_seq, t_ns=T0_NS + wire_seq * STEP_NS
    )
    told = a_step(wire_seq, wire_seq, wire_seq % 60 + 1)
    return teller.tell(told, names=[Name(name_of(wire_seq))], num_hashes=1, step=wire_seq)


def name_of(req: int) -> str:
    return f"request-{req}"


def write_for_ever(url: str, told: Connection) -> None:
    """Tells the cursor, now and then, over `told`: what it tells was acknowledged."""
    log = EventLog(open_database(url), chunk_events=40, chunk_seconds=0.005)
    key = log.open_epoch("engine", {}, "life-1", descriptor(), T0_NS)
    cursor = log.cursor(key)
    durable = cursor.next_wire_seq if cursor else 0
    # A publisher's replay begins a little before the cursor: what is stored already comes again.
    wire_seq = max(0, durable - _REPLAYED)
    while True:
        put(log, key, wire_seq, durable)
        if wire_seq % 10 == 0:
            log.check_integrity()
            cursor = log.cursor(key)
            told.send_bytes(CURSOR.pack(cursor.next_wire_seq if cursor else 0))
        wire_seq += 1


def put(log, key, wire_seq: int, durable: int) -> None:
    """The message, or the gap that begins with it. durable: where a gap is recorded already."""
    if not is_lost(wire_seq):
        one = message(wire_seq)
        while not log.append(key, one):
            time.sleep(0.001)
    elif not is_lost(wire_seq - 1) and wire_seq >= durable:
        last = wire_seq + _LOST - 1
        log.gap(key, wire_seq, last, EVENTS * wire_seq, EVENTS * (last + 1) - 1, T0_NS, "lost on the wire")
