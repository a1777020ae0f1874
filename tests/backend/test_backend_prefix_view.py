"""The prefix that a hash stands for, against prompts that share a beginning."""

from __future__ import annotations

import numpy as np
from kvxray_backend.prefix_view import tree_around
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.schema import NO_ORDINAL

from tests.backend.told import Story


def shared_beginning() -> BlockMap:
    """Blocks 1 to 3 begin every prompt; 4 and 5 go on from them, and so do 6 to 8; 9 carries what 4 does."""
    story = Story(num_blocks=12)
    for request, blocks in (("a", [1, 2, 3, 4, 5]), ("b", [6, 7, 8]), ("c", [9]), ("d", [10])):
        story.arrive(request)
        story.allocate(request, *blocks)
    first = story.cache("a", 1, 2, 3, 4, 5)
    story.cache("b", 6, 7, 8, parent=first + 2)
    story.step()
    block_map = story.map
    block_map.hash_ordinal[9], block_map.parent_ordinal[9] = block_map.hash_ordinal[4], block_map.parent_ordinal[4]
    return block_map


def around(block_map: BlockMap, *blocks: int) -> tuple[list[int], list[int], bool, list[tuple[int, int]]]:
    """Carriers, chain, whether it is whole, and branches, as block ids."""
    tree = tree_around(block_map, [int(block_map.hash_ordinal[block]) for block in blocks])
    branches = [(int(tree.hashed[at]), size) for at, size in tree.branches]
    return tree.hashed[tree.carriers].tolist(), tree.hashed[tree.before].tolist(), tree.is_whole, branches


def test_what_leads_to_a_prefix_and_what_follows_on_it() -> None:
    block_map = shared_beginning()
    assert around(block_map, 3) == ([3], [1, 2], True, [(4, 3), (6, 3)])
    assert around(block_map, 1) == ([1], [], True, [(2, 8)])
    assert around(block_map, 7) == ([7], [1, 2, 3, 6], True, [(8, 1)])
    assert around(block_map, 8) == ([8], [1, 2, 3, 6, 7], True, [])


def test_blocks_that_carry_one_hash_are_one_prefix_and_one_branch() -> None:
    block_map = shared_beginning()
    assert around(block_map, 4) == ([4, 9], [1, 2, 3], True, [(5, 1)])


def test_a_hash_that_was_told_again_is_still_one_prefix() -> None:
    """6 carries the hash of 4 under an ordinal of its own."""
    assert around(shared_beginning(), 4, 6)[3] == [(7, 2), (5, 1)]


def test_a_prefix_that_is_not_in_the_cache_has_nothing() -> None:
    tree = tree_around(shared_beginning(), [12345])
    assert (tree.carriers.tolist(), tree.before, tree.is_whole, tree.branches) == ([], [], False, [])
    assert tree_around(shared_beginning(), []).carriers.tolist() == []


def test_a_chain_whose_beginning_was_evicted_is_not_whole() -> None:
    block_map = shared_beginning()
    block_map.hash_ordinal[2] = NO_ORDINAL
    assert around(block_map, 4) == ([4, 9], [3], False, [(5, 1)])


def test_hashes_in_a_circle_are_followed_once() -> None:
    block_map = shared_beginning()
    block_map.parent_ordinal[1] = block_map.hash_ordinal[3]
    carriers, before, is_whole, branches = around(block_map, 2)
    assert (carriers, sorted(before), is_whole) == ([2], [1, 3], False)
    assert branches == []


def test_long_branches_are_counted_to_their_end() -> None:
    story = Story(num_blocks=1001)
    story.arrive("a")
    story.allocate("a", *range(1, 1001))
    story.step()
    block_map = story.map
    block_map.hash_ordinal[1:] = np.arange(1000)
    block_map.parent_ordinal[1:] = np.arange(-1, 999).astype(np.uint32)
    assert around(block_map, 300) == ([300], list(range(1, 300)), True, [(301, 700)])
