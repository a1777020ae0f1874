"""Looks for leaks again and again: finds what a first look would, and makes anew only what has changed since the last.

Used by one thread. A leak that is found again just as it was is the same object, and all of them the same tuple.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Final

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.columns import U4
from kvxray_engine.stream.holder_ends import EngineTime
from kvxray_engine.stream.schema import Name, RequestStatus
from numpy.typing import NDArray

from kvxray_backend.analysis.ended_holders import EXPIRED, EndedHolders, EndedHolds, ended_holds
from kvxray_backend.analysis.leaks import Leak, are_held_only

_WHY: Final = {
    EXPIRED: "expired",
    int(RequestStatus.finished): "finished",
    int(RequestStatus.aborted): "aborted",
    int(RequestStatus.failed): "failed",
}
_HOLDER_SHIFT: Final = np.uint64(33)
_BLOCK_SHIFT: Final = np.uint64(1)


@dataclass(frozen=True, slots=True, eq=False)
class _Look:
    """What leaks follow from. `holds`: holder << 33 | block << 1 | held by nobody else, sorted, each once."""

    holds: NDArray[np.uint64]
    ends: EndedHolders
    names: list[Name | None]
    bytes_per_block: int


class LeakSearch:
    """Invariant: `_leaks` is what the last look was told, in order of holder."""

    def __init__(self) -> None:
        self._last = _NOTHING
        self._leaks: tuple[Leak, ...] = ()

    def look(self, block_map: BlockMap, now: EngineTime, known: Container[int] = frozenset()) -> tuple[Leak, ...]:
        """All leaks at this moment, in order of holder. Costs one pass over the holds.

        known: holders that leaked before. The grace is past for them, though an engine that was idle works again.
        """
        found, last = _look(block_map, ended_holds(block_map, now, known)), self._last
        if not _is_same(found, last):
            before = {leak.holder: leak for leak in self._leaks}
            for holder in _changed(found, last):
                before.pop(holder, None)
            self._leaks = _leaks(found, before)
            self._last = found
        return self._leaks


def find_leaks(block_map: BlockMap, now: EngineTime, known: Container[int] = frozenset()) -> list[Leak]:
    """All leaks at this moment, as a first look finds them."""
    return [*LeakSearch().look(block_map, now, known)]


def _look(block_map: BlockMap, held: EndedHolds) -> _Look:
    only = are_held_only(block_map, held.blocks)
    holds = (held.holders.astype(np.uint64) << _HOLDER_SHIFT) | (held.blocks.astype(np.uint64) << _BLOCK_SHIFT) | only
    names = block_map.requests.names
    return _Look(
        np.unique(holds),
        held.ends,
        [names.get(holder) for holder in held.ends.holders.tolist()],
        block_map.descriptor.bytes_per_block,
    )


def _is_same(found: _Look, last: _Look) -> bool:
    return (
        found.bytes_per_block == last.bytes_per_block
        and np.array_equal(found.holds, last.holds)
        and np.array_equal(found.ends.holders, last.ends.holders)
        and np.array_equal(found.ends.status, last.ends.status)
        and np.array_equal(found.ends.ended_ns, last.ends.ended_ns)
        and found.names == last.names
    )


def _changed(found: _Look, last: _Look) -> list[int]:
    """Holders of the last look of whom something else is found now."""
    if found.bytes_per_block != last.bytes_per_block:
        return [*last.ends.holders.tolist()]
    holds = np.setxor1d(found.holds, last.holds, assume_unique=True) >> _HOLDER_SHIFT
    _, ours, theirs = np.intersect1d(found.ends.holders, last.ends.holders, assume_unique=True, return_indices=True)
    differs = found.ends.status[ours] != last.ends.status[theirs]
    differs |= found.ends.ended_ns[ours] != last.ends.ended_ns[theirs]
    for at, (our, their) in enumerate(zip(ours.tolist(), theirs.tolist(), strict=True)):
        differs[at] |= found.names[our] != last.names[their]
    return [*holds.tolist(), *found.ends.holders[ours[differs]].tolist()]


def _leaks(found: _Look, before: dict[int, Leak]) -> tuple[Leak, ...]:
    """before: those that are as they were."""
    whose, firsts = np.unique(found.holds >> _HOLDER_SHIFT, return_index=True)
    assert len(whose) == len(found.ends.holders), "everybody found holds something"
    bounds = [*firsts.tolist(), len(found.holds)]
    leaks = []
    for at, holder in enumerate(whose.tolist()):
        leak = before.get(holder)
        leaks.append(leak if leak is not None else _leak(found, at, found.holds[bounds[at] : bounds[at + 1]]))
    return tuple(leaks)


def _leak(found: _Look, at: int, holds: NDArray[np.uint64]) -> Leak:
    holder, name = int(found.ends.holders[at]), found.names[at]
    blocks: U4 = (holds >> _BLOCK_SHIFT).astype(np.uint32)
    return Leak(
        holder,
        name.id if name is not None else f"#{holder}",
        _WHY[int(found.ends.status[at])],
        int(found.ends.ended_ns[at]),
        blocks,
        blocks[(holds & np.uint64(1)).astype(bool)],
        found.bytes_per_block,
    )


_NOTHING: Final = _Look(
    np.zeros(0, np.uint64),
    EndedHolders(np.zeros(0, np.uint32), np.zeros(0, np.uint8), np.zeros(0, np.int64)),
    [],
    0,
)
