"""Where the hashes of an engine were at any stored moment, of one that tells of hashes only.

A moment is the number of an event; any number between two batches, or in a gap, is as good.
"""

from __future__ import annotations

import numpy as np
from kvxray_engine.stream.columns import U4
from kvxray_engine.stream.joining import EVENTS_OF_BATCH
from kvxray_engine.stream.residency_hashes import added
from kvxray_engine.stream.residency_map import ResidencyMap

from kvxray_storage.chunk_folding import fold_chunks
from kvxray_storage.chunk_reader import read_chunks
from kvxray_storage.database import Database
from kvxray_storage.hash_lookup import hashes_of
from kvxray_storage.records import EpochKey
from kvxray_storage.state_kinds import RESIDENCY
from kvxray_storage.time_travel import check_is_passed, either_state_of_keyframe


def residency_at(database: Database, key: EpochKey, seq: int) -> ResidencyMap:
    """What is cached just after event `seq`, with the bytes of all hashes that are somewhere. Batches count in the
    order of their numbers, however late one came. Where some are missing, what was told stays, and nothing is wholly
    told.

    Raises NotStored, and DamagedChunk where stored bytes are not what was written.
    """
    with database.reading() as connection:
        state = either_state_of_keyframe(connection, key, seq, RESIDENCY)
        assert isinstance(state, ResidencyMap), "what was asked for"
        fold_chunks(state, read_chunks(connection, key, state.next_seq, state.next_wire_seq, seq), seq)
        if state.next_seq <= seq and state.next_wire_seq <= seq // EVENTS_OF_BATCH:
            check_is_passed(connection, key, seq)
            state.note_gap()
    state.take_faults()
    _add_hashes(database, key, state)
    return state


def _add_hashes(database: Database, key: EpochKey, state: ResidencyMap) -> None:
    """One may have been gone at the keyframe and have come back; and a batch that came late names hashes by what later
    ones had told by then.
    """
    _add(database, key, state, state.ordinals_in_use())


def add_all_hashes(database: Database, key: EpochKey, state: ResidencyMap) -> None:
    """Of those that are gone too: for a state that has to do without the chunks before it, as what follows may name
    them again.
    """
    _add(database, key, state, state.hashes.index.keys_by_row().astype(np.uint32))


def _add(database: Database, key: EpochKey, state: ResidencyMap, ordinals: U4) -> None:
    missing = state.hash_table.lacking(ordinals)
    if len(missing):
        for ordinal, data in hashes_of(database, key, missing.tolist()).items():
            state.hash_table = added(state.hash_table, ordinal, data, len(data))
