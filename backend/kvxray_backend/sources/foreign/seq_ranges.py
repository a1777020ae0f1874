"""Ranges of batch numbers that are missing: few, whatever the numbers are."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

MAX_RANGES: Final = 1000


class SeqRanges:
    """Invariants: in order, none empty, none touching the next, at most `MAX_RANGES`: the oldest are forgotten."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []  # first and last, both included

    def __contains__(self, seq: int) -> bool:
        return self._holding(seq) is not None

    @property
    def last(self) -> int:
        """The highest number missing; -1 when none is."""
        return self._ranges[-1][1] if self._ranges else -1

    def append(self, first: int, last: int) -> None:
        """A range behind all others."""
        assert first <= last, "a range is empty"
        assert not self._ranges or self._ranges[-1][1] < first, "a range is not behind the others"
        if self._ranges and self._ranges[-1][1] == first - 1:
            first = self._ranges.pop()[0]
        self._ranges.append((first, last))
        del self._ranges[:-MAX_RANGES]

    def remove(self, seq: int) -> None:
        """One number that is in a range: it is not missing any more."""
        index = self._holding(seq)
        assert index is not None, "the number is in no range"
        first, last = self._ranges[index]
        self._ranges[index : index + 1] = [part for part in ((first, seq - 1), (seq + 1, last)) if part[0] <= part[1]]
        del self._ranges[:-MAX_RANGES]

    def clear(self) -> None:
        self._ranges.clear()

    def check_integrity(self) -> None:
        """Asserts the invariants."""
        assert len(self._ranges) <= MAX_RANGES, "too many ranges"
        assert all(first <= last for first, last in self._ranges), "a range is empty"
        pairs = zip(self._ranges, self._ranges[1:], strict=False)
        assert all(before[1] + 1 < after[0] for before, after in pairs), "ranges touch or are out of order"

    def _holding(self, seq: int) -> int | None:
        index = bisect_right(self._ranges, (seq, 1 << 64)) - 1
        return index if index >= 0 and self._ranges[index][1] >= seq else None
