"""One prefix as the folded state has it: the blocks that carry its hash, who holds them, the chain up to it and what
goes on from it. Pure but for the bytes of hashes, which are looked up.

Call with the state's lock held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.schema import NO_ORDINAL, UNKNOWN_U4
from numpy.typing import NDArray

from kvxray_backend.block_types import BranchView, ChainLinkView, PrefixView
from kvxray_backend.figures import SPOILS_BLOCKS
from kvxray_backend.live_state import LiveState
from kvxray_backend.prefix_chain import Index, parents_of, up_from
from kvxray_backend.views import holders_of, reading_of

HashesOf = Callable[[list[int]], dict[int, bytes]]


@dataclass(frozen=True, slots=True)
class Tree:
    """The hashed blocks around one prefix, as positions among all hashed blocks. `before`: from the first of its chain
    to the last before the prefix. `branches`: one block of each hash that comes next, with how many blocks it leads to.
    """

    hashed: NDArray[np.intp]
    carriers: Index
    before: list[int]
    is_whole: bool
    branches: list[tuple[int, int]]


def prefix_view(
    live: LiveState, block_map: BlockMap, block_hash: str, ordinals: Iterable[int], hashes_of: HashesOf, limit: int
) -> PrefixView:
    """`ordinals`: under which the hash was told. `limit`: links and branches that are listed, at most."""
    tree = tree_around(block_map, ordinals)
    reading = reading_of(live, block_map)
    near, wide = tree.before[-limit:], tree.branches[:limit]
    of_blocks = tree.hashed[[*near, *(at for at, _ in wide)]].tolist()
    hashes = hashes_of([int(block_map.hash_ordinal[block]) for block in of_blocks])

    def link(at: int) -> tuple[int, str | None, int]:
        block = int(tree.hashed[at])
        told = hashes.get(int(block_map.hash_ordinal[block]))
        return block, told.hex() if told is not None else None, int(block_map.ref[block])

    carriers: list[int] = tree.hashed[tree.carriers].tolist()
    tokens = (len(tree.before) + 1) * block_map.descriptor.block_size if carriers and tree.is_whole else None
    return PrefixView(
        block_hash=block_hash,
        blocks=carriers,
        holders=holders_of(live, block_map, carriers),
        tokens=reading.figure(tokens, "tokens", SPOILS_BLOCKS, "exact"),
        is_whole=tree.is_whole,
        before=[ChainLinkView(block_id=b, block_hash=h, ref_cnt=r) for b, h, r in map(link, near)],
        num_before=len(tree.before),
        branches=[
            BranchView(block_id=b, block_hash=h, ref_cnt=r, blocks=size)
            for (b, h, r), (_, size) in ((link(at), (at, size)) for at, size in wide)
        ],
        num_branches=len(tree.branches),
        taints=tuple(finding.id for finding in live.open_findings.found if finding.kind in SPOILS_BLOCKS),
    )


def tree_around(block_map: BlockMap, ordinals: Iterable[int]) -> Tree:
    """What leads to the prefix and what goes on from it. A chain whose beginning is not in the cache is not whole."""
    hashed = np.flatnonzero(block_map.hash_ordinal < UNKNOWN_U4)
    told, parent_told = block_map.hash_ordinal[hashed], block_map.parent_ordinal[hashed]
    of_prefix = np.fromiter(ordinals, np.uint32)
    carriers = np.flatnonzero(np.isin(told, of_prefix))
    if not len(carriers):
        return Tree(hashed, carriers, [], False, [])
    parents = parents_of(told, parent_told)
    path = up_from(int(carriers[0]), parents)
    next_ones = np.flatnonzero(np.isin(parent_told, of_prefix))
    is_whole = bool(parent_told[path[0]] == NO_ORDINAL)
    return Tree(hashed, carriers, path[:-1], is_whole, _branches(told, parents, next_ones, path))


def _branches(told: NDArray[np.uint32], parents: Index, next_ones: Index, path: list[int]) -> list[tuple[int, int]]:
    """One block of each hash among those that follow on the prefix, with how many blocks there are at and beyond it;
    the largest first.
    """
    none = len(told)
    next_ones = next_ones[~np.isin(next_ones, path)]
    # Upwards in twice as long strides each round, and no further than to a block that follows on the prefix.
    jump = parents.copy()
    jump[next_ones] = next_ones
    jump[path] = none
    for _ in range(none.bit_length()):
        jump = jump[jump]
    sizes = np.bincount(jump, minlength=none + 1)
    hashes, first, of_hash = np.unique(told[next_ones], return_index=True, return_inverse=True)
    totals = np.bincount(of_hash, weights=sizes[next_ones], minlength=len(hashes))
    order = np.argsort(-totals, kind="stable")
    return [(int(next_ones[first[at]]), int(totals[at])) for at in order]
