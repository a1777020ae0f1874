"""What the last two minutes before a moment of the past tell of the lives of blocks: read from the event log when it is
asked for, where they are not too many events.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.schema import UNKNOWN_U4
from kvxray_storage.database import Database
from kvxray_storage.epoch_facts import messages_lived
from kvxray_storage.hash_lookup import hashes_of
from kvxray_storage.records import EpochKey
from kvxray_storage.time_travel import NotStored
from kvxray_storage.travel_session import Traveller

from kvxray_backend.analysis.block_lives import BlockLives
from kvxray_backend.analysis.recent import WINDOW_NS

MAX_EVENTS: Final = 500_000
"""Of two minutes: about a second of work."""
MAX_LOOKED_UP: Final = 2_000
"""Hashes cached before, of which the log is asked one by one."""


def lives_before(database: Database, traveller: Traveller, key: EpochKey, now: BlockMap) -> BlockLives | None:
    """None where some of those minutes is missing, or where there are too many events."""
    messages = _messages(database, key, now)
    if messages is None:
        return None
    begin = _state_before(database, traveller, key, messages[0].header.seq0, now) if messages else now
    if begin is None:
        return None
    lives = BlockLives(begin, is_of_past=True)
    for message in messages:
        lives.note(message)
    lives.settle()
    return lives


def _messages(database: Database, key: EpochKey, now: BlockMap) -> list[Message] | None:
    """In order; a little more than two minutes of them, or all from the beginning on."""
    found: list[Message] = []
    for message in messages_lived(database, key, now.next_seq - 1, 2 * WINDOW_NS):
        found.append(message)
        if sum(one.header.n for one in found) > MAX_EVENTS:
            return None
    found.reverse()
    is_whole = all(a.end_seq == b.header.seq0 for a, b in zip(found, found[1:], strict=False))
    return found if is_whole and (not found or found[-1].end_seq == now.next_seq) else None


def _state_before(database: Database, traveller: Traveller, key: EpochKey, seq: int, now: BlockMap) -> BlockMap | None:
    """The state that event `seq` found, with the bytes of the hashes that its blocks carry."""
    if seq == 0:
        return BlockMap(now.descriptor)
    try:
        with traveller.reading(key, seq - 1) as state:
            begin = state.copy()
    except NotStored:
        return None
    carried = begin.hash_ordinal[begin.hash_ordinal < UNKNOWN_U4]
    lacking = begin.hashes.lacking(np.unique(carried))
    if len(lacking) <= MAX_LOOKED_UP:
        for ordinal, data in hashes_of(database, key, lacking.tolist()).items():
            begin.hashes.set_width(len(data))
            begin.hashes.add(ordinal, data)
    return begin
