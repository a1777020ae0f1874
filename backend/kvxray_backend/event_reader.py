"""Events from the log and, for the newest that it has not committed yet, from memory: one sequence, each event once."""

from __future__ import annotations

from kvxray_storage import history
from kvxray_storage.epoch_facts import check_is_stored
from kvxray_storage.event_rows import EventRow
from kvxray_storage.records import EpochKey
from kvxray_storage.time_travel import NotStored

from kvxray_backend.backend import Backend, Source
from kvxray_backend.live_state import LiveState
from kvxray_backend.moments import LIVE, Moment
from kvxray_backend.views import holder_ids


def events_from(backend: Backend, source: Source, epoch: int, seq: int, limit: int) -> list[EventRow]:
    """Up to `limit` events from `seq` on, oldest first. Raises `NotStored` where the source has no such epoch."""
    key = backend.epoch_key(source.live.source, epoch)
    if key is None and source.live.epoch != epoch:
        raise NotStored(f"The source {source.live.source} has no epoch {epoch}.")
    rows = history.events(backend.database, key, seq, limit) if key is not None else []
    if len(rows) < limit:
        next_seq = rows[-1].seq + 1 if rows else seq
        with source.live.lock:
            if source.live.epoch == epoch:
                rows += source.live.tail.since(next_seq, limit - len(rows), holder_ids(source.live))
    return rows


def newest_events(backend: Backend, source: Source, limit: int) -> tuple[int, list[EventRow]] | None:
    """The epoch that is followed, or was last, and its newest `limit` events, oldest first; None when there is none."""
    live = source.live
    with live.lock:
        epoch = live.epoch
        rows = live.tail.newest(limit, holder_ids(live))[::-1] if epoch is not None else []
    key = backend.epoch_key(live.source, epoch)
    if len(rows) < limit and key is not None:
        stored = history.tail(backend.database, key, limit)
        first_seq = rows[0].seq if rows else None
        rows = [row for row in stored if first_seq is None or row.seq < first_seq] + rows
    if epoch is None and key is None:
        return None
    return epoch if epoch is not None else _epoch_of(key), rows[-limit:]


def events_until(backend: Backend, source: Source, moment: Moment, limit: int) -> tuple[int, list[EventRow]]:
    """The epoch of a past moment and the last `limit` events up to it, oldest first."""
    point = backend.past.point_of(source.live.source, moment)
    key = backend.past.epoch(source.live.source, point.epoch).key
    check_is_stored(backend.database, key, point.seq)
    return point.epoch, history.tail(backend.database, key, limit, last_seq=point.seq)


def block_history(backend: Backend, live: LiveState, block_id: int, limit: int) -> list[EventRow]:
    """The last `limit` events of a block in the epoch of this state, newest first; nothing that came after it."""
    key = backend.epoch_key(live.source, live.epoch) if live.epoch is not None else None
    last_seq = None if live.at == LIVE else live.seq
    stored = history.block_history(backend.database, key, block_id, limit, last_seq=last_seq) if key else []
    if last_seq is not None:
        return stored
    newest_stored = stored[0].seq if stored else -1
    with live.lock:
        fresh = live.tail.of_block(block_id, newest_stored + 1, limit, holder_ids(live))
    return (fresh + stored)[:limit]


def _epoch_of(key: EpochKey | None) -> int:
    assert key is not None, "an epoch without a key"
    return key.epoch
