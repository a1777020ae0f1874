"""The bytes of hashes by their ordinals, out of the chunks that told them: what states from keyframes do not hold."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa
from kvxray_engine.stream.codec import BadMessage

from kvxray_storage import models
from kvxray_storage.chunk import decode_chunk
from kvxray_storage.database import Database
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.records import EpochKey
from kvxray_storage.state_kinds import holds_a_state, load_hashes


def hashes_of(database: Database, key: EpochKey, ordinals: Iterable[int]) -> dict[int, bytes]:
    """The hashes that are known, by ordinal. Reads one chunk for all ordinals that it told.

    Those told before kvxray followed the source are in its snapshots, or nowhere.
    """
    with database.reading() as connection:
        found, missing = _told_by_chunks(connection, key, sorted(set(ordinals)))
        return found | told_by_snapshots(connection, key, missing)


def _told_by_chunks(
    connection: sa.Connection, key: EpochKey, ordinals: list[int]
) -> tuple[dict[int, bytes], list[int]]:
    """What chunks have of these ordinals (in order), and the ordinals that none has."""
    found: dict[int, bytes] = {}
    missing = []
    first, hashes, width = 0, memoryview(b""), 1
    for ordinal in ordinals:
        if not first <= ordinal < first + len(hashes) // width:
            told = _chunk_with(connection, key, ordinal)
            if told is None:
                missing.append(ordinal)
                continue
            first, hashes, width = told
        at = (ordinal - first) * width
        found[ordinal] = bytes(hashes[at : at + width])
    return found, missing


def _chunk_with(connection: sa.Connection, key: EpochKey, ordinal: int) -> tuple[int, memoryview, int] | None:
    """The first ordinal, the hash bytes and the width of the chunk that told this ordinal."""
    chunk = models.chunk
    query = sa.select(chunk.c.hash0, chunk.c.num_hash, chunk.c.data).where(
        *of_epoch(chunk, key), chunk.c.hash0 <= ordinal, chunk.c.num_hash > 0
    )
    row = connection.execute(query.order_by(chunk.c.hash0.desc()).limit(1)).one_or_none()
    if row is None or ordinal >= row.hash0 + row.num_hash:
        return None
    message = decode_chunk(row.data).message
    return row.hash0, memoryview(message.columns.hashes), message.header.hash_width


def told_by_snapshots(connection: sa.Connection, key: EpochKey, ordinals: list[int]) -> dict[int, bytes]:
    """Those of these ordinals that the engine's snapshots tell. Reads snapshot by snapshot, the first one first."""
    frame = models.keyframe
    found: dict[int, bytes] = {}
    if not ordinals:
        return found
    query = sa.select(frame.c.state, frame.c.kind).where(
        *of_epoch(frame, key), holds_a_state(), frame.c.origin == "snapshot"
    )
    with connection.execute(query.order_by(frame.c.seq).execution_options(stream_results=True, yield_per=1)) as result:
        for row in result:
            try:
                table = load_hashes(row.kind, row.state)
            except BadMessage:
                continue  # another one may tell
            told = ((ordinal, table.get(ordinal)) for ordinal in ordinals)
            found |= {ordinal: data for ordinal, data in told if data is not None}
            ordinals = [ordinal for ordinal in ordinals if ordinal not in found]
            if not ordinals:
                break
    return found
