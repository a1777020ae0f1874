"""The table of requests: ended ones are forgotten after a while, at a price that does not grow with those that leak."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kvxray_engine.stream.columns import U4
from kvxray_engine.stream.request_table import KEEP_ENDED, PRUNE_AT, ROW, RequestTable
from kvxray_engine.stream.schema import Name, RequestStatus


def ended(table: RequestTable, first: int, num: int) -> None:
    """So many more requests, from ordinal `first` on, that have ended."""
    table.add_names(first, [Name(f"r{first + at}") for at in range(num)])
    table.rows["status"][-num:] = RequestStatus.finished


def prunings(holding: U4, num: int, at_once: int) -> tuple[int, RequestTable]:
    """How often a table is pruned while so many requests end, and the table. holding: who never lets go."""
    table, times = RequestTable(), 0
    for first in range(0, num, at_once):
        ended(table, first, at_once)
        if table.wants_pruning():
            times += 1
            table.prune(holding)
            table.check_integrity()
    return times, table


def test_where_thousands_leak_it_is_not_looked_through_again_for_every_message() -> None:
    leaking = np.arange(6_000, dtype=np.uint32)
    times, table = prunings(leaking, 30_000, 10)
    assert times == 6  # what is left, 8,048, grows by half before the next look
    assert len(table) < 8_048 * 3 // 2 + 10
    assert table.ended(leaking).all()


def test_where_none_leaks_only_the_newest_ended_are_kept() -> None:
    times, table = prunings(np.zeros(0, np.uint32), 30_000, 10)
    assert times == 4
    assert KEEP_ENDED <= len(table) < PRUNE_AT
    assert table.get(29_999) is not None
    assert table.get(0) is None


def test_where_many_run_it_is_not_looked_through_again_for_every_message() -> None:
    table = RequestTable()
    table.add_names(0, [Name(f"r{at}") for at in range(PRUNE_AT)])
    assert table.wants_pruning()
    table.prune(np.zeros(0, np.uint32))
    assert len(table) == PRUNE_AT
    ended(table, PRUNE_AT, 10)
    assert not table.wants_pruning()


def test_a_copy_is_looked_through_when_the_table_is() -> None:
    _, table = prunings(np.arange(7_000, dtype=np.uint32), 10_000, 100)
    twin = table.copy()
    first, times = 10_000, 0
    while not table.wants_pruning():
        assert not twin.wants_pruning()
        for one in (table, twin):
            ended(one, first, 100)
        first, times = first + 100, times + 1
    assert twin.wants_pruning()
    assert times > 10


@given(st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=8, unique=True), max_size=120))
def test_it_is_a_dictionary_whatever_the_order_of_ordinals(told: list[list[int]]) -> None:
    """Names may be lost in a gap: then an ordinal comes late, below others."""
    table, plain = RequestTable(), dict[int, int]()
    for number, ordinals in enumerate(told):
        at = table._ensure(np.array(ordinals, np.uint32))
        table.rows["prompt"][at] = number
        plain |= dict.fromkeys(ordinals, number)
        table.check_integrity()
    assert dict(zip(table.rows["ordinal"].tolist(), table.rows["prompt"].tolist(), strict=True)) == plain
    assert table.rows.dtype == ROW
