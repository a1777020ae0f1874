"""The chain of hashes through one block: the blocks of the prompt up to it, and all that go on from it. Pure."""

from __future__ import annotations

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.schema import UNKNOWN_U4
from numpy.typing import NDArray

Index = NDArray[np.intp]


def chain_through(block_map: BlockMap, block: int) -> tuple[list[int], list[int]]:
    """Blocks from the first of the prompt to this one, and blocks that only come after it, in order of id.

    Both are empty for a block without a hash. Where several blocks carry one hash, those before are one of each.
    """
    hashed = np.flatnonzero(block_map.hash_ordinal < UNKNOWN_U4)
    ordinals = block_map.hash_ordinal[hashed]
    here = np.flatnonzero(hashed == block)
    if not len(here):
        return [], []
    parents = parents_of(ordinals, block_map.parent_ordinal[hashed])
    before = up_from(int(here[0]), parents)
    goes_through = _reaching(ordinals == ordinals[here[0]], parents)
    goes_through[before] = False
    return hashed[before].tolist(), hashed[goes_through].tolist()


def parents_of(ordinals: NDArray[np.uint32], parents: NDArray[np.uint32]) -> Index:
    """Where among `ordinals` the parent of each is; their number for none. One entry more, which is its own parent."""
    none = len(ordinals)
    order = np.argsort(ordinals, kind="stable")
    at = np.minimum(np.searchsorted(ordinals[order], parents), none - 1)
    found = ordinals[order[at]] == parents
    return np.append(np.where(found, order[at], none), none)


def up_from(start: int, parents: Index) -> list[int]:
    """From the root to `start`. A circle, which only nonsense on the wire makes, is followed once."""
    path, seen, none = [start], {start}, len(parents) - 1
    while (above := int(parents[path[-1]])) != none and above not in seen:
        path.append(above)
        seen.add(above)
    return path[::-1]


def _reaching(targets: NDArray[np.bool_], parents: Index) -> NDArray[np.bool_]:
    """Which of all have a target among their ancestors, or are one: each round looks twice as far up."""
    reached = np.append(targets, False)
    jump = parents
    for _ in range(len(targets).bit_length()):
        reached = reached | reached[jump]
        jump = jump[jump]
    return reached[:-1]
