"""Who allocated each block last, and for whom blocks were evicted: from the events of some minutes. Pure.

What is cached and held by nobody was computed for whoever allocated it. An eviction says who needed the room, not whose
the block was: that is who had allocated it before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.columns import I8, U4
from kvxray_engine.stream.event_times import timing_of
from kvxray_engine.stream.schema import NO_ORDINAL, Cause, Kind, Name
from numpy.typing import NDArray

_ALLOCATED, _EVICTED, _ON_PURPOSE = int(Kind.BlockAllocated), int(Kind.BlockEvicted), int(Cause.explicit)
_SAME_NS = 1_000_000
"""Times of joined messages are told to the microsecond."""

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class RoomMade:
    """Evictions that made room, in the order of events. lost: who had allocated the block; took: for whom it went;
    NO_ORDINAL: nobody that is known.
    """

    t: I8
    lost: U4
    took: U4

    def since(self, t_ns: int) -> RoomMade:
        here = self.t > t_ns
        return RoomMade(self.t[here], self.lost[here], self.took[here])


@dataclass(frozen=True, slots=True, eq=False)
class BlockOwners:
    """holders, alloc_ns: of every block, NO_ORDINAL and 0 where no event read allocates it. names: that were told on
    the way. since_ns: of the first event read, until_seq: the last; is_whole: from the engine's first event on.
    """

    holders: U4
    alloc_ns: I8
    names: dict[int, Name]
    room_made: RoomMade
    since_ns: int
    until_seq: int
    until_ns: int

    def knows(self, t_alloc: I8) -> Bools:
        """Of which blocks it is the very allocation that a state has for their last."""
        found: Bools = (self.holders != NO_ORDINAL) & (np.abs(self.alloc_ns - t_alloc) <= _SAME_NS)
        return found


def owners_of(messages: Sequence[Message], num_blocks: int) -> BlockOwners | None:
    """messages: in order, none missing between them. None without any. Block ids beyond `num_blocks` are left out."""
    if not messages:
        return None
    parts = [_rows(message) for message in messages]
    kind, blk, req, t = (np.concatenate([part[at] for part in parts]) for at in range(4))
    here = blk < num_blocks
    kind, blk, req, t = kind[here], blk[here], req[here], t[here]
    is_given = kind == _ALLOCATED
    holders, alloc_ns = np.full(num_blocks, NO_ORDINAL, np.uint32), np.zeros(num_blocks, np.int64)
    # In order: the last of each block is what stays.
    holders[blk[is_given]], alloc_ns[blk[is_given]] = req[is_given], t[is_given]
    lost = _given_before(blk, is_given, req)
    room = RoomMade(t[~is_given], lost[~is_given], req[~is_given])
    first, last = messages[0], messages[-1]
    names = {
        message.header.req0 + place: name for message in messages for place, name in enumerate(message.header.names)
    }
    since_ns, until_ns = int(timing_of(first).times[0]), int(timing_of(last).times[-1])
    return BlockOwners(holders, alloc_ns, names, room, since_ns, last.end_seq - 1, until_ns)


def _rows(message: Message) -> tuple[NDArray[np.uint8], U4, U4, I8]:
    """Kind, block, request and time of its rows that allocate, or evict to make room."""
    columns = message.columns
    is_told = (columns.kind == _ALLOCATED) | ((columns.kind == _EVICTED) & (columns.cause != _ON_PURPOSE))
    of_row = np.repeat(np.arange(columns.num_operations), columns.n)
    here = is_told[of_row]
    op = of_row[here]
    return columns.kind[op], columns.blk[here], columns.req[op], timing_of(message).times[op]


def _given_before(blk: U4, is_given: Bools, req: U4) -> U4:
    """Of each row, who was given its block last before it; NO_ORDINAL: no row tells."""
    order = np.lexsort((blk,))  # in order of events within a block
    blk, is_given, req = blk[order], is_given[order], req[order]
    at = np.arange(len(blk))
    begins = np.maximum.accumulate(np.where(np.append(True, blk[1:] != blk[:-1])[: len(blk)], at, 0))
    last = np.maximum.accumulate(np.where(is_given, at, -1))
    found = np.full(len(blk), NO_ORDINAL, np.uint32)
    found[order] = np.where(last >= begins, req[last], NO_ORDINAL)
    return found
