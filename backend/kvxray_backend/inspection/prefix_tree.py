"""Which hashes of a group hang on which: chains from their roots, and the beginnings that most of them share. Pure.

Only what is there counts, on any medium. A block whose parent is not there begins a chain of its own: a root where its
engine said that nothing is before it, else a piece.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from kvxray_engine.stream.columns import I8, U4
from kvxray_engine.stream.residency_descriptor import group_of
from kvxray_engine.stream.residency_state import ResidencyState, first_of_each
from kvxray_engine.stream.schema import NO_ORDINAL, UNKNOWN_U4
from msgspec import Struct

MAX_SHOWN: Final = 4
"""Chains, and branches of each: a tree of all is for nobody to read."""
MAX_LEVELS: Final = 3
_MAX_JUMPS: Final = 32
"""Each doubles the way that was gone; what has not ended by then goes in circles."""


class Prefix(Struct, frozen=True):
    """A run of blocks without a branch. `last`: hash of its last block, hex; `num_before`: blocks before the run;
    `num_behind`: blocks that go on from it; `num_ends`: chains that end in it or behind it. branches: the largest,
    at most `MAX_SHOWN`, and none below `MAX_LEVELS`; `num_branches` counts them all.
    """

    last: str
    num_before: int
    num_blocks: int
    num_behind: int
    num_ends: int
    num_branches: int
    branches: tuple[Prefix, ...] = ()


class Chains(Struct, frozen=True):
    """Of one group. num_pieces: chains that begin without their parent; of those `num_cut`: it is gone or was never
    told of, `num_untold`: the engine does not say what it is. `longest`: blocks in a row.
    """

    group: int
    num_blocks: int
    num_roots: int
    num_cut: int
    num_untold: int
    num_ends: int
    longest: int
    shared: tuple[Prefix, ...]
    """Those with a branch, that of most blocks first."""


@dataclass(slots=True, eq=False)
class _Tree:
    """By index: ordinal, index of the parent (-1: none is there), the parent's ordinal as told, depth from 0, blocks
    from it on with itself, and chains that end there or behind. `family`: indices in order of parent; `family_at`:
    where those of each parent begin.
    """

    ordinals: U4
    above: I8
    told: I8
    depth: I8
    size: list[int]
    ends: list[int]
    family: I8
    family_at: I8

    def children(self, index: int) -> list[int]:
        """The largest first."""
        found: list[int] = self.family[self.family_at[index] : self.family_at[index + 1]].tolist()
        return sorted(found, key=lambda child: (-self.size[child], child))


def chains_of(state: ResidencyState, group: int) -> Chains:
    """What is there of one group, as chains."""
    tree = _tree_of(*_residents(state, group))
    begins = np.flatnonzero(tree.above < 0)
    told = tree.told[begins]
    return Chains(
        group,
        len(tree.ordinals),
        int((told == NO_ORDINAL).sum()),
        int((told < UNKNOWN_U4).sum()),
        int((told == UNKNOWN_U4).sum()),
        sum(tree.ends[begin] for begin in begins.tolist()),
        int(tree.depth.max(initial=-1)) + 1,
        _shared(state, tree, begins.tolist()),
    )


def _residents(state: ResidencyState, group: int) -> tuple[U4, I8]:
    """Ordinals of what is there, in order, each once; and the parent of each, as any medium told it."""
    places = np.array([place for place in state.places() if group_of(place) == group], np.uint16)
    is_here = np.isin(state.entry_places(), places)
    keys = state.entries.index.keys_by_row()
    rows = np.flatnonzero(is_here)
    rows = rows[np.argsort(keys[rows])]
    ordinals = (keys[rows] >> np.uint64(16)).astype(np.uint32)
    starts = first_of_each(ordinals)
    if not len(starts):
        return ordinals, np.zeros(0, np.int64)
    parents = state.entries["parent"][rows].astype(np.int64)
    parents[parents == NO_ORDINAL] = -1  # so that the least of several tells most
    least = np.minimum.reduceat(parents, starts)
    least[least < 0] = NO_ORDINAL
    is_there = np.logical_or.reduceat(state.entries["copies"][rows] > 0, starts)
    return ordinals[starts][is_there], least[is_there]


def _tree_of(ordinals: U4, told: I8) -> _Tree:
    n = len(ordinals)
    at = np.minimum(np.searchsorted(ordinals, told), max(n - 1, 0))
    above = np.where(ordinals[at] == told, at, -1) if n else np.zeros(0, np.int64)
    depth, is_endless = _depths(above)
    above[is_endless] = -1  # chains that go in circles: each block by itself
    if is_endless.any():
        depth, _ = _depths(above)
    family = np.argsort(above, kind="stable")
    family_at = np.searchsorted(above[family], np.arange(n + 1))
    size, ends = [1] * n, (np.diff(family_at) == 0).astype(int).tolist()
    up = above.tolist()
    for index in np.argsort(-depth, kind="stable").tolist():
        if up[index] >= 0:
            size[up[index]] += size[index]
            ends[up[index]] += ends[index]
    return _Tree(ordinals, above, told, depth, size, ends, family, family_at)


def _depths(above: I8) -> tuple[I8, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:
    """Blocks before each, and which never come to an end."""
    n = len(above)
    way = np.append(np.where(above < 0, n, above), n)
    depth = np.append((above >= 0).astype(np.int64), 0)
    for _ in range(_MAX_JUMPS):
        if (way == n).all():
            break
        depth += depth[way]
        way = way[way]
    return depth[:n], way[:n] != n


def _shared(state: ResidencyState, tree: _Tree, begins: list[int]) -> tuple[Prefix, ...]:
    branching = [begin for begin in begins if tree.ends[begin] > 1]
    branching.sort(key=lambda begin: (-tree.size[begin], begin))
    return tuple(_prefix(state, tree, begin, 1) for begin in branching[:MAX_SHOWN])


def _prefix(state: ResidencyState, tree: _Tree, first: int, level: int) -> Prefix:
    last, num_blocks = first, 1
    while len(below := tree.children(last)) == 1:
        last, num_blocks = below[0], num_blocks + 1
    shown = below[:MAX_SHOWN] if level < MAX_LEVELS else []
    return Prefix(
        (state.hash_bytes(int(tree.ordinals[last])) or b"").hex(),
        int(tree.depth[first]),
        num_blocks,
        tree.size[last] - 1,
        tree.ends[last],
        len(below),
        tuple(_prefix(state, tree, index, level + 1) for index in shown),
    )
