"""Who allocated the blocks of the last minutes: read from the event log where somebody asks, and kept for some seconds,
so that many viewers cost one reading.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from kvxray_engine.stream.codec import Message
from kvxray_storage.database import Database
from kvxray_storage.epoch_facts import messages_lived
from kvxray_storage.records import EpochKey

from kvxray_backend.analysis.block_owners import BlockOwners, owners_of
from kvxray_backend.backend import Backend
from kvxray_backend.live_state import LiveState
from kvxray_backend.moments import LIVE

MAX_EVENTS: Final = 250_000
LOOK_BACK_NS: Final = 1_800_000_000_000
KEEP_S: Final = 4.0
MAX_KEPT: Final = 8
_NEWEST: Final = 2**62


class TenantDesk:
    """One of a running backend. Safe to ask from any thread."""

    def __init__(self, backend: Backend, clock: Callable[[], float] = time.monotonic) -> None:
        self.backend = backend
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, int, int], tuple[float, BlockOwners | None]] = {}

    def owners(self, state: LiveState) -> BlockOwners | None:
        """Up to that state, or what is stored of it; None where nothing is."""
        with state.lock:
            if state.block_map is None or state.epoch is None:
                return None
            num_blocks, epoch = state.block_map.num_blocks, state.epoch
            until = _NEWEST if state.at == LIVE else state.block_map.next_seq - 1
        with self._lock:
            asked = (state.source, epoch, until)
            now = self._clock()
            self._kept = {one: kept for one, kept in self._kept.items() if now - kept[0] < KEEP_S}
            if asked not in self._kept:
                key = self.backend.epoch_key(state.source, epoch)
                found = None if key is None else owners_of(_read(self.backend.database, key, until), num_blocks)
                self._kept[asked] = self._clock(), found
                for old in list(self._kept)[:-MAX_KEPT]:
                    del self._kept[old]
            return self._kept[asked][1]


def _read(database: Database, key: EpochKey, until: int) -> list[Message]:
    """The last messages up to an event, in order, none missing between them: half an hour of them at most."""
    found: list[Message] = []
    num_events = 0
    for message in messages_lived(database, key, until, LOOK_BACK_NS):
        num_events += message.header.n
        if found and (num_events > MAX_EVENTS or message.end_seq != found[-1].header.seq0):
            break
        found.append(message)
    return found[::-1]
