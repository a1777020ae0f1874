"""Hash bytes by ordinal: whatever is kept, told again or forgotten, an ordinal gives its own bytes or none."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kvxray_engine.stream.hash_table import HashTable
from kvxray_engine.stream.holder_log import HolderLog

WIDTH = 8


def told(ordinal: int) -> bytes:
    return ordinal.to_bytes(WIDTH, "big")


@given(
    runs=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=12),
    kept=st.lists(st.sets(st.integers(0, 130)), max_size=3),
)
def test_it_is_a_dictionary(runs: list[tuple[int, int]], kept: list[set[int]]) -> None:
    table, plain, next_ordinal = HashTable(WIDTH), {}, 0
    for gap, length in runs:
        first = next_ordinal + gap
        next_ordinal = first + length
        table.add(first, b"".join(told(first + at) for at in range(length)))
        plain |= {first + at: told(first + at) for at in range(length)}
        if kept and len(plain) % 3 == 0:
            wanted = kept.pop()
            table.keep(np.array(sorted(wanted), np.uint32))
            plain = {ordinal: data for ordinal, data in plain.items() if ordinal in wanted}
        assert {ordinal: table.get(ordinal) for ordinal in range(140) if table.get(ordinal)} == plain
    flat = {
        first + at: run[at * WIDTH : (at + 1) * WIDTH] for first, run in table.runs() for at in range(len(run) // WIDTH)
    }
    assert flat == plain


def test_nothing_told_is_nothing_held() -> None:
    table = HashTable()
    assert table.get(0) is None
    assert table.runs() == []
    table.keep(np.array([3], np.uint32))
    assert table.runs() == []


def test_a_message_without_holds_leaves_a_log_that_can_be_read() -> None:
    log = HolderLog()
    nothing = np.zeros(0, np.uint32)
    log.extend(nothing, nothing, np.zeros(0, bool))
    blocks, holders = log.holds()
    assert len(blocks) == len(holders) == 0
    assert log.of_block(3) == []


@given(
    hashes=st.lists(st.integers(0, 9), min_size=1, max_size=30),
    kept=st.sets(st.integers(0, 40)),
    wanted=st.integers(0, 12),
)
def test_a_hash_is_found_under_all_its_ordinals(hashes: list[int], kept: set[int], wanted: int) -> None:
    table, cut = HashTable(WIDTH), len(hashes) // 2
    table.add(0, b"".join(map(told, hashes[:cut])))
    table.keep(np.array(sorted(kept), np.uint32))
    table.add(cut, b"".join(map(told, hashes[cut:])))
    held = [at for at in range(len(hashes)) if at >= cut or at in kept]
    assert table.ordinals_of(told(wanted)) == [at for at in held if hashes[at] == wanted]


def test_a_hash_of_another_width_is_none_of_them() -> None:
    table = HashTable(WIDTH)
    table.add(0, told(7))
    assert table.ordinals_of(told(7)[1:]) == table.ordinals_of(b"") == []
