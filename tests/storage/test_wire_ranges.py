"""Ranges of message numbers behave like a set of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kvxray_storage.wire_ranges import WireRanges

CHANGES = st.lists(st.tuples(st.sampled_from(["add", "remove"]), st.integers(0, 40), st.integers(-2, 12)), max_size=40)


@given(changes=CHANGES)
def test_ranges_are_a_set(changes):
    ranges, plain = WireRanges(), set()
    for change, first, length in changes:
        last = first + length
        if change == "add":
            ranges.add(first, last)
            plain |= set(range(first, last + 1))
        else:
            ranges.remove(first, last)
            plain -= set(range(first, last + 1))
        ranges.check_integrity()
        assert {number for number in range(-1, 60) if number in ranges} == plain
        assert sum(last - first + 1 for first, last in ranges) == len(plain)
