"""The lives of blocks and hashes recounted event by event, in plain Python that can be checked by eye."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.columns import HAS_VALUE
from kvxray_engine.stream.event_times import timing_of
from kvxray_engine.stream.schema import Cause, Kind, QueueEnd

MINUTE_NS = 60_000_000_000
ENDS = (Kind.RequestPreempted, Kind.RequestFinished, Kind.RequestAborted, Kind.RequestFailed)


@dataclass
class LivesRecount:
    """Lists of (time, what `BlockLives` says of it); None: not known."""

    block_size: int
    evicted: list[tuple[int, int | None, int | None]] = field(default_factory=list)
    reused: list[tuple[int, int | None]] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    returned: list[tuple[int, bytes]] = field(default_factory=list)
    missed: list[tuple[int, int | str]] = field(default_factory=list)
    tails: list[tuple[int, int]] = field(default_factory=list)
    recomputed: list[tuple[int, int]] = field(default_factory=list)
    hashes: dict[int, bytes] = field(default_factory=dict)
    carries: dict[int, bytes] = field(default_factory=dict)
    allocated: dict[int, int] = field(default_factory=dict)
    released: dict[int, int] = field(default_factory=dict)
    went: dict[bytes, tuple[int, str]] = field(default_factory=dict)
    prompt_left: Counter[Hashable] = field(default_factory=Counter)
    lost: dict[Hashable, int] = field(default_factory=dict)

    def happen(self, message: Message) -> None:
        """Every event of a message, one by one."""
        columns, width = message.columns, message.header.hash_width
        for index in range(len(columns.hashes) // width):
            data = bytes(columns.hashes[index * width : (index + 1) * width])
            self.hashes[message.header.hash0 + index] = data
        row = value = 0
        for op, t in enumerate(timing_of(message).times.tolist()):
            kind, cause, request = Kind(int(columns.kind[op])), Cause(int(columns.cause[op])), int(columns.req[op])
            a0, a1, n = int(columns.a0[op]), int(columns.a1[op]), int(columns.n[op])
            if not n:
                self.operation(kind, request, a0, a1, t)
            for index in range(n):
                told = None
                if HAS_VALUE[kind]:
                    told, value = int(columns.val[value]), value + 1
                self.row(kind, cause, request, int(columns.blk[row]), a0, a0 + index, told, t)
                row += 1

    def operation(self, kind: Kind, request: Hashable, a0: int, a1: int, t: int) -> None:
        if kind == Kind.CacheCleared:
            for block in list(self.carries):
                self._give_up(block, t, "dropped")
        elif kind == Kind.RequestScheduled:
            if request in self.lost:
                self.recomputed.append((t, max(self.lost.pop(request) - a1, 0)))
            self.prompt_left[request] = a0 // self.block_size - a1 // self.block_size
            self.tails.append((t, a0 % self.block_size))
        elif kind in ENDS:
            self.prompt_left[request] = 0
            self.lost.pop(request, None)
            if kind == Kind.RequestPreempted:
                self.lost[request] = a0

    def row(
        self, kind: Kind, cause: Cause, request: Hashable, block: int, a0: int, ordinal: int, value: int | None, t: int
    ) -> None:
        if kind == Kind.BlockAllocated:
            self.allocated[block] = t
            self.released.pop(block, None)
        elif kind == Kind.BlockFreed and a0 == QueueEnd.tail:
            self.released[block] = t
        elif kind == Kind.BlockReferenced and cause == Cause.hit and value == 1:
            self.reused.append((t, _since(self.released.get(block), t)))
        elif kind == Kind.BlockCached:
            self._cache(block, self.hashes[ordinal], request, t)
        elif kind == Kind.BlockEvicted:
            if cause != Cause.explicit:
                times = self.allocated.get(block), self.released.get(block)
                self.evicted.append((t, _since(times[0], t), _since(times[1], t)))
            self._give_up(block, t, "dropped" if cause == Cause.explicit else "evicted")

    def _cache(self, block: int, data: bytes, request: Hashable, t: int) -> None:
        gone_ns, why = self.went.get(data, (0, "never"))
        if data in self.carries.values():
            why = "beside"
        if why == "evicted" and t - gone_ns <= MINUTE_NS:
            self.returned.append((t, data))
        if self.prompt_left[request] > 0:
            self.prompt_left[request] -= 1
            self.missed.append((t, t - gone_ns if why == "evicted" else why))
        self.carries[block] = data

    def _give_up(self, block: int, t: int, why: str) -> None:
        data = self.carries.pop(block)
        if data not in self.carries.values():
            self.went[data] = t, why
            if why == "evicted":
                self.gone.append(t)


def _since(began_ns: int | None, t: int) -> int | None:
    return None if began_ns is None else t - began_ns
