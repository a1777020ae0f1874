"""The chains of what is cached: all residents in the order of their prefixes, the parent and the depth of each. Pure.

A hash that is in several places stands once for each, side by side. Parents come before their children.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from kvxray_engine.stream.columns import U4
from kvxray_engine.stream.residency_state import first_of_each
from kvxray_engine.stream.schema import NO_ORDINAL
from numpy.typing import NDArray

from kvxray_backend.block_order import prefix_order
from kvxray_backend.residency.columns import ResidencyColumns
from kvxray_backend.residency.measures import depths, parents_among

ROOT: Final = 0xFFFFFFFF
NOT_HERE: Final = 0xFFFFFFFE
"""Instead of a parent's position: the parent is gone, or was not told."""

Index = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class ChainOrder:
    """Of all residents. `rows`: their entries in the columns, in order. `parents`: the position of the parent among
    them, ROOT or NOT_HERE. `depths`: blocks before each, as far as they are remembered. `num_broken`: trees that do not
    begin at a root, since what came before is gone or was not told.
    """

    rows: Index
    parents: U4
    depths: Index
    num_trees: int
    num_broken: int

    @property
    def longest(self) -> int:
        """Blocks of the longest chain."""
        return int(self.depths.max(initial=-1)) + 1


def chain_order(columns: ResidencyColumns) -> ChainOrder:
    """The largest tree first."""
    ordinals = columns.ordinals
    starts = first_of_each(ordinals) if len(ordinals) else np.zeros(0, np.intp)
    hashes, parents = ordinals[starts], parents_of_hashes(columns.parents, starts)
    of_hash = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(ordinals)))
    here = np.flatnonzero(columns.is_here)
    order = prefix_order(ordinals[here], parents[of_hash[here]], -1)
    rows = here[order.blocks]
    told = parents_among(hashes, parents)
    positions = _positions(columns, rows, hashes, told, of_hash)
    depth = depths(np.where(told < 0, -1, told))[of_hash[rows]]
    is_head = (positions == NOT_HERE) & _is_first_of_its_hash(of_hash[rows])
    return ChainOrder(rows, positions, depth, order.num_trees, int(np.count_nonzero(is_head)))


def parents_of_hashes(parents: U4, starts: Index) -> U4:
    """One for each hash: the place that tells most of it counts."""
    if not len(starts):
        return parents
    told = parents.astype(np.int64)
    told[told == NO_ORDINAL] = -1
    least = np.minimum.reduceat(told, starts)
    least[least < 0] = NO_ORDINAL
    return least.astype(np.uint32)


def _positions(columns: ResidencyColumns, rows: Index, hashes: U4, told: Index, of_hash: Index) -> U4:
    """Where in the order the parent of each is: in the same place if it is there, else wherever it comes first."""
    where = np.full(len(columns.keys), -1, np.int64)
    where[rows] = np.arange(len(rows))
    first = np.full(len(hashes) + 1, -1, np.int64)
    first[of_hash[rows][::-1]] = np.arange(len(rows))[::-1]
    above = told[of_hash[rows]]
    found = first[above]  # what is below 0 is mended at the end
    keys = hashes[above].astype(np.uint64) << np.uint64(16) | columns.places[rows] if len(hashes) else columns.keys
    at = np.minimum(np.searchsorted(columns.keys, keys), max(len(columns.keys) - 1, 0))
    if len(rows):
        is_same = columns.keys[at] == keys
        beside = where[at]
        found = np.where(is_same & (beside >= 0), beside, found)
    found = np.where(above == -1, ROOT, np.where((above < 0) | (found < 0), NOT_HERE, found))
    return found.astype(np.uint32)


def _is_first_of_its_hash(hashes: Index) -> NDArray[np.bool_]:
    differs = np.ones(len(hashes), bool)
    differs[1:] = hashes[1:] != hashes[:-1]
    return differs
