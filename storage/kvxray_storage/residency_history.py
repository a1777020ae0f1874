"""What happened to one hash of an engine that tells of hashes only: when it was stored and removed, and where."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import sqlalchemy as sa

from kvxray_storage import models
from kvxray_storage.block_filter import may_touch
from kvxray_storage.chunk import decode_chunk
from kvxray_storage.chunk_reader import end_of_chunk_at
from kvxray_storage.database import Database
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.event_rows import ChunkEvents, EventRow
from kvxray_storage.history import names_of
from kvxray_storage.records import EpochKey

_FILTERS_AT_ONCE = 64


def hash_events(
    database: Database, key: EpochKey, ordinals: Collection[int], limit: int, last_seq: int | None = None
) -> list[EventRow]:
    """The last `limit` events (of those up to `last_seq`) of a hash, the newest first. ordinals: those under which it
    was told (`ResidencyMap.ordinals_of`). A clear names no hash: it is not among them.

    Reads the filter of every chunk back to the oldest event it returns, and the chunks that may hold the hash.
    """
    rows: list[EventRow] = []
    wanted = np.array(sorted(ordinals), np.uint32)
    with database.reading() as connection:
        for events in _naming(connection, key, ordinals, last_seq):
            positions = events.positions_of_hashes(wanted)[::-1]
            if last_seq is not None:
                positions = positions[events.seqs()[positions] <= last_seq]
            positions = positions[: limit - len(rows)]
            names = names_of(connection, key, events.named_at(positions))
            rows += events.rows(positions, names)
            if len(rows) >= limit:
                break
    return rows


def _naming(
    connection: sa.Connection, key: EpochKey, ordinals: Collection[int], last_seq: int | None
) -> Iterator[ChunkEvents]:
    """Chunks that may name one of these hashes, the newest first. None does that is told before the hash was."""
    chunk = models.chunk
    first = min(ordinals, default=0)
    here = [*of_epoch(chunk, key), chunk.c.hash0 + chunk.c.num_hash > first]
    if last_seq is not None:
        here += [chunk.c.seq0 <= last_seq, chunk.c.seq1 <= end_of_chunk_at(key, last_seq)]
    query = sa.select(chunk.c.bits, chunk.c.wire_seq0).where(*here).order_by(chunk.c.seq1.desc())
    with connection.execute(query.execution_options(stream_results=True, yield_per=_FILTERS_AT_ONCE)) as result:
        for row in result:
            if any(may_touch(row.bits, ordinal) for ordinal in ordinals):
                data = sa.select(chunk.c.data).where(*of_epoch(chunk, key), chunk.c.wire_seq0 == row.wire_seq0)
                yield ChunkEvents(decode_chunk(connection.execute(data).scalar_one()))
