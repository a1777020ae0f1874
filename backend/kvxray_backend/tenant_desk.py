"""Who allocated the blocks of the last minutes: read from the event log where somebody asks, and kept for some seconds,
so that many viewers cost one reading.
"""

from __future__ import annotations

from typing import Final

from kvxray_engine.stream.codec import Message
from kvxray_storage.database import Database
from kvxray_storage.epoch_facts import messages_lived
from kvxray_storage.records import EpochKey

from kvxray_backend.analysis.block_owners import BlockOwners, owners_of
from kvxray_backend.backend import Backend
from kvxray_backend.kept_answers import KeptAnswers
from kvxray_backend.live_state import LiveState
from kvxray_backend.moments import LIVE
from kvxray_backend.tenant_types import TenantBlocksView, TenantsView

MAX_EVENTS: Final = 500_000
"""About 100 ms of processor time: 94,000 took 14 to 18."""
LOOK_BACK_NS: Final = 1_800_000_000_000
KEEP_OWNERS_S: Final = 4.0
KEEP_ANSWERS_S: Final = 1.0
_NEWEST: Final = 2**62


class TenantDesk:
    """One of a running backend. Safe to ask from any thread."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.shares = KeptAnswers[TenantsView](KEEP_ANSWERS_S)
        self.blocks = KeptAnswers[TenantBlocksView](KEEP_ANSWERS_S)
        self._owners = KeptAnswers[BlockOwners | None](KEEP_OWNERS_S)

    def owners(self, state: LiveState) -> BlockOwners | None:
        """Up to that state, or what is stored of it; None where nothing is."""
        with state.lock:
            if state.block_map is None or state.epoch is None:
                return None
            num_blocks, epoch = state.block_map.num_blocks, state.epoch
            until = _NEWEST if state.at == LIVE else state.block_map.next_seq - 1
        key = self.backend.epoch_key(state.source, epoch)
        if key is None:
            return None
        database = self.backend.database
        return self._owners.get((key, until), lambda: owners_of(_read(database, key, until), num_blocks))


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
