"""Where a hash was: the blocks that carried it, since when, until when, and what took it away.

An engine that computes the same tokens again tells the hash again, under a new ordinal: each is a stay of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import sqlalchemy as sa
from kvxray_engine.stream.block_map import ALL_MEDIA
from kvxray_engine.stream.schema import Kind
from numpy.typing import NDArray

from kvxray_storage import models
from kvxray_storage.block_filter import may_touch
from kvxray_storage.chunk import decode_chunk
from kvxray_storage.database import Database
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.event_rows import ChunkEvents, EventRow
from kvxray_storage.hash_filter import may_tell
from kvxray_storage.history import descriptor_of, names_of
from kvxray_storage.kind_counts import decode_counts
from kvxray_storage.records import EpochKey

_AT_ONCE = 64
_ENDS = (Kind.BlockEvicted, Kind.BlockAllocated, Kind.BlockCached, Kind.BlockMoved, Kind.CacheCleared)
_ENDING_KINDS = np.array(_ENDS, np.uint8)


@dataclass(frozen=True, slots=True)
class HashStay:
    """A block carried the hash from event `since` (BlockCached, or BlockMoved from another block) until event `until`:
    evicted, allocated to somebody else, cached anew, moved over, or cleared with the whole cache; None = it still does.
    `hits`: how often it was referenced meanwhile, newly or once more. `lost_after`: the last event before messages that
    are missing, or before the source told another pool: what became of the stay from there on nobody knows.
    """

    ordinal: int
    block_id: int
    since: EventRow
    until: EventRow | None
    hits: int
    lost_after: int | None = None


@dataclass(frozen=True, slots=True)
class _Hole:
    """After this event messages are missing, or the pool is another one."""

    after: int


@dataclass(frozen=True, slots=True)
class _Hits:
    """So often the block was referenced; nobody needs to know each."""

    number: int


def ordinals_told(database: Database, key: EpochKey, block_hash: bytes, limit: int) -> list[int]:
    """The last `limit` ordinals under which a hash was told, the newest first."""
    with database.reading() as connection:
        return list(islice(_ordinals_of(connection, key, block_hash), limit))


def hash_history(
    database: Database, key: EpochKey, block_hash: bytes, limit: int, last_seq: int | None = None
) -> list[HashStay]:
    """The last `limit` stays of a hash, the newest first. Looks through all hashes back to the oldest it returns."""
    stays: list[HashStay] = []
    with database.reading() as connection:
        for ordinal in _ordinals_of(connection, key, block_hash):
            stays += reversed(_stays(connection, key, ordinal, last_seq))
            if len(stays) >= limit:
                break
    return stays[:limit]


def stays_of(database: Database, key: EpochKey, ordinal: int, last_seq: int | None = None) -> list[HashStay]:
    """The stays of the hash with this ordinal, in order: more than one where it was moved. Reads only their chunks and
    the filters between.
    """
    with database.reading() as connection:
        return _stays(connection, key, ordinal, last_seq)


def _ordinals_of(connection: sa.Connection, key: EpochKey, block_hash: bytes) -> Iterator[int]:
    """The newest first. Chunks whose filter says no are not read."""
    chunk = models.chunk
    query = sa.select(chunk.c.wire_seq0, chunk.c.hash0, chunk.c.hash_bits)
    query = query.where(*of_epoch(chunk, key), chunk.c.num_hash > 0).order_by(chunk.c.hash0.desc())
    with connection.execute(query.execution_options(stream_results=True, yield_per=_AT_ONCE)) as result:
        for row in result:
            if may_tell(row.hash_bits, block_hash):
                here = sa.select(chunk.c.data).where(*of_epoch(chunk, key), chunk.c.wire_seq0 == row.wire_seq0)
                yield from _told_in(connection.execute(here).scalar_one(), row.hash0, block_hash)


def _told_in(data: bytes, hash0: int, block_hash: bytes) -> Iterator[int]:
    """Ordinals under which a chunk told the hash, the newest first."""
    if data.find(block_hash) < 0:  # hashes lie in it as they are
        return
    message = decode_chunk(data).message
    if message.header.hash_width != len(block_hash):
        return
    hashes = bytes(message.columns.hashes)
    told = [at for at in range(0, len(hashes), len(block_hash)) if hashes.startswith(block_hash, at)]
    yield from (hash0 + at // len(block_hash) for at in reversed(told))


def _stays(connection: sa.Connection, key: EpochKey, ordinal: int, last_seq: int | None) -> list[HashStay]:
    chunk = models.chunk
    query = sa.select(chunk.c.data, chunk.c.hash0, chunk.c.num_hash).where(
        *of_epoch(chunk, key), chunk.c.hash0 <= ordinal, chunk.c.num_hash > 0
    )
    row = connection.execute(query.order_by(chunk.c.hash0.desc()).limit(1)).one_or_none()
    if row is None or ordinal >= row.hash0 + row.num_hash:
        return []
    events = ChunkEvents(decode_chunk(row.data))
    at = events.position_of_cached(ordinal)
    if at is None:
        return []
    [since] = _rows(connection, key, events, np.array([at]))
    return [] if last_seq is not None and since.seq > last_seq else _follow(connection, key, ordinal, since, last_seq)


def _follow(
    connection: sa.Connection, key: EpochKey, ordinal: int, since: EventRow, last_seq: int | None
) -> list[HashStay]:
    """The stay that begins with this event, and those on blocks that the hash was moved to meanwhile."""
    block = since.block_id
    assert block is not None, "a hash is on a block"
    hits, moves, until, lost_after = 0, [], None, None
    for row in _events_of(connection, key, block, since.seq + 1, last_seq):
        if isinstance(row, _Hits):
            hits += row.number
            continue
        if isinstance(row, _Hole):
            lost_after = row.after
            break
        if row.kind == Kind.BlockMoved and row.block_id != block:
            moves.append(row)
        elif row.block_id is None or row.block_id == block:
            until = row
            break
    stays = [HashStay(ordinal, block, since, until, hits, lost_after)]
    for move in moves:
        stays += _follow(connection, key, ordinal, move, last_seq)
    return stays


def _events_of(
    connection: sa.Connection, key: EpochKey, block: int, first_seq: int, last_seq: int | None
) -> Iterator[EventRow | _Hits | _Hole]:
    """What may end a stay on the block from `first_seq` to `last_seq` (None: all), hits on it, and holes between them,
    in order.
    """
    chunk = models.chunk
    media = _media_of(connection, key, block)
    columns = (chunk.c.wire_seq0, chunk.c.wire_seq1, chunk.c.seq0, chunk.c.seq1, chunk.c.counts, chunk.c.bits)
    # From the chunk of the event before on, so that a hole right behind it is seen.
    query = sa.select(*columns).where(*of_epoch(chunk, key), chunk.c.seq1 >= first_seq - 1)
    ordered = query.order_by(chunk.c.seq1, chunk.c.wire_seq0)
    next_wire_seq, seq = None, first_seq - 1
    with connection.execute(ordered.execution_options(stream_results=True, yield_per=_AT_ONCE)) as result:
        for row in result:
            if last_seq is not None and seq >= last_seq:
                return
            is_hole = next_wire_seq is not None and row.wire_seq0 > next_wire_seq
            if is_hole or (row.seq1 < row.seq0 and _is_descriptor(connection, key, row.wire_seq0)):
                yield _Hole(seq)
            next_wire_seq, seq = row.wire_seq1 + 1, row.seq1
            clears = Kind.CacheCleared in decode_counts(row.counts)
            if not clears and not may_touch(row.bits, block):
                continue
            here = sa.select(chunk.c.data).where(*of_epoch(chunk, key), chunk.c.wire_seq0 == row.wire_seq0)
            events = ChunkEvents(decode_chunk(connection.execute(here).scalar_one()))
            positions = np.union1d(events.positions_of_block(block), events.positions_of_kind(Kind.CacheCleared))
            seqs = events.seqs()[positions]
            in_time = (seqs >= first_seq) & (seqs <= (last_seq if last_seq is not None else seqs.max(initial=0)))
            yield from _told(connection, key, events, positions[in_time], media)


def _told(
    connection: sa.Connection, key: EpochKey, events: ChunkEvents, positions: NDArray[np.int64], media: set[int]
) -> Iterator[EventRow | _Hits]:
    """These events of a block: those that may end its stay one by one, and how many hits there were between them."""
    kinds = events.kinds_at(positions)
    ends = np.flatnonzero(np.isin(kinds, _ENDING_KINDS))
    hits_until = np.append(0, np.cumsum(kinds == Kind.BlockReferenced))
    told = 0
    for at, event in zip(ends.tolist(), _rows(connection, key, events, positions[ends]), strict=True):
        yield _Hits(int(hits_until[at]) - told)
        told = int(hits_until[at])
        if event.kind != Kind.CacheCleared or event.a0 in media:
            yield event
    yield _Hits(int(hits_until[-1]) - told)


def _is_descriptor(connection: sa.Connection, key: EpochKey, wire_seq0: int) -> bool:
    chunk = models.chunk
    query = sa.select(chunk.c.data).where(*of_epoch(chunk, key), chunk.c.wire_seq0 == wire_seq0)
    return decode_chunk(connection.execute(query).scalar_one()).message.header.type == "descriptor"


def _media_of(connection: sa.Connection, key: EpochKey, block: int) -> set[int]:
    """What a CacheCleared may name that means this block's pool."""
    epoch = models.epoch
    told = connection.execute(sa.select(epoch.c.descriptor).where(*of_epoch(epoch, key))).scalar_one()
    pools = descriptor_of(told, key.epoch).pools
    of_block = {at for at, pool in enumerate(pools) if 0 <= block - pool.first_block_id < pool.num_blocks}
    # The fold takes a medium that has no pool for all of them.
    return of_block | set(range(len(pools), ALL_MEDIA + 1))


def _rows(
    connection: sa.Connection, key: EpochKey, events: ChunkEvents, positions: NDArray[np.int64]
) -> list[EventRow]:
    if not len(positions):
        return []
    return events.rows(positions, names_of(connection, key, events.named_at(positions)))
