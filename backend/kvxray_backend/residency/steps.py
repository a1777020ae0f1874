"""To other moments of an engine that tells of hashes: so many events, or batches, forwards or back."""

from __future__ import annotations

from typing import Final, Literal

from kvxray_engine.stream.joining import EVENTS_OF_BATCH
from kvxray_storage import history
from kvxray_storage.database import Database
from kvxray_storage.records import EpochKey

MAX_STEPS: Final = 1_000
"""Each event on the way is read."""


def stepped(database: Database, key: EpochKey, seq: int, by: Literal["event", "step"], n: int) -> int:
    """The number of the event that is `n` events or batches away, as far as the epoch reaches."""
    n = max(-MAX_STEPS, min(n, MAX_STEPS))
    return _by_event(database, key, seq, n) if by == "event" else _by_batch(database, key, seq, n)


def _by_event(database: Database, key: EpochKey, seq: int, n: int) -> int:
    if n >= 0:
        rows = history.events(database, key, seq + 1, n)
        return rows[-1].seq if rows else seq
    # What the moment stands on, and so many before it.
    rows = history.tail(database, key, 1 - n, last_seq=seq)
    return rows[0].seq if rows else seq


def _by_batch(database: Database, key: EpochKey, seq: int, n: int) -> int:
    for _ in range(abs(n)):
        found = _next_batch(database, key, seq) if n > 0 else _batch_before(database, key, seq)
        if found is None:
            break
        seq = found
    return seq


def _next_batch(database: Database, key: EpochKey, seq: int) -> int | None:
    """The last event of the next batch that has any."""
    rows = history.events(database, key, (seq // EVENTS_OF_BATCH + 1) * EVENTS_OF_BATCH, 1)
    return _last_of_batch(database, key, rows[0].seq // EVENTS_OF_BATCH) if rows else None


def _batch_before(database: Database, key: EpochKey, seq: int) -> int | None:
    begin = seq // EVENTS_OF_BATCH * EVENTS_OF_BATCH
    rows = history.tail(database, key, 1, last_seq=begin - 1) if begin else []
    return rows[-1].seq if rows else None


def _last_of_batch(database: Database, key: EpochKey, batch: int) -> int | None:
    rows = history.tail(database, key, 1, last_seq=(batch + 1) * EVENTS_OF_BATCH - 1)
    return rows[-1].seq if rows else None
