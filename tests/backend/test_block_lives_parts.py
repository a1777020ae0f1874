"""What the lives of blocks are worked out with: whatever comes in, the same as looking at one entry after the other."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kvxray_backend.analysis import block_thrash
from kvxray_backend.analysis.block_lives import BlockLives
from kvxray_backend.analysis.block_thrash import block_thrash_finding
from kvxray_backend.analysis.hash_memory import HashMemory
from kvxray_backend.analysis.recent import WINDOW_NS, Recent
from kvxray_backend.analysis.stream_health import Place
from kvxray_backend.analysis.touched_before import LastRows
from kvxray_backend.engine_clock import SET_BACK_NS
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.schema import Descriptor

NOW_NS = 10 * WINDOW_NS


@given(st.lists(st.integers(-2 * WINDOW_NS, 2 * SET_BACK_NS), max_size=30), st.booleans())
def test_of_the_last_minute_is_what_lies_in_it_also_where_the_clock_was_set_back(
    ago: list[int], in_order: bool
) -> None:
    times = [NOW_NS + one for one in (sorted(ago) if in_order else ago)]
    entries = Recent(1)
    entries.add(np.array(times, np.int64), np.arange(len(times), dtype=np.int64))
    found = entries.since(NOW_NS).T.tolist()
    assert found == [[t_ns, at] for at, t_ns in enumerate(times) if NOW_NS - WINDOW_NS < t_ns <= NOW_NS + SET_BACK_NS]


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=40))
def test_what_was_told_before_is_the_last_of_its_block_above(rows: list[tuple[int, bool]]) -> None:
    """Rows of blocks that tell, else ask."""
    held = np.array([-10, -11, -12, -13, -14])
    expected, last = list[int](), dict[int, int]()
    for row, (block, tells) in enumerate(rows):
        if tells:
            last[block] = row
        else:
            expected.append(last.get(block, int(held[block])))
    blk = np.array([block for block, _ in rows], np.uint32)
    is_told = np.array([tells for _, tells in rows], bool)
    telling = np.flatnonzero(is_told)
    asked = LastRows(5)
    assert asked.before(blk, np.flatnonzero(~is_told), telling, telling, held).tolist() == expected
    assert (asked._last == -1).all()


@given(st.lists(st.lists(st.integers(1, (1 << 64) - 1), max_size=200), max_size=8))
def test_every_hash_has_one_place_however_many_want_the_same(told: list[list[int]]) -> None:
    memory, copies = HashMemory(), Counter[int]()
    for keys in told:
        memory.begin(np.array(keys, np.uint64))
        copies.update(keys)
        memory.check_integrity()
    assert memory.copies(np.array(list(copies), np.uint64)).tolist() == list(copies.values())


def test_hashes_that_want_the_same_place_get_different_ones() -> None:
    memory = HashMemory()
    keys = np.arange(1, 1 << 16, dtype=np.uint64)
    same = keys[(keys * np.uint64(0x9E3779B97F4A7C15)) >> memory._shift == 7][:40]
    assert len(same) == 40
    memory.begin(np.repeat(same, 2))
    memory.check_integrity()
    assert memory.copies(same).tolist() == [2] * 40


@given(st.lists(st.integers(1, 6), max_size=40), st.integers(1, 4))
def test_what_came_back_so_often_is_told_once(came: list[int], times: int) -> None:
    lives = BlockLives(BlockMap(Descriptor(4, 16)))
    lives.returned.add(np.full(len(came), NOW_NS), np.array(came, np.int64))
    expected = sorted(key for key, num in Counter(came).items() if num >= times)
    assert lives.thrashing(NOW_NS, times).tolist() == expected


@pytest.mark.parametrize("at_once", [1, 7, 8192])
def test_blocks_that_came_back_are_named_from_the_first_on_and_no_more_than_fit(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(block_thrash, "_LOOKED_AT_ONCE", at_once)
    monkeypatch.setattr(block_thrash, "MAX_SUBJECTS", 5)
    block_map = BlockMap(Descriptor(40, 16))
    hashes = [bytes([number]) * 32 for number in range(1, 40)]
    block_map.hashes.add(0, b"".join(hashes))
    block_map.hash_ordinal[1:] = np.arange(39)
    lives = BlockLives(block_map)
    often = lives.key_of[[3, 9, 10, 22, 30, 31, 38]]
    lives.returned.add(np.full(14, NOW_NS), np.repeat(often, 2).view(np.int64))
    finding = block_thrash_finding(Place("engine", 1, 1, NOW_NS), block_map, lives)
    assert finding is not None
    assert finding.subjects.blocks == (3, 9, 10, 22, 30)
    assert finding.subjects.hashes == tuple(hashes[block - 1].hex() for block in finding.subjects.blocks)
    assert finding.numbers["blocks"] == 7
