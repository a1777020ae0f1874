"""What breaks a law within one batch is found as if its rows were looked at one after the other."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kvxray_engine.stream.transitions import double_frees

NUM_BLOCKS = 4


@given(
    before=st.lists(st.integers(0, 2), min_size=NUM_BLOCKS, max_size=NUM_BLOCKS),
    rows=st.lists(st.tuples(st.integers(0, NUM_BLOCKS - 1), st.integers(0, 2)), min_size=1, max_size=20),
)
def test_a_free_of_a_free_block_is_found_wherever_it_stands(before: list[int], rows: list[tuple[int, int]]) -> None:
    """A row tells the references after it; of these, all that tell none are frees."""
    refs, expected = list(before), []
    for at, (block, after) in enumerate(rows):
        if not after and not refs[block]:
            expected.append(at)
        refs[block] = after
    blocks, after = (np.array(column, np.uint32) for column in zip(*rows, strict=True))
    assert double_frees(blocks, after == 0, after, np.array(before, np.uint32)).tolist() == expected
