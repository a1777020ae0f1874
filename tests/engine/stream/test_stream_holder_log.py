"""Who holds which block: whenever it is read, the log has told the same as counting pair by pair."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kvxray_engine.stream.holder_log import HolderLog

CHANGES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans()), max_size=12)


def extend(log: HolderLog, changes: list[tuple[int, int, bool]]) -> None:
    blocks, holders, removed = (np.array(column) for column in zip(*changes, strict=True))
    log.extend(blocks.astype(np.uint32), holders.astype(np.uint32), removed.astype(bool))


@given(st.lists(CHANGES, max_size=6))
def test_it_is_a_counter_that_stops_at_nothing(reads: list[list[tuple[int, int, bool]]]) -> None:
    log, held = HolderLog(), Counter[tuple[int, int]]()
    for changes in reads:
        if changes:
            extend(log, changes)
        for block, holder, removed in changes:
            held[block, holder] += -1 if removed else 1
        assert sorted(log.take_releases_without_hold()) == sorted(pair for pair, count in held.items() if count < 0)
        held = +held
        blocks, holders = log.holds()
        assert list(zip(blocks.tolist(), holders.tolist(), strict=True)) == sorted(held.elements())
