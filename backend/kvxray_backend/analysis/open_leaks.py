"""The leaks of one source as open findings: each made when it is new or has changed, its age told as of the last look.

Used by one thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.holder_ends import EngineTime

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.findings_book import FindingsBook
from kvxray_backend.analysis.leak_search import LeakSearch
from kvxray_backend.analysis.leaks import Leak, leak_id
from kvxray_backend.analysis.stream_health import Place


@dataclass(frozen=True, slots=True, eq=False)
class _Ages:
    """`leaks`: what was found at `now_ns`; `unseen`: what is open all the same, and when it was found last."""

    leaks: Mapping[str, Leak]
    now_ns: int
    unseen: Mapping[str, tuple[Leak, int]]

    def aged(self, finding: Finding) -> Finding:
        leak, now_ns = self.leaks.get(finding.id), self.now_ns
        if leak is None and finding.id in self.unseen:
            leak, now_ns = self.unseen[finding.id]
        return leak.aged(finding, now_ns) if leak is not None else finding

    def all_by_id(self) -> dict[str, tuple[Leak, int]]:
        return {**self.unseen, **{id: (leak, self.now_ns) for id, leak in self.leaks.items()}}


@dataclass(frozen=True, slots=True)
class _Known:
    """Holders of one life that have an open leak."""

    book: FindingsBook
    source: str
    epoch: int

    def __contains__(self, holder: object) -> bool:
        assert isinstance(holder, int), "a holder is an ordinal"
        return leak_id(self.source, self.epoch, holder) in self.book


class OpenLeaks:
    """Keeps the leaks in a book."""

    def __init__(self, book: FindingsBook) -> None:
        self._book = book
        self._search = LeakSearch()
        self._leaks: tuple[Leak, ...] = ()
        self._of = ("", 0)
        self._ages = _NONE

    def look(self, place: Place, block_map: BlockMap, now: EngineTime) -> tuple[Leak, ...]:
        """All leaks at this moment; what is new opens, what has vanished ends. Where holders are unknown, as after a
        gap, nobody is known to hold anything, which does not mean that anything was released: then none ends.
        """
        leaks = self._search.look(block_map, now, _Known(self._book, place.source, place.epoch))
        before, by_id = self._ages.leaks, self._by_id(place, leaks)
        is_new = [id for id, leak in by_id.items() if before.get(id) is not leak or id not in self._book]
        found = [by_id[id].finding(place.source, place.epoch, place.seq, place.t_ns) for id in is_new]
        self._book.reconcile(
            "leak",
            found,
            place.t_ns,
            is_all=block_map.holders_known,
            as_before=by_id.keys(),
        )
        self._take(by_id, place.t_ns, is_all=block_map.holders_known)
        return leaks

    def _by_id(self, place: Place, leaks: tuple[Leak, ...]) -> Mapping[str, Leak]:
        if leaks is self._leaks and self._of == (place.source, place.epoch):
            return self._ages.leaks
        self._leaks, self._of = leaks, (place.source, place.epoch)
        return {leak_id(place.source, place.epoch, leak.holder): leak for leak in leaks}

    def _take(self, by_id: Mapping[str, Leak], now_ns: int, *, is_all: bool) -> None:
        unseen = {} if is_all else self._ages.all_by_id()
        self._ages = _Ages(by_id, now_ns, {id: unseen[id] for id in unseen.keys() - by_id.keys()})
        self._book.aged = self._ages.aged if by_id or self._ages.unseen else None


_NONE: Final = _Ages({}, 0, {})
