"""A set of message numbers as ranges: which of an epoch's messages are missing."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class WireRanges:
    """Ranges `first..last`, both ends included, disjoint, not touching, in order."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(list(zip(self._firsts, self._lasts, strict=True)))

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._firsts, number) - 1
        return at >= 0 and number <= self._lasts[at]

    def add(self, first: int, last: int) -> None:
        """Adds first..last; nothing when the range is empty."""
        if first > last:
            return
        begin = bisect_left(self._lasts, first - 1)
        end = bisect_right(self._firsts, last + 1)
        if begin < end:
            first, last = min(first, self._firsts[begin]), max(last, self._lasts[end - 1])
        self._firsts[begin:end], self._lasts[begin:end] = [first], [last]

    def remove(self, first: int, last: int) -> None:
        """Takes first..last out, splitting what reaches beyond; nothing when the range is empty."""
        if first > last:
            return
        begin = bisect_left(self._lasts, first)
        end = bisect_right(self._firsts, last)
        if begin >= end:
            return
        kept = [(self._firsts[begin], first - 1), (last + 1, self._lasts[end - 1])]
        kept = [one for one in kept if one[0] <= one[1]]
        self._firsts[begin:end], self._lasts[begin:end] = [a for a, _ in kept], [b for _, b in kept]

    def check_integrity(self) -> None:
        assert len(self._firsts) == len(self._lasts), "a range has two ends"
        bounds = list(self)
        assert all(first <= last for first, last in bounds), "a range is empty"
        pairs = zip(bounds, bounds[1:], strict=False)
        assert all(last + 1 < first for (_, last), (first, _) in pairs), "ranges touch or are out of order"
