"""Requests as the events tell them: one row of a NumPy record array each, found by ordinal.

Ordinals grow, so the rows stay sorted by appending; ended requests that hold nothing are forgotten after a while. Times
are wall ns, 0 = not yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvxray_engine.stream.codec import Timing
from kvxray_engine.stream.columns import I8, U4, Columns, kind_table
from kvxray_engine.stream.pool_dump import RequestDump
from kvxray_engine.stream.schema import ENDED_STATUSES, NO_ORDINAL, Kind, Name, RequestStatus

ROW: Final = np.dtype(
    [
        ("ordinal", "<u4"),
        ("status", "u1"),
        ("preemptions", "<u4"),
        ("prompt", "<u4"),
        ("output", "<u4"),
        ("queried", "<u4"),
        ("hit", "<u4"),
        ("ended_step", "<i8"),
        ("arrived_ns", "<i8"),
        ("scheduled_ns", "<i8"),
        ("first_token_ns", "<i8"),
        ("last_token_ns", "<i8"),
        ("ended_ns", "<i8"),
    ]
)
KEEP_ENDED: Final = 2048
PRUNE_AT: Final = 8192
"""Requests, or half as many again as were kept the last time: to look who holds what takes as long as many messages do,
and with thousands of leaks the ended ones never get few.
"""
_ENDED: Final = [int(status) for status in ENDED_STATUSES]
_ENDING: Final = {
    Kind.RequestFinished: RequestStatus.finished,
    Kind.RequestAborted: RequestStatus.aborted,
    Kind.RequestFailed: RequestStatus.failed,
}
_STATUS: Final = {
    Kind.RequestArrived: RequestStatus.waiting,
    Kind.RequestScheduled: RequestStatus.running,
    Kind.RequestPreempted: RequestStatus.preempted,
    Kind.RequestResumed: RequestStatus.running,
    **_ENDING,
}
_STATUS_AFTER: Final = np.zeros(256, np.uint8)
"""By kind; 0 = says nothing of it."""
_STATUS_AFTER[[int(kind) for kind in _STATUS]] = [int(status) for status in _STATUS.values()]
# Plain numbers: to compare a column with a member of an enum takes numpy longer than to read a thousand rows.
_ARRIVED, _SCHEDULED, _PREEMPTED = int(Kind.RequestArrived), int(Kind.RequestScheduled), int(Kind.RequestPreempted)
_TOKENS: Final = int(Kind.TokensGenerated)
_AFTER_ARRIVAL: Final = (_SCHEDULED, _TOKENS, _PREEMPTED, *map(int, _ENDING))
_OF_REQUEST: Final = kind_table(frozenset({Kind.TokensGenerated, *_STATUS}))
_IS_ENDED: Final = np.zeros(256, bool)
"""By status."""
_IS_ENDED[_ENDED] = True


@dataclass(frozen=True, slots=True)
class RequestView:
    """One request at one moment, copied out of the table."""

    ordinal: int
    name: Name
    status: RequestStatus
    prompt_tokens: int
    output_tokens: int
    queried_tokens: int
    hit_tokens: int
    preemptions: int
    arrived_ns: int
    scheduled_ns: int
    first_token_ns: int
    last_token_ns: int
    ended_ns: int
    ended_step: int

    @property
    def is_ended(self) -> bool:
        return self.status in ENDED_STATUSES

    @property
    def ttft_s(self) -> float | None:
        """Seconds from arrival to the first token; None until there is one, or where the clock went back between."""
        if not self.first_token_ns or not 0 < self.arrived_ns <= self.first_token_ns:
            return None
        return (self.first_token_ns - self.arrived_ns) / 1e9


class RequestTable:
    """`rows[:size]` is sorted by ordinal; `names` has the name of every ordinal that was told.

    `_ordinals`: those of the rows once more, side by side: to search them inside the rows would copy them every time.
    """

    def __init__(self) -> None:
        self._rows: NDArray[np.void] = np.zeros(256, ROW)
        self._ordinals: U4 = np.zeros(256, np.uint32)
        self._size = 0
        self._prune_at = PRUNE_AT
        self.names: dict[int, Name] = {}

    def __len__(self) -> int:
        return self._size

    @property
    def rows(self) -> NDArray[np.void]:
        """The rows as a view: read, do not write."""
        return self._rows[: self._size]

    @property
    def ordinals(self) -> U4:
        """Of the rows: read, do not write."""
        return self._ordinals[: self._size]

    def copy(self) -> RequestTable:
        made = RequestTable()
        made._rows, made._ordinals, made._size = self.rows.copy(), self.ordinals.copy(), self._size
        made._prune_at, made.names = self._prune_at, dict(self.names)
        return made

    def add_names(self, req0: int, names: Sequence[Name]) -> None:
        """New holders, with ordinals from `req0` on."""
        if not names:
            return
        ordinals = np.arange(req0, req0 + len(names), dtype=np.uint32)
        self.names.update(zip(ordinals.tolist(), names, strict=True))
        if not self._size or req0 > self._ordinals[self._size - 1]:
            self._insert(ordinals)
        else:
            self._ensure(ordinals)

    def apply(self, columns: Columns, timing: Timing) -> None:
        """Folds the request operations."""
        told = np.flatnonzero(_OF_REQUEST[columns.kind] & (columns.req != NO_ORDINAL))
        if not len(told):
            return
        kinds, index = columns.kind[told], self._ensure(columns.req[told])
        a0, a1, times, steps = columns.a0[told], columns.a1[told], timing.times[told], timing.steps[told]
        arrived = np.flatnonzero(kinds == _ARRIVED)
        if len(arrived):
            self._apply_arrivals(index[arrived], timing.begun[told[arrived]], a0[arrived], a1[arrived])
        for kind in _AFTER_ARRIVAL:
            at = np.flatnonzero(kinds == kind)
            if len(at):
                self._apply_kind(kind, index[at], a0[at], a1[at], times[at], steps[at])
        # In the order of the events, whatever their kinds: one batch may preempt a request, resume and preempt it.
        at = np.flatnonzero(_STATUS_AFTER[kinds])
        self._rows["status"][index[at]] = _STATUS_AFTER[kinds[at]]

    def _apply_arrivals(self, index: NDArray[np.intp], begun: I8, microseconds: U4, prompt: U4) -> None:
        self._rows["arrived_ns"][index] = begun + microseconds.astype(np.int64) * 1000
        self._rows["prompt"][index] = prompt

    def _apply_kind(self, kind: int, index: NDArray[np.intp], a0: U4, a1: U4, times: I8, steps: I8) -> None:
        rows = self._rows
        if kind == _SCHEDULED:
            rows["scheduled_ns"][index] = times
            np.add.at(rows["queried"], index, a0)
            np.add.at(rows["hit"], index, a1)
        elif kind == _TOKENS:
            self._apply_tokens(index, a1, times)
        elif kind == _PREEMPTED:
            np.add.at(rows["preemptions"], index, 1)
        else:
            rows["prompt"][index] = a0
            rows["output"][index] = a1
            rows["ended_ns"][index] = times
            rows["ended_step"][index] = steps

    def _apply_tokens(self, index: NDArray[np.intp], total: U4, times: I8) -> None:
        rows = self._rows
        rows["output"][index] = total
        rows["last_token_ns"][index] = times
        # In reverse the first of several in one batch is written last, so it wins.
        fresh = rows["first_token_ns"][index] == 0
        rows["first_token_ns"][index[fresh][::-1]] = times[fresh][::-1]

    def get(self, ordinal: int) -> RequestView | None:
        at = int(np.searchsorted(self.ordinals, np.uint32(ordinal)))
        if at >= self._size or int(self._ordinals[at]) != ordinal:
            return None
        return self._view(at)

    def end(self, ordinal: int) -> tuple[RequestStatus, int, int] | None:
        """How it ended, when (wall ns) and in which step; None where it has not, or is not known."""
        at = int(self.ordinals.searchsorted(np.uint32(ordinal)))
        if at >= self._size or int(self._ordinals[at]) != ordinal:
            return None
        status = int(self._rows["status"][at])
        if not _IS_ENDED[status]:
            return None
        return RequestStatus(status), int(self._rows["ended_ns"][at]), int(self._rows["ended_step"][at])

    def find(self, request_id: str) -> RequestView | None:
        """The newest request of that id."""
        known = [ordinal for ordinal, name in self.names.items() if name.id == request_id]
        return self.get(max(known)) if known else None

    def live(self) -> list[RequestView]:
        """Requests that have arrived and not ended, oldest first."""
        status = self.rows["status"]
        return [self._view(int(at)) for at in np.flatnonzero((status != 0) & ~_IS_ENDED[status])]

    def recent(self, n: int) -> list[RequestView]:
        """The n newest by ordinal, newest first, ended ones included."""
        return [self._view(at) for at in range(self._size - 1, max(-1, self._size - 1 - n), -1)]

    def count(self, *statuses: RequestStatus) -> int:
        """How many requests have one of these statuses."""
        return sum(int(np.count_nonzero(self.rows["status"] == status)) for status in statuses)

    def ended(self, ordinals: U4) -> NDArray[np.bool_]:
        """For each ordinal whether that request is known to have ended."""
        if not self._size:
            return np.zeros(len(ordinals), bool)
        at = np.minimum(np.searchsorted(self.ordinals, ordinals), self._size - 1)
        found: NDArray[np.bool_] = (self.ordinals[at] == ordinals) & _IS_ENDED[self.rows["status"][at]]
        return found

    def wants_pruning(self) -> bool:
        return self._size >= self._prune_at

    def prune(self, holders: U4) -> None:
        """Forgets ended requests that hold nothing, all but the newest."""
        ended = _IS_ENDED[self.rows["status"]] & ~np.isin(self.ordinals, holders)
        old = np.flatnonzero(ended)[:-KEEP_ENDED]
        keep = np.ones(self._size, bool)
        keep[old] = False
        for ordinal in self.ordinals[old].tolist():
            self.names.pop(ordinal, None)
        self.replace(self.rows[keep].copy(), self.names)

    def replace(self, rows: NDArray[np.void], names: dict[int, Name]) -> None:
        """Begins anew from these rows (sorted by ordinal) and names."""
        self._size = len(rows)
        self._rows = np.concatenate([rows, np.zeros(max(256, len(rows)), ROW)])
        self._ordinals = np.ascontiguousarray(self._rows["ordinal"])
        self._prune_at = max(PRUNE_AT, self._size + self._size // 2)
        self.names = names

    def replace_from_dump(self, requests: Sequence[RequestDump], step: int) -> None:
        """Begins anew from what the engine itself says of its requests."""
        rows = np.zeros(len(requests), ROW)
        for at, request in enumerate(sorted(requests, key=lambda one: one.ordinal)):
            ended_step = step if request.status in ENDED_STATUSES else 0
            rows[at] = (
                request.ordinal, request.status, request.preemptions, request.prompt_tokens, request.output_tokens,
                request.queried_tokens, request.hit_tokens, ended_step, request.arrived_ns, request.scheduled_ns,
                request.first_token_ns, 0, request.ended_ns,
            )  # fmt: skip
        self.replace(rows, {request.ordinal: request.name for request in requests})

    def check_integrity(self) -> None:
        assert np.array_equal(self.ordinals, self.rows["ordinal"]), "the ordinals are not those of the rows"
        assert (self.ordinals[1:] > self.ordinals[:-1]).all(), "the rows are out of order"

    def _view(self, at: int) -> RequestView:
        row: Any = self._rows[at]
        ordinal = int(row["ordinal"])
        name = self.names.get(ordinal) or Name(f"#{ordinal}")
        return RequestView(
            ordinal, name, RequestStatus(int(row["status"])), int(row["prompt"]), int(row["output"]),
            int(row["queried"]), int(row["hit"]), int(row["preemptions"]), int(row["arrived_ns"]),
            int(row["scheduled_ns"]), int(row["first_token_ns"]), int(row["last_token_ns"]), int(row["ended_ns"]),
            int(row["ended_step"]),
        )  # fmt: skip

    def _ensure(self, ordinals: U4) -> NDArray[np.intp]:
        """Positions of these ordinals, with rows made for the new ones (a name may have been lost in a gap)."""
        at = np.searchsorted(self.ordinals, ordinals)
        known = np.zeros(len(ordinals), bool)
        inside = at < self._size
        known[inside] = self.ordinals[at[inside]] == ordinals[inside]
        if known.all():
            return at
        self._insert(np.unique(ordinals[~known]))
        return np.searchsorted(self.ordinals, ordinals)

    def _insert(self, ordinals: U4) -> None:
        fresh = np.zeros(len(ordinals), ROW)
        fresh["ordinal"] = ordinals
        size = self._size + len(fresh)
        if size > len(self._rows):
            self._rows = np.concatenate([self._rows[: self._size], np.zeros(size, ROW)])
            self._ordinals = np.concatenate([self.ordinals, np.zeros(size, np.uint32)])
        self._rows[self._size : size], self._ordinals[self._size : size] = fresh, ordinals
        if self._size and ordinals[0] < self._ordinals[self._size - 1]:
            self._rows[:size] = np.sort(self._rows[:size], order="ordinal", kind="stable")
            self._ordinals[:size] = self._rows["ordinal"][:size]
        self._size = size
