"""What the last minute before a moment of the past added, so that rates and the hit rate are told as they were then.

The second of the moment is told by events, the seconds before it by their rollups. Where the engine's clock was set
back, rollups tell of all that was lived in a second: then all of the minute is told by events.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.event_times import timing_of
from kvxray_engine.stream.schema import Kind
from kvxray_storage.clock_runs import ClockRuns
from kvxray_storage.database import Database
from kvxray_storage.epoch_facts import messages_lived
from kvxray_storage.records import EpochKey
from kvxray_storage.rollups import rollups
from kvxray_storage.time_travel import NotStored, seq_at_time
from kvxray_storage.travel_session import Traveller

from kvxray_backend.timeline import EVICTIONS
from kvxray_backend.windows import HIT_WINDOW_NS, QUARTER_NS, EventTotals, EventWindows

_NS: Final = 1_000_000_000
_OTHERS: Final = {
    "allocations": "allocations",
    "preemptions": "preemptions",
    "tokens": "tokens_generated",
    "queried": "tokens_queried",
    "hit": "tokens_hit",
}

Samples = list[tuple[int, EventTotals]]


def windows_before(
    database: Database, traveller: Traveller, clock: ClockRuns, key: EpochKey, now: BlockMap
) -> EventWindows:
    """Samples of the totals up to the state `now`; none but the last where nothing is stored before."""
    windows = EventWindows(_NS)
    samples = _by_rollups(database, traveller, clock, key, now)
    # Looked at afterwards: what was committed meanwhile may be in the rollups.
    if _may_mix(database, clock, key, now):
        windows = EventWindows()
        samples = _by_events(database, key, now)
    for t_ns, totals in samples:
        windows.note(t_ns, totals)
    windows.note(now.t_ns, EventTotals.of(now))
    return windows


def _may_mix(database: Database, clock: ClockRuns, key: EpochKey, now: BlockMap) -> bool:
    """Whether the last minute before `now` is not what the rollups of its seconds tell: the clock was set back within
    it, or some of it was lived twice.
    """
    begin_ns, end_ns = now.t_ns - HIT_WINDOW_NS - 2 * _NS, now.t_ns + _NS
    with database.reading() as connection:
        set_back = [run for run in clock.of(connection, key) if 0 < run.first < now.next_seq]
        if set_back and set_back[-1].t0_ns >= begin_ns:
            return True
        return not clock.is_lived_once(connection, key, now.next_seq - 1, begin_ns, end_ns)


def _by_rollups(database: Database, traveller: Traveller, clock: ClockRuns, key: EpochKey, now: BlockMap) -> Samples:
    """Totals at the end of each second of the last minute in which something happened, up to that of now."""
    begin_ns = now.t_ns // _NS * _NS
    seq = seq_at_time(database, key, begin_ns - 1, clock, now.next_seq - 1)
    if seq is None:
        return []
    try:
        with traveller.reading(key, seq) as state:
            totals = EventTotals.of(state)
    except NotStored:
        return []
    since_ns = begin_ns - HIT_WINDOW_NS - _NS
    columns = rollups(database, key, since_ns, begin_ns - 1, 1, (*EVICTIONS, *_OTHERS.values()))
    samples = []
    for at in reversed(range(len(columns["t_s"]))):
        samples.append((int(columns["t_s"][at] + 1) * _NS - 1, totals))
        added = {name: int(columns[column][at]) for name, column in _OTHERS.items()}
        evictions = int(np.sum([columns[name][at] for name in EVICTIONS]))
        totals = totals.minus(EventTotals(evictions=evictions, **added))
    return [(max(since_ns, _first_ns(database, clock, key)), totals), *samples[::-1]]


def _first_ns(database: Database, clock: ClockRuns, key: EpochKey) -> int:
    """When the epoch began to be told: quiet from then on is quiet, and not unknown."""
    with database.reading() as connection:
        return clock.of(connection, key)[0].t0_ns


def _by_events(database: Database, key: EpochKey, now: BlockMap) -> Samples:
    """Totals at the end of each quarter of a second or so of the last minute that the engine lived."""
    samples: Samples = []
    totals, begin_ns = EventTotals.of(now), now.t_ns
    for message in messages_lived(database, key, now.next_seq - 1, HIT_WINDOW_NS + _NS):
        for first_ns, last_ns, added in reversed(list(_pieces(message))):
            samples.append((last_ns, totals))
            totals, begin_ns = totals.minus(added), first_ns
    return [(begin_ns, totals), *samples[::-1]]


def _pieces(message: Message) -> Iterator[tuple[int, int, EventTotals]]:
    """What a message added, cut where a quarter of a second ends: (its first event, its last, what it added)."""
    columns, times = message.columns, timing_of(message).times
    counts = columns.events_by_operation()
    kinds = (Kind.BlockEvicted, Kind.BlockAllocated, Kind.RequestPreempted)
    scheduled = columns.kind == Kind.RequestScheduled
    added = np.array(
        [
            *(np.where(columns.kind == kind, counts, 0) for kind in kinds),
            np.where(columns.kind == Kind.TokensGenerated, columns.a0, 0),
            np.where(scheduled, columns.a0, 0),
            np.where(scheduled, columns.a1, 0),
        ],
        np.int64,
    )
    quarters = times // QUARTER_NS
    first = np.flatnonzero(np.append(True, quarters[1:] != quarters[:-1])[: len(times)])
    last = np.append(first[1:], len(times)) - 1
    sums = np.add.reduceat(added, first, axis=1).T.tolist()
    for begin, end, of_piece in zip(first.tolist(), last.tolist(), sums, strict=True):
        yield int(times[begin]), int(times[end]), EventTotals(*of_piece)
