"""What happened to one request, and which requests had a name. Reads the chunks that name it and no others."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from kvxray_storage import models
from kvxray_storage.chunk import Chunk, decode_chunk
from kvxray_storage.database import Database
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.event_rows import ChunkEvents, EventRow
from kvxray_storage.history import names_of
from kvxray_storage.postings import runs_of_holder
from kvxray_storage.records import EpochKey


def request_history(
    database: Database, key: EpochKey, ordinal: int, limit: int, last_seq: int | None = None
) -> list[EventRow]:
    """The last `limit` events (of those up to `last_seq`) that name the holder with this ordinal, the newest first.

    A holder is a request, or a sequence, pin, lease or transfer.
    """
    rows: list[EventRow] = []
    with database.reading() as connection:
        for chunk in _chunks_naming(connection, key, ordinal):
            if not (chunk.message.columns.req == ordinal).any():
                continue  # a neighbour of one that does
            events = ChunkEvents(chunk)
            positions = events.positions_of_holder(ordinal)[::-1]
            if last_seq is not None:
                positions = positions[events.seqs()[positions] <= last_seq]
            positions = positions[: limit - len(rows)]
            rows += events.rows(positions, names_of(connection, key, events.named_at(positions)))
            if len(rows) >= limit:
                break
    return rows


def find_requests(database: Database, source_id: int, request_id: str, limit: int = 100) -> list[tuple[EpochKey, int]]:
    """Epoch and ordinal of the holders that had this id, the newest first: an engine may give an id again."""
    name = models.name
    query = (
        sa.select(name.c.epoch, name.c.ordinal)
        .where(name.c.source_id == source_id, name.c.id == request_id)
        .order_by(name.c.epoch.desc(), name.c.ordinal.desc())
        .limit(limit)
    )
    with database.reading() as connection:
        return [(EpochKey(source_id, row.epoch), int(row.ordinal)) for row in connection.execute(query)]


def _chunks_naming(connection: sa.Connection, key: EpochKey, ordinal: int) -> Iterator[Chunk]:
    """The newest first; some neighbours among them, since a posting may stand for several chunks of one commit."""
    chunk = models.chunk
    for first, last in runs_of_holder(connection, key, ordinal):
        query = sa.select(chunk.c.data).where(*of_epoch(chunk, key), chunk.c.wire_seq0.between(first, last))
        newest_first = query.order_by(chunk.c.wire_seq0.desc()).execution_options(stream_results=True, yield_per=4)
        with connection.execute(newest_first) as result:
            for row in result:
                yield decode_chunk(row.data)
