"""What is known of one moment of an epoch beside its state: since when it holds, what was missing, what came last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import sqlalchemy as sa
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.event_times import timing_of

from kvxray_storage import models
from kvxray_storage.chunk_reader import ChunkPlace, StoredChunk, read_chunk
from kvxray_storage.database import Database
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.records import EpochKey
from kvxray_storage.time_travel import check_is_passed

_CHUNKS_AT_MOST: Final = 8
_CHUNKS_OF_A_MINUTE: Final = 1024
_NS: Final = 1_000_000_000


def gaps_before(database: Database, key: EpochKey, wire_seq: int) -> int:
    """Gaps among the messages before `wire_seq`, repaired ones included."""
    gap = models.gap
    query = sa.select(sa.func.count()).where(*of_epoch(gap, key), gap.c.wire_seq0 < wire_seq)
    with database.reading() as connection:
        return int(connection.execute(query).scalar_one())


def check_is_stored(database: Database, key: EpochKey, seq: int) -> None:
    """Raises NotStored unless event `seq` is stored, or others of its epoch around it are."""
    chunk = models.chunk
    reaching = sa.select(chunk.c.wire_seq0).where(*of_epoch(chunk, key), chunk.c.seq1 >= seq).limit(1)
    with database.reading() as connection:
        if connection.execute(reaching).first() is None:
            check_is_passed(connection, key, seq)


def first_chunk(database: Database, key: EpochKey) -> Message | None:
    """The messages of an epoch's first chunk, joined; None without one. Raises DamagedChunk."""
    chunk = models.chunk
    columns = (chunk.c.wire_seq0, chunk.c.wire_seq1, chunk.c.seq0, chunk.c.seq1)
    query = sa.select(*columns).where(*of_epoch(chunk, key)).order_by(chunk.c.wire_seq0).limit(1)
    with database.reading() as connection:
        row = connection.execute(query).first()
        return None if row is None else read_chunk(connection, key, ChunkPlace(*row)).message


def known_since(database: Database, key: EpochKey, seq: int) -> int:
    """The event since which the state after `seq` rests on events alone: the engine's last snapshot before it, else the
    first event stored.
    """
    keyframe, epoch = models.keyframe, models.epoch
    told = sa.select(sa.func.max(keyframe.c.seq)).where(
        *of_epoch(keyframe, key), keyframe.c.origin == "snapshot", keyframe.c.seq <= seq + 1
    )
    first = sa.select(epoch.c.first_seq).where(*of_epoch(epoch, key))
    with database.reading() as connection:
        since = connection.execute(told).scalar()
        if since is not None:
            return max(int(since) - 1, 0)
        return int(connection.execute(first).scalar() or 0)


def messages_before(database: Database, key: EpochKey, seq: int, min_events: int) -> list[Message]:
    """The last messages up to event `seq`, joined as they are stored, oldest first: `min_events` of them or a little
    more, if so many lie close together.
    """
    chunk = models.chunk
    query = (
        sa.select(chunk.c.wire_seq0, chunk.c.wire_seq1, chunk.c.seq0, chunk.c.seq1, chunk.c.data)
        .where(*of_epoch(chunk, key), chunk.c.seq0 <= seq, chunk.c.num_events > 0)
        .order_by(chunk.c.seq0.desc())
        .limit(_CHUNKS_AT_MOST)
    )
    found: list[Message] = []
    with database.reading() as connection, connection.execute(query) as result:
        for *place, data in result:
            part = StoredChunk(ChunkPlace(*place), data).part(0, seq)
            found += [part] if part is not None else []
            if sum(message.header.n for message in found) >= min_events:
                break
    return found[::-1]


def messages_lived(database: Database, key: EpochKey, seq: int, lived_ns: int) -> Iterator[Message]:
    """Messages up to event `seq`, joined as they are stored, the newest first, until so much of the engine's time is
    behind: what it lived, whatever its clock was set back to.
    """
    chunk = models.chunk
    columns = (chunk.c.wire_seq0, chunk.c.wire_seq1, chunk.c.seq0, chunk.c.seq1, chunk.c.data)
    until = (chunk.c.seq0 <= seq, chunk.c.num_events > 0)
    query = sa.select(*columns).where(*of_epoch(chunk, key), *until).order_by(chunk.c.seq1.desc())
    query = query.limit(_CHUNKS_OF_A_MINUTE).execution_options(stream_results=True, yield_per=8)
    next_ns: int | None = None
    with database.reading() as connection, connection.execute(query) as result:
        for *place, data in result:
            message = StoredChunk(ChunkPlace(*place), data).part(0, seq)
            if message is None:
                continue
            yield message
            times = timing_of(message).times
            lived_ns -= int(np.maximum(np.diff(times, append=times[-1] if next_ns is None else next_ns), 0).sum())
            if lived_ns < 0:
                return
            next_ns = int(times[0])


def kept_span(database: Database, source: str) -> tuple[int, int] | None:
    """Wall ns of the beginning and the end of what is kept of a source, as rollups or as events; None: nothing."""
    named = sa.select(models.source.c.source_id).where(models.source.c.name == source).scalar_subquery()
    minute, second, epoch = models.rollup_1m.c.t_s, models.rollup_1s.c.t_s, models.epoch
    earliest, latest = _ends_of_chunks()
    ends = (
        sa.select(sa.func.min(minute) * _NS).where(minute.table.c.source_id == named),
        sa.select(sa.func.max(second) * _NS).where(second.table.c.source_id == named),
        sa.select(sa.func.min(earliest)).where(epoch.c.source_id == named),
        sa.select(sa.func.max(latest)).where(epoch.c.source_id == named),
    )
    with database.reading() as connection:
        found = [connection.execute(query).scalar() for query in ends]
    times = [int(at) for at in found if at is not None]
    return (min(times), max(times)) if times else None


def pruned_until(database: Database, source: str) -> int | None:
    """Wall ns up to which retention took what was stored of a source; None: it took nothing."""
    epoch, of = models.epoch, models.source
    query = sa.select(sa.func.max(epoch.c.pruned_ns)).join(of, of.c.source_id == epoch.c.source_id)
    with database.reading() as connection:
        found = connection.execute(query.where(of.c.name == source)).scalar()
    return None if found is None else int(found)


def _ends_of_chunks() -> tuple[sa.ScalarSelect[int], sa.ScalarSelect[int]]:
    """Of an epoch, by its indexes: when its first chunk begins, and the latest end of any."""
    chunk, epoch = models.chunk, models.epoch
    here = (chunk.c.source_id == epoch.c.source_id, chunk.c.epoch == epoch.c.epoch)
    first = sa.select(chunk.c.t0_ns).where(*here).order_by(chunk.c.seq1).limit(1)
    last = sa.select(chunk.c.t1_ns).where(*here).order_by(chunk.c.t1_ns.desc()).limit(1)
    return first.correlate(epoch).scalar_subquery(), last.correlate(epoch).scalar_subquery()
