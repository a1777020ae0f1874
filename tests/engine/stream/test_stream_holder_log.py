"""Who holds which block: whenever it is read, the log has told the same as counting pair by pair."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kvxray_engine.stream.holder_log import MERGE_AT, HolderLog

CHANGES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans()), max_size=12)


def extend(log: HolderLog, changes: list[tuple[int, int, bool]]) -> None:
    blocks, holders, removed = (np.array(column) for column in zip(*changes, strict=True))
    log.extend(blocks.astype(np.uint32), holders.astype(np.uint32), removed.astype(bool))


@given(st.lists(st.tuples(CHANGES, st.booleans()), max_size=8))
def test_it_is_a_counter_that_stops_at_nothing(reads: list[tuple[list[tuple[int, int, bool]], bool]]) -> None:
    """Whether the holds were read between two messages, or only asked for what was released without a hold."""
    log, held = HolderLog(), Counter[tuple[int, int]]()
    for changes, is_read in reads:
        if changes:
            extend(log, changes)
        for block, holder, removed in changes:
            held[block, holder] += -1 if removed else 1
        assert sorted(log.take_releases_without_hold()) == sorted(pair for pair, count in held.items() if count < 0)
        held = +held
        if is_read:
            assert holds_of(log) == sorted(held.elements())
        log = log.copy()
    assert holds_of(log) == sorted(held.elements())


@given(CHANGES.filter(bool), CHANGES.filter(bool))
def test_a_copy_goes_its_own_way(changes: list[tuple[int, int, bool]], others: list[tuple[int, int, bool]]) -> None:
    log = HolderLog()
    extend(log, changes)
    log.take_releases_without_hold()
    copied = log.copy()
    extend(copied, others)
    copied.holds()
    alone = HolderLog()
    extend(alone, changes)
    assert holds_of(log) == holds_of(alone)


def test_what_changed_goes_into_the_net_holds_when_it_is_much() -> None:
    log, count = HolderLog(), MERGE_AT // 2
    blocks, holders = np.arange(count, dtype=np.uint32), np.full(count, 7, np.uint32)
    for is_removed in (False, True, False):
        for holder in (0, 1, 2):
            log.extend(blocks, holders + np.uint32(holder), np.full(count, is_removed))
            assert log.take_releases_without_hold() == []
    assert holds_of(log) == [(block, holder) for block in range(count) for holder in (7, 8, 9)]


def holds_of(log: HolderLog) -> list[tuple[int, int]]:
    blocks, holders = log.holds()
    return list(zip(blocks.tolist(), holders.tolist(), strict=True))
