"""Gives a state back the bytes of its hashes: for a keyframe that has to tell them without the chunks before it."""

from __future__ import annotations

from itertools import groupby

from kvxray_engine.stream.block_map import BlockMap

from kvxray_storage.database import Database
from kvxray_storage.hash_lookup import hashes_of, told_by_snapshots
from kvxray_storage.records import EpochKey


def add_hashes(database: Database, key: EpochKey, state: BlockMap) -> None:
    """Those of the hashes that its blocks carry, or that are a parent of one, as far as they are known."""
    carried = {*state.ordinals_carried().tolist(), *state.parents_told().tolist()}
    missing = [ordinal for ordinal in sorted(carried) if state.hashes.get(ordinal) is None]
    with database.reading() as connection:
        told = told_by_snapshots(connection, key, missing)
    # Chunks are asked for the others only: each that none of them knows costs a question.
    found = sorted((told | hashes_of(database, key, [one for one in missing if one not in told])).items())
    if not found:
        return
    state.hashes.set_width(len(found[0][1]))
    for _, run in groupby(enumerate(found), key=lambda one: one[1][0] - one[0]):
        pairs = [pair for _, pair in run]
        state.hashes.add(pairs[0][0], b"".join(data for _, data in pairs))
