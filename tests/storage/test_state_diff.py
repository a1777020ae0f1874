"""Two moments compared: every difference is named once for what it is, and nothing that did not change."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.schema import NO_ORDINAL, UNKNOWN_U4
from kvxray_storage.state_diff import diff

from benchmarks.measuring.model_engine import ModelEngine
from tests.storage.told_messages import descriptor

STEPS = 60


@pytest.fixture(scope="module")
def states():
    """The state after each step of a life with a gap in it."""
    engine = ModelEngine(160, rows=64, seed=21, seldom=1.5)
    state, states = BlockMap(engine.descriptor()), []
    for step in range(STEPS):
        state.apply(engine.step())
        if step == 40:
            state.forget()
        states.append(state.copy())
    return states


def plain_diff(before, after):
    """Block by block, as the words say it."""
    found = {name: [] for name in ("allocated", "freed", "cached", "evicted", "referenced", "dereferenced", "filled",
                                   "learned", "forgotten")}  # fmt: skip
    for block in range(before.num_blocks):
        old, new = ((int(one.ref[block]), int(one.hash_ordinal[block])) for one in (before, after))
        refs_known, hashes_known = UNKNOWN_U4 not in (old[0], new[0]), UNKNOWN_U4 not in (old[1], new[1])
        if refs_known and new[0] and before.t_alloc[block] != after.t_alloc[block]:
            found["allocated"].append(block)
        elif refs_known and new[0] > old[0]:
            found["referenced"].append(block)
        elif refs_known and 0 < new[0] < old[0]:
            found["dereferenced"].append(block)
        if refs_known and old[0] and not new[0]:
            found["freed"].append(block)
        if hashes_known and old[1] != new[1]:
            if new[1] != NO_ORDINAL:
                found["cached"].append(block)
            if old[1] != NO_ORDINAL:
                found["evicted"].append(block)
        if refs_known and hashes_known and before.slots[block] != after.slots[block]:
            found["filled"].append(block)
        if (UNKNOWN_U4 in old) != (UNKNOWN_U4 in new):
            found["learned" if UNKNOWN_U4 in old else "forgotten"].append(block)
    return found


def holds(state):
    return Counter(zip(*(column.tolist() for column in state.holds()), strict=True))


@given(first=st.integers(0, STEPS - 1), second=st.integers(0, STEPS - 1))
@settings(max_examples=60, deadline=None)
def test_a_diff_is_what_a_plain_comparison_finds(states, first, second):
    before, after = states[first], states[second]
    found = diff(before, after)
    expected = plain_diff(before, after)
    assert {name: getattr(found, name).tolist() for name in expected} == expected
    if before.holders_known and after.holders_known:
        for pairs, more in ((found.gained, holds(after) - holds(before)), (found.lost, holds(before) - holds(after))):
            assert Counter(zip(*(column.tolist() for column in pairs), strict=True)) == more
    else:
        assert found.gained is found.lost is None
    named = {block for blocks in expected.values() for block in blocks}
    held = {int(block) for pairs in (found.gained, found.lost) if pairs for block in pairs[0]}
    assert found.changed().tolist() == sorted(named | held)


def test_a_moment_does_not_differ_from_itself(states):
    for state in states:
        assert len(diff(state, state).changed()) == 0


def test_the_made_up_life_shows_every_difference(states):
    seen = {name for before, after in zip(states, states[5:], strict=False) for name, blocks in
            plain_diff(before, after).items() if blocks}  # fmt: skip
    assert seen == set(plain_diff(states[0], states[0]))


def test_pools_of_different_size_are_not_compared():
    with pytest.raises(ValueError, match=r"^The two moments cannot be compared: .*64 blocks.*65.*\.$"):
        diff(BlockMap(descriptor(64)), BlockMap(descriptor(65)))
