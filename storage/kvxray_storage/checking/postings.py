"""In which chunks each request occurs, against the chunks: both in order of their messages, side by side.

A run begins with a chunk that names its request and ends with one, and every chunk that names a request lies within
a run of it. What retention has taken the chunks of may be there still.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import sqlalchemy as sa
from kvxray_engine.stream.columns import distinct
from kvxray_engine.stream.schema import MAX_ORDINAL

from kvxray_storage.chunk import DamagedChunk
from kvxray_storage.chunk_reader import ChunkPlace, StoredChunk
from kvxray_storage.postings import stored_rows, unpack
from kvxray_storage.records import EpochKey


class PostingCheck:
    """`_coming`: runs (first message, last, request) of rows that begin at or before the place reached; `_open`: in how
    many runs of each request that place lies; `_ends`: where those end.
    """

    def __init__(
        self, connection: sa.Connection, key: EpochKey, *, was_pruned: bool, tell: Callable[[str, str], None]
    ) -> None:
        self.num_checked = 0
        self._tell = tell
        self._may_be_left = was_pruned
        self._coming: list[tuple[int, int, int]] = []
        self._open: Counter[int] = Counter()
        self._ends: list[tuple[int, int]] = []
        self._rows = stored_rows(connection, key)
        self._next = next(self._rows, None)

    def pass_chunk(self, place: ChunkPlace, chunk: StoredChunk | None) -> None:
        """The next chunk, in order; None: it cannot be read, and may name any request."""
        named = None if chunk is None else _named(chunk)
        self._read_up_to(place.wire_seq0)
        self._open_up_to(place, named)
        if named is not None:
            missing = [req for req in named if not self._open[req]]
            self._tell_some(missing, f"chunks say that it occurs in messages {_range(place)}, and no posting does")
        self._close_up_to(place, named)
        self._may_be_left = False

    def finish(self) -> None:
        """What begins or ends after the last chunk."""
        self._read_up_to(None)
        left = [req for _, req in self._ends] + [req for *_, req in self._coming]
        if not self._may_be_left:
            self._tell_some(left, "its posting goes on where no chunk does")

    def _read_up_to(self, wire_seq: int | None) -> None:
        """The rows that begin at or before a message; None: all."""
        while self._next is not None and (wire_seq is None or self._next.wire_seq0 <= wire_seq):
            for run in self._runs_of(self._next):
                heapq.heappush(self._coming, run)
            self.num_checked += 1
            self._next = next(self._rows, None)

    def _runs_of(self, row: Any) -> list[tuple[int, int, int]]:
        try:
            runs = unpack(row.bucket, row.wire_seq0, row.packed)
        except DamagedChunk:
            self._tell(f"bucket {row.bucket}", f"its row from message {row.wire_seq0} on cannot be read")
            return []
        if (row.wire_seq0, row.wire_seq1) != (int(runs.firsts.min()), int(runs.lasts.max())):
            self._tell(f"bucket {row.bucket}", f"its row from message {row.wire_seq0} on has other runs than it says")
        if (np.diff(runs.holders) <= 0).any():
            self._tell(f"bucket {row.bucket}", f"requests of its row from message {row.wire_seq0} on are out of order")
        return list(zip(runs.firsts.tolist(), runs.lasts.tolist(), runs.holders.tolist(), strict=True))

    def _open_up_to(self, place: ChunkPlace, named: set[int] | None) -> None:
        stray: list[int] = []
        while self._coming and self._coming[0][0] <= place.wire_seq0:
            first, last, req = heapq.heappop(self._coming)
            if self._may_be_left and last < place.wire_seq0:
                continue
            is_here = first == place.wire_seq0
            is_wrong = named is not None and req not in named if is_here else not self._may_be_left
            if is_wrong or last < first:
                stray.append(req)
            self._open[req] += 1
            heapq.heappush(self._ends, (last, req))
        self._tell_some(stray, f"its posting begins where no chunk names it, at or before message {place.wire_seq0}")

    def _close_up_to(self, place: ChunkPlace, named: set[int] | None) -> None:
        stray: list[int] = []
        while self._ends and self._ends[0][0] <= place.wire_seq1:
            end, req = heapq.heappop(self._ends)
            self._open[req] -= 1
            if not self._open[req]:
                del self._open[req]
            if end != place.wire_seq1 or (named is not None and req not in named):
                stray.append(req)
        self._tell_some(stray, f"its posting ends where no chunk names it, at or before message {place.wire_seq1}")

    def _tell_some(self, reqs: list[int], what: str) -> None:
        if reqs:
            others = f" and {len(reqs) - 1:,} others" if len(reqs) > 1 else ""
            self._tell(f"req {min(reqs)}{others}", what)


def _named(chunk: StoredChunk) -> set[int]:
    req = chunk.message.columns.req
    return set(distinct(req[req <= np.uint32(MAX_ORDINAL)]).tolist())


def _range(place: ChunkPlace) -> str:
    return f"{place.wire_seq0} to {place.wire_seq1}"
