"""Rows by key, against a dictionary: keys come in any order, and the small layer is merged now and then."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kvxray_engine.stream import key_index, residency_names
from kvxray_engine.stream.key_index import KeyIndex
from kvxray_engine.stream.keyed_table import KeyedTable
from kvxray_engine.stream.residency_names import NamesTold
from kvxray_engine.stream.schema import Name

batches = st.lists(st.sets(st.integers(0, 60), max_size=12), max_size=12)


def keys(numbers) -> np.ndarray:
    return np.array(sorted(numbers), np.uint64)


@given(batches)
@settings(deadline=None)
def test_every_key_has_the_row_it_was_given(batches: list[set[int]]) -> None:
    index, rows = KeyIndex(), {}
    with patch.object(key_index, "MERGE_AT", 5):
        for batch in batches:
            for number in sorted(batch):
                rows.setdefault(number, len(rows))
            assert index.find_or_add(keys(batch)).tolist() == [rows[number] for number in sorted(batch)]
            index.check_integrity()
            assert index.find(keys(range(61))).tolist() == [rows.get(number, -1) for number in range(61)]
            by_row = {row: number for number, row in rows.items()}
            assert index.keys_by_row().tolist() == [by_row[row] for row in range(len(rows))]


def test_a_table_grows_and_keeps_what_it_is_told_to() -> None:
    table = KeyedTable({"copies": ("<u4", 0), "parent": ("<u4", 7)})
    rows = table.rows_of(keys(range(3000)))
    table["copies"][rows] = np.arange(3000)
    other = table.copy()
    table.keep(table["copies"] % 1000 == 5)
    assert table.index.find(keys([5, 6, 1005, 2005])).tolist() == [0, -1, 1, 2]
    assert table["copies"].tolist() == [5, 1005, 2005]
    assert table["parent"].tolist() == [7, 7, 7]
    assert len(other) == 3000


def test_names_that_are_neither_recent_nor_in_use_are_forgotten() -> None:
    with patch.object(residency_names, "NAMES_IN_USE", 10):
        told = NamesTold()
        told._thin_at = 30
        told.add(0, [Name("", "namespace", session=str(number)) for number in range(40)])
        told.thin(lambda: np.array([3], np.uint32))
    assert sorted(told.names) == [3, *range(30, 40)]
