"""The order of blocks by their prefixes, against going down the tree hash by hash."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict

import numpy as np
import pytest
from kvxray_backend.block_order import BlockOrder, prefix_order
from kvxray_backend.block_order_frame import HEADER, order_frame
from kvxray_backend.live_state import LiveState
from kvxray_backend.snapshot_cache import SnapshotCache
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.schema import NO_ORDINAL, UNKNOWN_U4
from numpy.typing import NDArray

from tests.backend.told import Story

U4 = NDArray[np.uint32]


def shared_beginning() -> Story:
    """Three trees: 9 alone; 11, 10; and 1, 2, 3, from which 4, 5 go on, and 6 to 8, and 12 from 2. 13 has no hash."""
    story = Story(num_blocks=14)
    for request, blocks in (("a", [1, 2, 3, 4, 5]), ("b", [6, 7, 8]), ("c", [9]), ("d", [11, 10]), ("e", [12, 13])):
        story.arrive(request)
        story.allocate(request, *blocks)
    story.cache("c", 9)
    story.cache("d", 11, 10)
    first = story.cache("a", 1, 2, 3, 4, 5)
    story.cache("b", 6, 7, 8, parent=first + 2)
    story.cache("e", 12, parent=first + 1)
    story.step()
    return story


def order_of(block_map: BlockMap) -> BlockOrder:
    return prefix_order(block_map.hash_ordinal, block_map.parent_ordinal, block_map.descriptor.null_block)


def test_chains_lie_side_by_side_and_share_their_beginning() -> None:
    order = order_of(shared_beginning().map)
    assert order.blocks.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 12, 11, 10, 9, 13]
    assert (order.num_hashed, order.num_trees) == (12, 3)


def test_a_chain_whose_beginning_was_evicted_starts_at_what_is_left() -> None:
    block_map = shared_beginning().map
    block_map.hash_ordinal[1:3] = NO_ORDINAL
    assert order_of(block_map).blocks.tolist() == [3, 4, 5, 6, 7, 8, 11, 10, 9, 12, 1, 2, 13]


def test_without_hashes_the_order_is_that_of_ids() -> None:
    columns = np.full(6, UNKNOWN_U4, np.uint32), np.full(6, NO_ORDINAL, np.uint32)
    assert prefix_order(*columns, 0).num_trees == 0
    assert prefix_order(*columns, 2).blocks.tolist() == [0, 1, 3, 4, 5]
    assert prefix_order(*columns, -1).blocks.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("seed", range(40))
def test_any_forest_is_as_going_down_it_says(seed: int) -> None:
    random = np.random.default_rng(seed)
    for num_blocks in (1, 2, 5, 30, 400):
        ordinals = random.integers(0, 2 * num_blocks, num_blocks) if seed % 2 else random.permutation(num_blocks)
        parents = random.integers(0, 2 * num_blocks, num_blocks) if seed % 3 else ordinals - 1  # also later than theirs
        nothing = random.random((2, num_blocks)) < 0.2
        columns = [
            np.where(none, NO_ORDINAL, told % NO_ORDINAL).astype(np.uint32)
            for none, told in zip(nothing, (ordinals, parents), strict=True)
        ]
        null_block = int(random.integers(-1, num_blocks))
        order = prefix_order(columns[0], columns[1], null_block)
        assert (order.blocks.tolist(), order.num_trees) == walked(columns[0], columns[1], null_block)


def test_a_chain_of_every_other_block_is_followed_to_its_end() -> None:
    ordinals = np.arange(5000, dtype=np.uint32)
    parents = np.where(ordinals > 1, ordinals - 2, NO_ORDINAL).astype(np.uint32)
    assert prefix_order(ordinals, parents, -1).blocks.tolist() == [*range(0, 5000, 2), *range(1, 5000, 2)]


def walked(ordinals: U4, parents: U4, null_block: int) -> tuple[list[int], int]:
    """The slow way: blocks in order, and how many trees."""
    blocks = [block for block in range(len(ordinals)) if block != null_block]
    carriers: dict[int, list[int]] = defaultdict(list)
    for block in blocks:
        if ordinals[block] < UNKNOWN_U4:
            carriers[int(ordinals[block])].append(block)
    branches: dict[int, list[int]] = defaultdict(list)
    for ordinal in sorted(carriers):
        parent = int(parents[carriers[ordinal][0]])
        branches[parent if parent in carriers and parent < ordinal else -1].append(ordinal)
    sizes: dict[int, int] = {}
    for ordinal in sorted(carriers, reverse=True):
        sizes[ordinal] = len(carriers[ordinal]) + sum(sizes[below] for below in branches[ordinal])
    roots = sorted(branches[-1], key=lambda ordinal: (-sizes[ordinal], ordinal))
    found, left = [], roots[::-1]
    while left:
        ordinal = left.pop()
        found += carriers[ordinal]
        left += branches[ordinal][::-1]
    return found + [block for block in blocks if ordinals[block] >= UNKNOWN_U4], len(roots)


def live_of(story: Story) -> LiveState:
    live = LiveState("told")
    live.begin(4, BlockMap(story.map.descriptor, source="told", incarnation="life-1"))
    for message in story.messages:
        live.fold(message)
    return live


def test_the_frame_tells_the_order_in_differences() -> None:
    live = live_of(shared_beginning())
    made = order_frame(live)
    assert made is not None
    seq, frame = made
    magic, version, epoch, count, time_s, hashed, trees = HEADER.unpack(frame[: HEADER.size])
    assert (magic, version, epoch, count, hashed, trees) == (b"KVXO", 1, 4, 13, 12, 3)
    assert time_s == pytest.approx(live.state_ns / 1e9)
    assert seq == live.picture_seq
    blocks = np.cumsum(np.frombuffer(frame, "<u4", offset=HEADER.size), dtype=np.uint32)
    assert blocks.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 12, 11, 10, 9, 13]


def test_before_the_source_is_joined_there_is_none() -> None:
    assert order_frame(LiveState("told")) is None


def test_whoever_follows_the_engine_does_not_wait_for_a_frame() -> None:
    """Folding takes the lock of the state: a frame made meanwhile must not have it all the time."""
    live = live_of(shared_beginning())
    folded = threading.Event()

    def make(state: LiveState) -> tuple[float, bytes] | None:
        def fold() -> None:
            with state.lock:
                folded.set()

        threading.Thread(target=fold).start()
        assert folded.wait(20), "the lock was held while the frame was made"
        return state.snapshot_frame()

    assert asyncio.run(SnapshotCache(live, make).get("identity", -1.0)) is not None
