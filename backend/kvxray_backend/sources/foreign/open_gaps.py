"""Gaps of one stream that were told as findings, until every batch of them came after all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_GAPS: Final = 1_000


@dataclass(slots=True)
class _OpenGap:
    """`left`: how many of its batches are still missing. `id`: of its finding."""

    first: int
    last: int
    left: int
    id: str


class OpenGaps:
    """The newest `MAX_GAPS` of them; earlier ones stay open for ever."""

    def __init__(self) -> None:
        self._gaps: list[_OpenGap] = []

    def open(self, first: int, last: int, finding_id: str) -> None:
        self._gaps.append(_OpenGap(first, last, last - first + 1, finding_id))
        del self._gaps[:-MAX_GAPS]

    def repair(self, first: int, last: int) -> list[str]:
        """Batches first..last came; the findings of gaps of which nothing is missing any more."""
        for gap in self._gaps:
            gap.left -= max(0, min(last, gap.last) - max(first, gap.first) + 1)
        repaired = [gap.id for gap in self._gaps if gap.left <= 0]
        self._gaps = [gap for gap in self._gaps if gap.left > 0]
        return repaired

    def clear(self) -> None:
        """Another epoch begins."""
        self._gaps.clear()

    def check_integrity(self) -> None:
        assert all(0 < gap.left <= gap.last - gap.first + 1 for gap in self._gaps), "a gap without missing batches"
