"""Chains and shared beginnings: a drawn example, what is cut off, circles, and random forests counted one by one."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from kvxray_backend.inspection.prefix_tree import MAX_SHOWN, Chains, chains_of
from kvxray_backend.sources.foreign.interning import Interning
from kvxray_backend.sources.foreign.told import Batch, Hash, Place, Removed, Stored, Told
from kvxray_backend.sources.privacy import NameFilter
from kvxray_engine.stream.residency_map import ResidencyMap


def named(number: int) -> Hash:
    return number.to_bytes(8, "big")


def stored(*numbers: int, parent: int | None = None, medium: str = "", why: str = "store") -> Stored:
    above = None if parent is None else named(parent)
    return Stored(tuple(map(named, numbers)), above, 16, None, Place(medium), why=why)


def removed(*numbers: int, medium: str = "") -> Removed:
    return Removed(tuple(map(named, numbers)), Place(medium))


def chains(*events: Told) -> Chains:
    fold: ResidencyMap
    interning = Interning("test", NameFilter(b"test"), lambda ordinals: fold.are_gone(ordinals))
    fold = ResidencyMap(interning.descriptor)
    fold.apply(interning.intern(Batch(1.0, 0, events), 0, 0).message)
    return chains_of(fold, 0)


def test_a_shared_beginning_is_told_with_what_goes_on_from_it() -> None:
    found = chains(stored(1, 2, 3), stored(4, 5, parent=3), stored(6, parent=3), stored(7, parent=5), stored(8, 9))
    assert (found.num_blocks, found.num_roots, found.num_ends, found.longest) == (9, 2, 3, 6)
    (shared,) = found.shared
    assert (shared.last, shared.num_before, shared.num_blocks) == (named(3).hex(), 0, 3)
    assert (shared.num_behind, shared.num_branches, shared.num_ends) == (4, 2, 2)
    assert [(one.last, one.num_before, one.num_blocks, one.num_ends) for one in shared.branches] == [
        (named(7).hex(), 3, 3, 1),
        (named(6).hex(), 3, 1, 1),
    ]


def test_what_is_gone_cuts_chains_and_what_is_elsewhere_does_not() -> None:
    found = chains(stored(1, 2, 3), removed(1))
    assert (found.num_blocks, found.num_roots, found.num_cut, found.longest) == (2, 0, 1, 2)
    found = chains(stored(1, 2, 3), stored(1, medium="CPU", why="placeholder"), removed(1))
    assert (found.num_blocks, found.num_roots, found.num_cut, found.longest) == (3, 1, 0, 3)


def test_a_parent_that_was_not_told_is_no_root() -> None:
    found = chains(stored(1, 2, why="placeholder"))
    assert (found.num_roots, found.num_cut, found.num_untold, found.longest) == (0, 0, 2, 1)


def test_chains_that_go_in_circles_come_to_an_end() -> None:
    found = chains(
        stored(1, parent=3), stored(2, parent=1), stored(3, parent=2), stored(4, parent=3), stored(5, parent=5)
    )
    assert (found.num_blocks, found.num_roots, found.longest) == (5, 0, 1)
    assert (found.num_cut, found.shared) == (5, ())


def test_a_place_without_blocks_has_no_chains() -> None:
    found = chains(stored(1), removed(1))
    assert (found.num_blocks, found.num_roots, found.num_ends, found.longest, found.shared) == (0, 0, 0, 0, ())


def test_only_the_largest_branches_are_told_and_all_are_counted() -> None:
    branches = [stored(*range(100 * index, 100 * index + index), parent=1) for index in range(1, 9)]
    (shared,) = chains(stored(1), *branches).shared
    assert (shared.num_branches, shared.num_behind) == (8, 36)
    assert [one.num_blocks for one in shared.branches] == [8, 7, 6, 5][:MAX_SHOWN]


@pytest.mark.parametrize("seed", range(20))
def test_random_forests_are_counted_as_by_hand(seed: int) -> None:
    draw = random.Random(seed)
    numbers = draw.sample(range(1_000), 60)
    above = {
        one: None if not at or draw.random() < 0.1 else draw.choice(numbers[:at]) for at, one in enumerate(numbers)
    }
    gone = set(draw.sample(numbers, 10))
    there = [one for one in numbers if one not in gone]
    found = chains(*(stored(one, parent=above[one]) for one in numbers), removed(*gone))

    below: defaultdict[int, list[int]] = defaultdict(list)
    begins = [one for one in there if above[one] is None or above[one] in gone]
    for one in there:
        if one not in begins:
            below[above[one]].append(one)  # type: ignore[index]

    def depth(one: int) -> int:
        return 1 if one in begins else 1 + depth(above[one])  # type: ignore[arg-type]

    def size(one: int) -> int:
        return 1 + sum(map(size, below[one]))

    def ends(one: int) -> int:
        return sum(map(ends, below[one])) or 1

    assert found.num_blocks == len(there)
    assert found.num_roots == sum(above[one] is None for one in begins)
    assert found.num_cut == sum(above[one] is not None for one in begins)
    assert found.num_ends == sum(map(ends, begins))
    assert found.longest == max(map(depth, there))
    shared = sorted((size(one) for one in begins if ends(one) > 1), reverse=True)[:MAX_SHOWN]
    assert [one.num_before + one.num_blocks + one.num_behind for one in found.shared] == shared
