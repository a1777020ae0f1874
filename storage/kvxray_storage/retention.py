"""What may go, by age and by size. Pure: edges and limits in, cuts out; reading and deleting stand elsewhere.

History is cut at *edges* only: at a keyframe, before which everything goes, or at the end of an epoch that nobody
follows any more, which goes whole. So every moment that is left has a keyframe at or before it and can be told. The
keyframe that becomes the first gets the bytes of its hashes, which the chunks before it took along.

- **Age**: what lies before the newest edge that is old enough goes. The newest keyframe of a followed epoch stays, and
  what comes after it, so that an epoch keeps up to one distance between keyframes more than the age says.
- **Size**: the oldest stretch between two edges goes, of whichever source, until enough is free.
- **Keyframes thin out**: from a day on one periodic keyframe in 4 stays, from a week on one in 16. What they tell
  follows from the one before and the chunks, so that only the time it takes grows. Snapshots, which the engine told
  itself and after a gap nothing else can, all stay.
- **Rollups outlive chunks**: no chunk goes before it was counted; seconds stay 4 times, minutes 52 times as long as
  events (of 7 days: four weeks and a year). Where size forces it, the oldest seconds go, when no events are left to go.
- **Names** stay while a stored event, or a finding, speaks of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kvxray_storage.records import EpochKey

DAY_NS: Final = 86_400 * 10**9
THINNING: Final = ((7 * DAY_NS, 16), (DAY_NS, 4))
"""Older than so much: one keyframe in so many."""
OUTLIVES: Final = {1: 4, 60: 52}
"""By the seconds that a rollup covers: how many times as long as events it stays."""
LEAST_ROOM: Final = 16 << 20
"""Bytes below a limit from which something goes, where a tenth of the limit is less: what comes in while it goes."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a source keeps; None: everything. `max_bytes`: of its chunks and keyframes."""

    max_age_s: int | None = None
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """`everyone`: what a source keeps that is not named in `sources` (by number); its `max_bytes` is of the whole
    database, whatever is in it.
    """

    everyone: Limits = Limits()
    sources: Mapping[int, Limits] = field(default_factory=dict)

    def of(self, source_id: int) -> Limits:
        return self.sources.get(source_id, Limits(self.everyone.max_age_s))


@dataclass(frozen=True, slots=True)
class Edge:
    """A place where the history of an epoch may begin: before event `seq` of message `wire_seq`; None, None: after its
    end. Event times before it are up to `t_ns`. The rest: what lies between it and the edge before.
    """

    key: EpochKey
    seq: int | None
    wire_seq: int | None
    t_ns: int
    num_bytes: int = 0
    num_chunks: int = 0
    num_events: int = 0


@dataclass(frozen=True, slots=True)
class Cut:
    """Everything of an epoch before `edge` goes; the sums are of all that."""

    edge: Edge
    reason: str
    num_bytes: int
    num_chunks: int
    num_events: int


@dataclass(frozen=True, slots=True)
class StoredFrame:
    """A keyframe of the pool, without what it says."""

    seq: int
    t_ns: int
    is_periodic: bool


def cuts_by_age(edges: Iterable[Edge], before_ns: int) -> list[Cut]:
    """edges: of one epoch, in order. At most one cut."""
    gone = []
    for edge in edges:
        if edge.t_ns > before_ns:
            break
        gone.append(edge)
    return _cuts(gone, "age")


def cuts_by_size(epochs: Sequence[Iterable[Edge]], num_bytes: int) -> list[Cut]:
    """The oldest stretches, until `num_bytes` are free. epochs: the edges of each, in order; read only as far as
    needed.
    """
    gone, free = [], 0
    for edge in heapq.merge(*epochs, key=lambda edge: edge.t_ns):
        if free >= num_bytes:
            break
        gone.append(edge)
        free += edge.num_bytes
    return _cuts(gone, "size")


def merged(cuts: Iterable[Cut]) -> list[Cut]:
    """The farthest cut of each epoch."""
    farthest: dict[EpochKey, Cut] = {}
    for cut in cuts:
        known = farthest.get(cut.edge.key)
        if known is None or _place(cut.edge) > _place(known.edge):
            farthest[cut.edge.key] = cut
    return list(farthest.values())


def thinned(frames: Sequence[StoredFrame], interval: int, now_ns: int) -> list[int]:
    """Which of these keyframes (of one epoch, in order) go: their `seq`. interval: events between two periodic ones."""
    gone: list[int] = []
    last = None
    for frame in frames[:-1]:
        if last is not None and frame.is_periodic and frame.seq - last < _distance(frame, interval, now_ns):
            gone.append(frame.seq)
        else:
            last = frame.seq
    return gone


def full_at(max_bytes: int) -> int:
    """From how many bytes on something goes, so that a limit holds while events come in."""
    return max_bytes - _room(max_bytes)


def ceiling(max_bytes: int) -> int:
    """Up to how many bytes the writer fills it. What lies above is for transactions that make room: the first of them
    may take some.
    """
    return max_bytes - _room(max_bytes) // 4


def to_free(used: int, max_bytes: int | None, growth: int = 0) -> int:
    """How many bytes are too many; 0: all is well. Somewhat more go than must, so that they do not go one by one.

    growth: bytes that wait to be written.
    """
    if max_bytes is None:
        return 0
    too_many = max(0, used + growth - ceiling(max_bytes))
    if used <= full_at(max_bytes):
        return too_many
    return max(too_many, used - full_at(max_bytes) + _room(max_bytes) // 2)


def _room(max_bytes: int) -> int:
    return max(max_bytes // 10, min(LEAST_ROOM, max_bytes // 3))


def _distance(frame: StoredFrame, interval: int, now_ns: int) -> int:
    """How far from the one before a keyframe must be to stay."""
    return next((one_in * interval for age, one_in in THINNING if frame.t_ns <= now_ns - age), 0)


def _cuts(edges: Iterable[Edge], reason: str) -> list[Cut]:
    of_epoch: dict[EpochKey, list[Edge]] = {}
    for edge in edges:
        of_epoch.setdefault(edge.key, []).append(edge)
    return [_cut(gone, reason) for gone in of_epoch.values()]


def _cut(gone: list[Edge], reason: str) -> Cut:
    sums: Iterator[int] = (
        sum(getattr(edge, name) for edge in gone) for name in ("num_bytes", "num_chunks", "num_events")
    )
    return Cut(gone[-1], reason, *sums)


def _place(edge: Edge) -> float:
    return float("inf") if edge.wire_seq is None else edge.wire_seq
