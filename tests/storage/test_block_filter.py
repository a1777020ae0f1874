"""A filter never misses a block, and says no to most others."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kvxray_engine.stream.schema import Kind
from kvxray_storage.block_filter import MAX_BITS, encode_filter, may_touch, touched_blocks

from tests.storage.told_messages import Teller, Told


@given(blocks=st.sets(st.integers(0, 2**31 - 1), max_size=50))
@settings(max_examples=200)
def test_no_block_is_missed(blocks):
    bits = encode_filter(np.array(sorted(blocks), np.uint32))
    assert all(may_touch(bits, block) for block in blocks)


@given(blocks=st.sets(st.integers(0, MAX_BITS - 1), max_size=50), other=st.integers(0, 2**31 - 1))
def test_up_to_32768_blocks_the_answer_is_exact(blocks, other):
    bits = encode_filter(np.array(sorted(blocks), np.uint32))
    assert may_touch(bits, other) == (other in blocks)


def test_a_filter_of_a_large_pool_stays_small_and_says_no_to_most():
    random = np.random.default_rng(1)
    blocks = np.unique(random.integers(0, 1 << 20, 2000, np.uint32))
    bits = encode_filter(blocks)
    assert len(bits) <= MAX_BITS // 8 + 32
    others = np.setdiff1d(random.integers(0, 1 << 20, 2000, np.uint32), blocks)
    assert np.mean([may_touch(bits, int(block)) for block in others]) < 0.1


def test_a_damaged_filter_hides_nothing():
    bits = encode_filter(np.array([3], np.uint32))
    assert not may_touch(bits, 4)
    assert may_touch(bits[:-1], 4)
    assert may_touch(b"\xff", 3)


def test_sources_of_copies_count():
    told = [
        Told(Kind.StepStarted),
        Told(Kind.BlockAllocated, blocks=(3, 4)),
        Told(Kind.BlockCopied, blocks=(5, 6), values=(17, 18)),
        Told(Kind.BlockFilled, blocks=(3,), values=(9,)),
    ]
    assert sorted(set(touched_blocks(Teller().tell(told).columns).tolist())) == [3, 4, 5, 6, 17, 18]


def test_of_residency_events_the_hashes_count_and_their_parents_do_not():
    told = [Told(Kind.StepStarted), Told(Kind.ResidencyStored, blocks=(40, 41), values=(7, 40))]
    assert touched_blocks(Teller().tell(told).columns).tolist() == [40, 41]
