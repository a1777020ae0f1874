"""What became different between two moments of one epoch: block by block, and hold by hold.

Only the two states are compared: a block that was freed and given to somebody else counts as allocated, and one that
came back to what it was does not count at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.columns import U4
from kvxray_engine.stream.schema import NO_ORDINAL, UNKNOWN_U4
from numpy.typing import NDArray

Blocks = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class StateDiff:
    """Block ids by what changed, each sorted; a block may be in several.

    allocated: held, and given out since. referenced, dereferenced: more or fewer holds, but some before or after (a hit
    on a cached block references it). freed: held no more. cached: carries a hash that it did not. evicted: lost the one
    it had. filled: other slots. learned, forgotten: their references or hash became known, or unknown; what was unknown
    at one of the moments is in none of the others. gained, lost: (block, holder) pairs, one entry a hold; None where
    holders are not known.
    """

    allocated: U4
    freed: U4
    cached: U4
    evicted: U4
    referenced: U4
    dereferenced: U4
    filled: U4
    learned: U4
    forgotten: U4
    gained: tuple[U4, U4] | None
    lost: tuple[U4, U4] | None

    def changed(self) -> U4:
        """Every block that is in any of them."""
        blocks = [
            self.allocated, self.freed, self.cached, self.evicted, self.referenced, self.dereferenced, self.filled,
            self.learned, self.forgotten, *(pairs[0] for pairs in (self.gained, self.lost) if pairs is not None),
        ]  # fmt: skip
        return np.unique(np.concatenate(blocks))


def diff(before: BlockMap, after: BlockMap) -> StateDiff:
    """Raises ValueError, with one sentence, where the two do not have the same blocks."""
    if before.num_blocks != after.num_blocks:
        raise ValueError(
            f"The two moments cannot be compared: the source had {before.num_blocks:,} blocks at one and "
            f"{after.num_blocks:,} at the other."
        )
    ref_known = (before.ref != UNKNOWN_U4) & (after.ref != UNKNOWN_U4)
    hash_known = (before.hash_ordinal != UNKNOWN_U4) & (after.hash_ordinal != UNKNOWN_U4)
    is_new = ref_known & (after.ref > 0) & (after.t_alloc != before.t_alloc)
    other_hash = hash_known & (before.hash_ordinal != after.hash_ordinal)
    gained, lost = _holders(before, after)
    return StateDiff(
        allocated=_ids(is_new),
        freed=_ids(ref_known & (before.ref > 0) & (after.ref == 0)),
        cached=_ids(other_hash & (after.hash_ordinal != NO_ORDINAL)),
        evicted=_ids(other_hash & (before.hash_ordinal != NO_ORDINAL)),
        referenced=_ids(ref_known & ~is_new & (after.ref > before.ref)),
        dereferenced=_ids(ref_known & ~is_new & (after.ref < before.ref) & (after.ref > 0)),
        filled=_ids(ref_known & hash_known & (before.slots != after.slots)),
        learned=_ids(_unknown(before) & ~_unknown(after)),
        forgotten=_ids(~_unknown(before) & _unknown(after)),
        gained=gained,
        lost=lost,
    )


def _unknown(state: BlockMap) -> Blocks:
    unknown: Blocks = (state.ref == UNKNOWN_U4) | (state.hash_ordinal == UNKNOWN_U4)
    return unknown


def _ids(blocks: Blocks) -> U4:
    return np.flatnonzero(blocks).astype(np.uint32)


def _holders(before: BlockMap, after: BlockMap) -> tuple[tuple[U4, U4] | None, tuple[U4, U4] | None]:
    if not (before.holders_known and after.holders_known):
        return None, None
    old, new = (_pairs(state) for state in (before, after))
    return _more(new, old), _more(old, new)


def _pairs(state: BlockMap) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Each (block, holder) once, and how many holds it is."""
    blocks, holders = state.holds()
    return np.unique(blocks.astype(np.uint64) << np.uint64(32) | holders, return_counts=True)


def _more(
    these: tuple[NDArray[np.uint64], NDArray[np.int64]], than: tuple[NDArray[np.uint64], NDArray[np.int64]]
) -> tuple[U4, U4]:
    """Holds of these that exceed those of the others."""
    pairs, counts = these
    at = np.minimum(np.searchsorted(than[0], pairs), max(len(than[0]) - 1, 0))
    others = np.where(than[0][at] == pairs, than[1][at], 0) if len(than[0]) else np.zeros(len(pairs), np.int64)
    more = np.repeat(pairs, np.maximum(counts - others, 0))
    return (more >> np.uint64(32)).astype(np.uint32), (more & np.uint64(0xFFFFFFFF)).astype(np.uint32)
