"""Who holds the blocks that several hold at once. Pure.

Blocks of one prefix have the same holders, so that a few sets of them stand for most such blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from kvxray_engine.stream.holder_log import ANONYMOUS
from numpy.typing import NDArray

MOST_SETS: Final = 1024
MOST_MEMBERS: Final = 8192
"""Of all sets that are told, one entry a set it is in."""

U4 = NDArray[np.uint32]
U8 = NDArray[np.uint64]
I8 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sharers:
    """`sets`: ordinals of those that hold blocks together, the set of most blocks first. `blocks`: of those sets, each
    once; `of_set`: the set of each. Blocks of other sets are left out.
    """

    sets: list[list[int]]
    blocks: U4
    of_set: I8


NO_SHARERS: Final = Sharers([], np.zeros(0, np.uint32), np.zeros(0, np.int64))


def sharers_of_blocks(blocks: U4, holders: U4) -> Sharers:
    """blocks, holders: one entry a hold, sorted by block and then by holder."""
    blocks, holders = held_by_several(blocks, holders)
    if not len(blocks):
        return NO_SHARERS
    firsts = np.flatnonzero(np.append(True, blocks[1:] != blocks[:-1]))
    ends = np.append(firsts[1:], len(blocks))
    sums = np.add.reduceat(_spread(holders), firsts)
    _, examples, of_block, counts = np.unique(sums, return_index=True, return_inverse=True, return_counts=True)
    place, sets = np.full(len(examples), -1, np.int64), list[list[int]]()
    left = MOST_MEMBERS
    for found in np.argsort(-counts, kind="stable")[:MOST_SETS].tolist():
        members = holders[firsts[examples[found]] : ends[examples[found]]]
        if len(members) <= left and members[-1] != ANONYMOUS:
            place[found], left = len(sets), left - len(members)
            sets.append(members.tolist())
    of_set = place[of_block]
    return Sharers(sets, blocks[firsts][of_set >= 0], of_set[of_set >= 0])


def held_by_several(blocks: U4, holders: U4) -> tuple[U4, U4]:
    """The holds on blocks that more than one holds, each holder of a block once."""
    same_block = blocks[1:] == blocks[:-1]
    again = 1 + np.flatnonzero(same_block & (holders[1:] == holders[:-1]))
    if len(again):
        blocks, holders = np.delete(blocks, again), np.delete(holders, again)
        same_block = blocks[1:] == blocks[:-1]
    shared = np.zeros(len(blocks), np.bool_)
    shared[1:] = same_block
    shared[:-1] |= same_block
    return blocks[shared], holders[shared]


def _spread(holders: U4) -> U8:
    """A number of 64 bits for each, such that different sets of them have different sums (splitmix64)."""
    mixed = (holders.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    spread: U8 = mixed ^ (mixed >> np.uint64(31))
    return spread
