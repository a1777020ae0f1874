"""Numbers of one rank's batches that follow each other, where several ranks share one count.

Where a rank counts alone they are the engine's. A hole takes as many as it may hold, so that what comes late has its
place. History needs them: a number that is not there is a batch that is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_HOLES: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Hole:
    """The engine's batches first..last; `own`: what the first of them would be."""

    first: int
    last: int
    own: int


class OwnNumbers:
    """`next`: the number of the next batch that comes in its turn."""

    def __init__(self) -> None:
        self.next = 0
        self._holes: list[_Hole] = []

    def begin_at(self, seq: int) -> None:
        """The first batch that could be had is the engine's `seq`; those before it are missing."""
        self.next = 0
        self._holes.clear()
        if seq:
            self.skip(0, seq - 1)

    def take(self) -> int:
        self.next += 1
        return self.next - 1

    def skip(self, first: int, last: int) -> tuple[int, int]:
        """The engine's batches first..last are missing: what they would be."""
        own = self.next
        self._holes.append(_Hole(first, last, own))
        del self._holes[:-MAX_HOLES]
        self.next += last - first + 1
        return own, self.next - 1

    def late(self, seq: int) -> int | None:
        """What a batch is that was missing; None: its hole is forgotten, or this rank was not there then."""
        found = [hole for hole in self._holes if hole.first <= seq <= hole.last]
        return found[0].own + seq - found[0].first if found else None
