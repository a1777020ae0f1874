"""The chain through a block, against prompts that share a beginning."""

from __future__ import annotations

import numpy as np
from kvxray_backend.prefix_chain import chain_through
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.schema import NO_ORDINAL

from tests.backend.told import Story


def shared_beginning() -> BlockMap:
    """Blocks 1 to 3 begin every prompt; 4 and 5 go on from them, and so do 6 to 8; 9 is of another prompt."""
    story = Story(num_blocks=12)
    for request, blocks in (("a", [1, 2, 3, 4, 5]), ("b", [6, 7, 8]), ("c", [9]), ("d", [10])):
        story.arrive(request)
        story.allocate(request, *blocks)
    first = story.cache("a", 1, 2, 3, 4, 5)
    story.cache("b", 6, 7, 8, parent=first + 2)
    story.cache("c", 9)
    story.step()
    return story.map


def test_the_chain_leads_from_the_first_block_to_all_that_go_on() -> None:
    block_map = shared_beginning()
    assert chain_through(block_map, 3) == ([1, 2, 3], [4, 5, 6, 7, 8])
    assert chain_through(block_map, 7) == ([1, 2, 3, 6, 7], [8])
    assert chain_through(block_map, 1) == ([1], [2, 3, 4, 5, 6, 7, 8])
    assert chain_through(block_map, 9) == ([9], [])


def test_a_block_without_a_hash_has_no_chain() -> None:
    assert chain_through(shared_beginning(), 10) == ([], [])
    assert chain_through(shared_beginning(), 0) == ([], [])


def test_a_chain_whose_beginning_was_evicted_starts_at_what_is_left() -> None:
    block_map = shared_beginning()
    block_map.hash_ordinal[2] = NO_ORDINAL
    assert chain_through(block_map, 4) == ([3, 4], [5])


def test_a_long_chain_is_followed_to_its_end() -> None:
    blocks = 1000
    story = Story(num_blocks=blocks + 1)
    story.arrive("a")
    story.allocate("a", *range(1, blocks + 1))
    story.step()
    block_map = story.map
    block_map.hash_ordinal[1:] = np.arange(blocks)
    block_map.parent_ordinal[1:] = np.arange(-1, blocks - 1).astype(np.uint32)
    before, after = chain_through(block_map, 300)
    assert before == list(range(1, 301))
    assert after == list(range(301, blocks + 1))


def test_hashes_in_a_circle_are_followed_once() -> None:
    block_map = shared_beginning()
    block_map.parent_ordinal[1] = block_map.hash_ordinal[3]
    before, after = chain_through(block_map, 2)
    assert sorted(before) == [1, 2, 3]
    assert after == [4, 5, 6, 7, 8]
