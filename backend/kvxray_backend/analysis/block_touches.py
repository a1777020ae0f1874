"""What messages tell of the lives of blocks: their rows that allocate, reuse, release, cache and evict, spread out, one
entry each. Pure array work: knows nothing of what was before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.columns import HAS_ROWS, HAS_VALUE, I4, I8, U1, U4, kind_table
from kvxray_engine.stream.event_times import timing_of
from kvxray_engine.stream.key_index import U8
from kvxray_engine.stream.schema import Cause, Kind, QueueEnd
from numpy.typing import NDArray

from kvxray_backend.analysis.hash_memory import Bools, keys_of

# Read once: to read a member of an enum takes longer than to look at a hundred rows.
ALLOCATED, REUSED, RELEASED = int(Kind.BlockAllocated), int(Kind.BlockReferenced), int(Kind.BlockFreed)
CACHED, EVICTED = int(Kind.BlockCached), int(Kind.BlockEvicted)
_CLEARED, _HIT, _TAIL = int(Kind.CacheCleared), int(Cause.hit), int(QueueEnd.tail)
_OF_REQUESTS: Final = frozenset(
    {Kind.RequestScheduled, Kind.RequestPreempted, Kind.RequestFinished, Kind.RequestAborted, Kind.RequestFailed}
)
_MATTERS: Final = HAS_ROWS | kind_table(_OF_REQUESTS | {Kind.CacheCleared})
_TOUCHES: Final = kind_table(
    frozenset({Kind.BlockAllocated, Kind.BlockReferenced, Kind.BlockFreed, Kind.BlockCached, Kind.BlockEvicted})
)

Index = NDArray[np.intp]
HashBytes = Callable[[int], bytes | None]


@dataclass(frozen=True, slots=True, eq=False)
class Operations:
    """Operations of some messages that follow each other, without those that tell nothing of lives, most of which tell
    of tokens. t: wall ns. blk, val: as in `Columns`.
    """

    kind: U1
    cause: U1
    req: U4
    n: I8
    a0: I8
    a1: U4
    t: I8
    blk: U4
    val: I4

    @staticmethod
    def of(messages: Sequence[Message]) -> Operations:
        parts = [message.columns for message in messages]
        kind, cause, req, n, a0, a1, blk, val = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("kind", "cause", "req", "n", "a0", "a1", "blk", "val")
        )
        t = np.concatenate([timing_of(message).times for message in messages])
        at = np.flatnonzero(_MATTERS[kind])
        rows, a0 = n[at].astype(np.int64), a0[at].astype(np.int64)
        return Operations(kind[at], cause[at], req[at], rows, a0, a1[at], t[at], blk, val)

    def parts(self) -> Iterator[tuple[Operations, tuple[int, int] | None]]:
        """Cut where the cache is cleared: each with the medium that is cleared after it, and when; None: the last."""
        begin = 0
        for at in np.flatnonzero(self.kind == _CLEARED).tolist():
            yield self._part(begin, at), (int(self.a0[at]), int(self.t[at]))
            begin = at
        yield (self._part(begin, len(self.t)) if begin else self), None

    def _part(self, begin: int, end: int) -> Operations:
        rows = [int(self.n[:at].sum()) for at in (begin, end)]
        values = [int(np.where(HAS_VALUE[self.kind[:at]], self.n[:at], 0).sum()) for at in (begin, end)]
        names = ("kind", "cause", "req", "n", "a0", "a1", "t")
        fields: list[Any] = [getattr(self, name)[begin:end] for name in names]
        fields += [self.blk[slice(*rows)], self.val[slice(*values)]]
        return Operations(*fields)


@dataclass(frozen=True, slots=True, eq=False)
class Touches:
    """Rows in the order of events. op: the operation of each. place: which row of its operation it is. ref: references
    after it, of reuses. key: of the hash, of those cached; 0 = not known.
    """

    kind: U1
    cause: U1
    blk: U4
    t: I8
    op: Index
    place: I8
    ref: I8
    key: U8

    def __len__(self) -> int:
        return len(self.blk)


def touches_of(operations: Operations, told: U8, hash0: int, hash_bytes: HashBytes) -> Touches:
    """told: keys of the hashes that the messages told, from ordinal `hash0` on; of others the bytes are asked for."""
    n = operations.n
    matters = np.flatnonzero(_matters(operations))
    lengths = n[matters]
    op = np.repeat(matters, lengths)
    place = np.arange(len(op)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    row0 = np.cumsum(n) - n
    kind = operations.kind[op]
    ref, key = np.zeros(len(op), np.int64), np.zeros(len(op), np.uint64)
    reused, cached = np.flatnonzero(kind == REUSED), np.flatnonzero(kind == CACHED)
    if len(reused):
        values = np.where(HAS_VALUE[operations.kind], n, 0)
        value0 = np.cumsum(values) - values
        ref[reused] = operations.val[value0[op[reused]] + place[reused]]
    key[cached] = _keys(operations.a0[op[cached]] + place[cached], told, hash0, hash_bytes)
    return Touches(kind, operations.cause[op], operations.blk[row0[op] + place], operations.t[op], op, place, ref, key)


def _matters(operations: Operations) -> Bools:
    """Blocks without a hash go to the front of the queue when they are freed: they have no life in the cache."""
    kind = operations.kind
    other_use = (kind == REUSED) & (operations.cause != _HIT)
    to_front = (kind == RELEASED) & (operations.a0 != _TAIL)
    found: Bools = _TOUCHES[kind] & ~other_use & ~to_front
    return found


def _keys(ordinals: I8, told: U8, hash0: int, hash_bytes: HashBytes) -> U8:
    at = ordinals - hash0
    is_told = (at >= 0) & (at < len(told))
    if is_told.all():
        return told[at]
    keys = np.zeros(len(at), np.uint64)
    keys[is_told] = told[at[is_told]]
    for index in np.flatnonzero(~is_told).tolist():
        data = hash_bytes(int(ordinals[index]))
        keys[index] = keys_of(data, len(data))[0] if data else 0
    return keys
