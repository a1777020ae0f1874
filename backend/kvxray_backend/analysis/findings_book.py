"""Which findings are open: opens what is newly found, ends what is found no more, and hands every change to be stored.

Used by one thread; readers get the immutable tuple `open`. Knows neither where findings come from nor the database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import Final

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.leaks import ENDED_S_AGO
from kvxray_backend.analysis.open_findings import Aged
from kvxray_backend.analysis.pins import IDLE_S, REQUESTS_SINCE

_GROW: Final = frozenset({ENDED_S_AGO, IDLE_S, REQUESTS_SINCE})


class FindingsBook:
    """Invariant: the book holds each id once, every finding in it is open, and all of one source.

    `aged`: makes of a finding what is told of it as of the last look; None where nothing has an age.
    """

    def __init__(self, store: Callable[[Finding], object], still_open: Iterable[Finding] = ()) -> None:
        """still_open: what an earlier process left open; it ends unless it is found again."""
        self.aged: Aged | None = None
        self._store = store
        self._by_id: dict[str, Finding] = {}
        self._of_kind: dict[str, dict[str, None]] = {}
        self._in_order: tuple[Finding, ...] | None = None
        for finding in still_open:
            self._put(finding)

    def __contains__(self, id: object) -> bool:
        return id in self._by_id

    @property
    def open(self) -> tuple[Finding, ...]:
        """Open findings, oldest first, each as it was made last."""
        if self._in_order is None:
            self._in_order = tuple(sorted(self._by_id.values(), key=lambda finding: (finding.time_ns, finding.id)))
        return self._in_order

    def has(self, kind: str) -> bool:
        """Whether any of that kind is open."""
        return bool(self._of_kind.get(kind))

    def note(self, finding: Finding) -> None:
        """One finding, open or already over (a restart, a broken law)."""
        if finding.state == "open":
            self._put(finding)
        else:
            self._take_out(finding.id)
        self._store(finding)

    def reconcile(
        self,
        kind: str,
        found: Iterable[Finding],
        now_ns: int,
        *,
        is_all: bool = True,
        as_before: Set[str] = frozenset(),
    ) -> None:
        """`found` is all there is of this kind now: what is new opens, what has vanished ends.

        One that goes on keeps its beginning; it is stored again only when its blocks changed, not for each second it
        lasts.

        is_all: False while part of what it rests on is unknown, so that nothing found is no proof: then none ends.
        as_before: ids of those that are found again as the book has them, which nobody need make anew.
        """
        current = {finding.id: finding for finding in found}
        if is_all:
            for id in [id for id in self._of_kind.get(kind, ()) if id not in current and id not in as_before]:
                self.end(id, now_ns)
        for id, finding in current.items():
            known_before = self._by_id.get(id)
            if known_before is None:
                self.note(finding)
                continue
            self._put(known_before.went_on(finding))
            if _what_it_tells(finding) != _what_it_tells(known_before):
                self._store(self._by_id[id])

    def end(self, id: str, now_ns: int, *, with_engine: bool = False) -> None:
        """Ends a finding; one that is not open is left alone."""
        finding = self._take_out(id)
        if finding is not None:
            told = finding if self.aged is None else self.aged(finding)
            self._store(told.ended(now_ns, with_engine=with_engine))

    def end_other_epochs(self, epoch: int, kinds: Iterable[str], now_ns: int) -> None:
        """Ends open findings of these kinds that are of another epoch than this: their engine is over."""
        wanted = set(kinds)
        for finding in self.open:
            if finding.kind in wanted and finding.epoch != epoch:
                self.end(finding.id, now_ns, with_engine=True)

    def end_kinds(self, kinds: Iterable[str], now_ns: int) -> None:
        """Ends all open findings of these kinds."""
        wanted = {kind for kind in kinds if self.has(kind)}
        for finding in self.open if wanted else ():
            if finding.kind in wanted:
                self.end(finding.id, now_ns)

    def check_integrity(self) -> None:
        """Asserts the invariant."""
        assert all(id == finding.id and finding.state == "open" for id, finding in self._by_id.items())
        assert len({finding.source for finding in self._by_id.values()}) <= 1, "findings of two sources in one book"
        of_kinds = {id: kind for kind, ids in self._of_kind.items() for id in ids}
        assert of_kinds == {id: finding.kind for id, finding in self._by_id.items()}, "a kind lacks its findings"
        assert {id(one) for one in self.open} == {id(one) for one in self._by_id.values()}, "what is open is not told"

    def _put(self, finding: Finding) -> None:
        self._by_id[finding.id] = finding
        self._of_kind.setdefault(finding.kind, {})[finding.id] = None
        self._in_order = None

    def _take_out(self, id: str) -> Finding | None:
        finding = self._by_id.pop(id, None)
        if finding is not None:
            del self._of_kind[finding.kind][id]
            self._in_order = None
        return finding


def _what_it_tells(finding: Finding) -> object:
    """All that makes a finding worth storing again: not how long ago it all was."""
    return finding.subjects, {name: value for name, value in finding.numbers.items() if name not in _GROW}
