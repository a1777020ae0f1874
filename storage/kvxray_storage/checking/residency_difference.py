"""What is not the same in two states of hashes of one moment."""

from __future__ import annotations

from typing import Final

import numpy as np
from kvxray_engine.stream.keyed_table import KeyedTable
from kvxray_engine.stream.residency_map import ResidencyMap
from kvxray_engine.stream.residency_state import ENTRY_COLUMNS, HASH_COLUMNS

_NUMBERS: Final = ("next_seq", "next_wire_seq", "t_ns", "descriptor", "store_semantics", "generation")
_ARRAYS: Final = ("known_media", "group_sizes", "kind_totals")


def residency_difference(folded: ResidencyMap, told: ResidencyMap) -> str:
    """Its name; empty: nothing."""
    for name in _NUMBERS:
        if getattr(folded, name) != getattr(told, name):
            return name
    for name in _ARRAYS:
        if not np.array_equal(getattr(folded, name), getattr(told, name)):
            return name
    for mine, theirs, columns in (
        (folded.entries, told.entries, ENTRY_COLUMNS),
        (folded.hashes, told.hashes, HASH_COLUMNS),
    ):
        name = _of_tables(mine, theirs, tuple(columns))
        if name:
            return name
    return "" if _same_hashes(folded, told) else "the bytes of hashes"


def _of_tables(mine: KeyedTable, theirs: KeyedTable, columns: tuple[str, ...]) -> str:
    keys, others = mine.index.keys_by_row(), theirs.index.keys_by_row()
    order, other_order = np.argsort(keys), np.argsort(others)
    if not np.array_equal(keys[order], others[other_order]):
        return "what it holds"
    for name in columns:
        if not np.array_equal(mine[name][order], theirs[name][other_order]):
            return name
    return ""


def _same_hashes(mine: ResidencyMap, theirs: ResidencyMap) -> bool:
    """Of the hashes that are somewhere, as far as both know them: one that came back may have been told long before."""
    tables = mine.hash_table.copy(), theirs.hash_table.copy()
    lacking = [table.lacking(mine.ordinals_in_use()) for table in tables]
    known = np.setdiff1d(mine.ordinals_in_use(), np.concatenate(lacking))
    for table in tables:
        table.keep(known)
    return tables[0].width != tables[1].width or tables[0].runs() == tables[1].runs()
