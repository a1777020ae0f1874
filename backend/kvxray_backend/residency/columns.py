"""What is read of the fold of an engine that tells of hashes: a copy of the columns that are asked about, so that the
lock is held for as long as copying takes and no longer.

Measured at 1 million hashes, CPU time: 19 ms for the copy. What follows from it without the lock: 65 ms for figures,
550 ms for chains in order, 190 ms for what prompts can reach, 14 ms for the map (131,072 of them).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from kvxray_engine.stream.columns import I8, U4
from kvxray_engine.stream.key_index import U8
from kvxray_engine.stream.residency_state import ResidencyState
from kvxray_engine.stream.schema import NO_ORDINAL, UNKNOWN_U4, Descriptor
from numpy.typing import NDArray

OF_ENTRIES: Final = (
    "keys", "copies", "sure", "parents", "block_sizes", "names", "t_first", "t_last", "stores", "removals", "reuses",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class ResidencyColumns:
    """One entry a hash and place (those that are gone and not forgotten too), in order of key: ordinal << 16 | place.
    `t_ns`: time of the last event. `is_whole`: everything was told since the engine began.
    """

    descriptor: Descriptor
    keys: U8
    copies: U4
    sure: NDArray[np.uint8]
    parents: U4
    block_sizes: NDArray[np.uint16]
    names: U4
    t_first: I8
    t_last: I8
    stores: U4
    removals: U4
    reuses: U4
    kind_totals: I8
    t_ns: int
    next_seq: int
    next_wire_seq: int
    step: int
    is_whole: bool
    counts_copies: bool

    def rows_of(self, ordinal: int) -> range:
        """Its entries, one a place; needs the columns in order."""
        first, last = np.searchsorted(self.keys, np.array([ordinal << 16, (ordinal + 1) << 16], np.uint64)).tolist()
        return range(first, last)

    def parent_of(self, ordinal: int) -> int:
        """Ordinal, NO_ORDINAL of a root, UNKNOWN_U4 where no place tells."""
        rows = self.rows_of(ordinal)
        told = self.parents[rows.start : rows.stop].tolist()
        return min(told, key=lambda parent: -1 if parent == NO_ORDINAL else parent, default=UNKNOWN_U4)

    @property
    def ordinals(self) -> U4:
        ordinals: U4 = (self.keys >> np.uint64(16)).astype(np.uint32)
        return ordinals

    @property
    def places(self) -> NDArray[np.uint16]:
        return (self.keys & np.uint64(0xFFFF)).astype(np.uint16)

    @property
    def is_here(self) -> NDArray[np.bool_]:
        return self.copies > 0


def copied(fold: ResidencyState) -> ResidencyColumns:
    """As they lie in the fold, in no order. Call with the lock held that guards it."""
    entries = fold.entries
    return ResidencyColumns(
        descriptor=fold.descriptor,
        keys=entries.index.keys_by_row(),
        copies=entries["copies"].copy(),
        sure=entries["sure"].copy(),
        parents=entries["parent"].copy(),
        block_sizes=entries["block_size"].copy(),
        names=entries["name"].copy(),
        t_first=entries["t_first"].copy(),
        t_last=entries["t_last"].copy(),
        stores=entries["stores"].copy(),
        removals=entries["removals"].copy(),
        reuses=entries["reuses"].copy(),
        kind_totals=fold.kind_totals.copy(),
        t_ns=fold.t_ns,
        next_seq=fold.next_seq,
        next_wire_seq=fold.next_wire_seq,
        step=fold.step,
        is_whole=fold.known,
        counts_copies=fold.store_semantics == "copies",
    )


def in_order(columns: ResidencyColumns) -> ResidencyColumns:
    """Sorted by key: needs no lock."""
    if (columns.keys[1:] > columns.keys[:-1]).all():
        return columns
    order = np.argsort(columns.keys)
    return replace(columns, **{name: getattr(columns, name)[order] for name in OF_ENTRIES})


def columns_of(fold: ResidencyState) -> ResidencyColumns:
    """Of a state that nobody moves on."""
    return in_order(copied(fold))
