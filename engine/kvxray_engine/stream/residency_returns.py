"""Hashes that came back: stored again where their last copy had been removed. Noted as they are folded, bounded.

What a reset took away was not evicted, and comes back without anybody regretting it; only where the stream removes it
once more is it taken for evicted. What was forgotten since (see `GENERATION`) is new when it comes again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kvxray_engine.stream.columns import I8
from kvxray_engine.stream.key_index import U8
from kvxray_engine.stream.keyed_table import KeyedTable
from kvxray_engine.stream.residency_descriptor import ALL_MEDIA
from kvxray_engine.stream.residency_rows import Index, ResidencyRows

MAX_RETURNS: Final = 100_000
"""Kept until somebody takes them; more are only counted."""


@dataclass(frozen=True, slots=True, eq=False)
class Returned:
    """keys: ordinal << 16 | place, one for each time; gone_ns, came_ns: when its last copy went and the next came."""

    keys: U8
    gone_ns: I8
    came_ns: I8

    def __len__(self) -> int:
        return len(self.keys)


class ReturnBook:
    """`evicted`: how often the last copy of a hash was removed; `returned`: how often one came back. Both of all that
    was folded since the book was begun.
    """

    def __init__(self) -> None:
        self.evicted = 0
        self.returned = 0
        self._kept: list[Returned] = []
        self._num_kept = 0
        self._cleared_ns: I8 = np.full(256, np.iinfo(np.int64).min)

    def copy(self) -> ReturnBook:
        made = ReturnBook()
        made.evicted, made.returned = self.evicted, self.returned
        made._kept, made._num_kept = list(self._kept), self._num_kept
        made._cleared_ns = self._cleared_ns.copy()
        return made

    def clear(self, medium: int, t_ns: int) -> None:
        """A medium was reset."""
        self._cleared_ns[slice(None) if medium == ALL_MEDIA else medium] = t_ns

    def note(
        self, rows: ResidencyRows, order: Index, starts: Index, before: I8, after: I8, table: KeyedTable, entries: I8
    ) -> None:
        """Rows as they are folded. order: sorts them by key and then by time; starts: the first of each key in that
        order. before, after: copies. table, entries: what the table says of each key, but for copies, is of before.
        """
        store, before, after, t = rows.is_store[order], before[order], after[order], rows.t[order]
        left = ~store & (before > 0) & (after == 0)
        self.evicted += int(np.count_nonzero(left))
        came = store & (before == 0)
        if not came.any():
            return
        # What says how a hash went is the last row of its key that found it, or what was folded before these rows.
        found = np.where(~store & (before == 0), -1, np.arange(len(order)))
        above = np.concatenate(([-1], np.maximum.accumulate(found)[:-1]))
        lengths = np.diff(starts, append=len(order))
        is_first = above < np.repeat(starts, lengths)
        went, media = table["t_last"][entries], rows.place[order[starts]] >> 8
        had = (table["removals"][entries] > 0) & (table["stores"][entries] > 0)
        gone = np.where(is_first, np.repeat(had & (went > self._cleared_ns[media]), lengths), left[above])
        gone_ns = np.where(is_first, np.repeat(went, lengths), t[above])
        # What came late was stored before it went, as far as time tells, and did not come back.
        at = np.flatnonzero(came & gone & (t >= gone_ns))
        self._keep(Returned(rows.keys[order[at]], gone_ns[at], t[at]))

    def take(self) -> Returned:
        """What came back since the last call."""
        kept, self._kept, self._num_kept = self._kept, [], 0
        none = np.zeros(0, np.int64)
        return Returned(
            np.concatenate([np.zeros(0, np.uint64), *(one.keys for one in kept)]),
            np.concatenate([none, *(one.gone_ns for one in kept)]),
            np.concatenate([none, *(one.came_ns for one in kept)]),
        )

    def _keep(self, found: Returned) -> None:
        self.returned += len(found)
        room = MAX_RETURNS - self._num_kept
        if len(found) and room > 0:
            self._kept.append(Returned(found.keys[:room], found.gone_ns[:room], found.came_ns[:room]))
            self._num_kept += min(len(found), room)
