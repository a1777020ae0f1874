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

from kvxray_engine.stream.columns import I8, U4, Columns
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
_ENDED: Final = [int(status) for status in ENDED_STATUSES]
_ENDING: Final = {
    Kind.RequestFinished: RequestStatus.finished,
    Kind.RequestAborted: RequestStatus.aborted,
    Kind.RequestFailed: RequestStatus.failed,
}
_REQUEST_KINDS: Final = (
    Kind.RequestArrived,
    Kind.RequestScheduled,
    Kind.TokensGenerated,
    Kind.RequestPreempted,
    Kind.RequestResumed,
    *_ENDING,
)


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
        """Seconds from arrival to the first token; None until there is one."""
        if not self.first_token_ns or not self.arrived_ns:
            return None
        return (self.first_token_ns - self.arrived_ns) / 1e9


class RequestTable:
    """`rows[:size]` is sorted by ordinal; `names` has the name of every ordinal that was told."""

    def __init__(self) -> None:
        self._rows: NDArray[np.void] = np.zeros(256, ROW)
        self._size = 0
        self.names: dict[int, Name] = {}

    def __len__(self) -> int:
        return self._size

    @property
    def rows(self) -> NDArray[np.void]:
        """The rows as a view: read, do not write."""
        return self._rows[: self._size]

    def add_names(self, req0: int, names: Sequence[Name]) -> None:
        """New holders, with ordinals from `req0` on."""
        if not names:
            return
        ordinals = np.arange(req0, req0 + len(names), dtype=np.uint32)
        self.names.update(zip(ordinals.tolist(), names, strict=True))
        self._ensure(ordinals)

    def apply(self, columns: Columns, times: I8, steps: I8) -> None:
        """Folds the request operations. times: wall ns, steps: the engine's step, one entry an operation."""
        kinds = columns.kind
        present = np.flatnonzero(np.bincount(kinds, minlength=64))
        if not len(present) or present[-1] < Kind.RequestArrived:
            return
        for kind in _REQUEST_KINDS:
            if kind not in present:
                continue
            at = np.flatnonzero((kinds == kind) & (columns.req != NO_ORDINAL))
            if len(at):
                index = self._ensure(columns.req[at])
                self._apply_kind(kind, index, columns.a0[at], columns.a1[at], times[at], steps[at])

    def _apply_kind(self, kind: Kind, index: NDArray[np.intp], a0: U4, a1: U4, times: I8, steps: I8) -> None:
        rows = self._rows
        if kind == Kind.RequestArrived:
            rows["status"][index] = RequestStatus.waiting
            rows["arrived_ns"][index] = times + a0.astype(np.int64) * 1000
            rows["prompt"][index] = a1
        elif kind == Kind.RequestScheduled:
            rows["status"][index] = RequestStatus.running
            rows["scheduled_ns"][index] = times
            np.add.at(rows["queried"], index, a0)
            np.add.at(rows["hit"], index, a1)
        elif kind == Kind.TokensGenerated:
            self._apply_tokens(index, a1, times)
        elif kind == Kind.RequestPreempted:
            rows["status"][index] = RequestStatus.preempted
            np.add.at(rows["preemptions"], index, 1)
        elif kind == Kind.RequestResumed:
            rows["status"][index] = RequestStatus.running
        else:
            rows["status"][index] = _ENDING[kind]
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
        at = int(np.searchsorted(self.rows["ordinal"], ordinal))
        if at >= self._size or int(self._rows["ordinal"][at]) != ordinal:
            return None
        return self._view(at)

    def find(self, request_id: str) -> RequestView | None:
        """The newest request of that id."""
        known = [ordinal for ordinal, name in self.names.items() if name.id == request_id]
        return self.get(max(known)) if known else None

    def live(self) -> list[RequestView]:
        """Requests that have arrived and not ended, oldest first."""
        status = self.rows["status"]
        return [self._view(int(at)) for at in np.flatnonzero((status != 0) & ~np.isin(status, _ENDED))]

    def recent(self, n: int) -> list[RequestView]:
        """The n newest by ordinal, newest first, ended ones included."""
        return [self._view(at) for at in range(self._size - 1, max(-1, self._size - 1 - n), -1)]

    def count(self, *statuses: RequestStatus) -> int:
        """How many requests have one of these statuses."""
        return int(np.isin(self.rows["status"], [int(status) for status in statuses]).sum())

    def ended(self, ordinals: U4) -> NDArray[np.bool_]:
        """For each ordinal whether that request is known to have ended."""
        at = np.minimum(np.searchsorted(self.rows["ordinal"], ordinals), max(self._size - 1, 0))
        if not self._size:
            return np.zeros(len(ordinals), bool)
        found: NDArray[np.bool_] = self.rows["ordinal"][at] == ordinals
        return found & np.isin(self.rows["status"][at], _ENDED)

    def wants_pruning(self) -> bool:
        return self._size >= PRUNE_AT and int(np.isin(self.rows["status"], _ENDED).sum()) > KEEP_ENDED * 2

    def prune(self, holders: U4) -> None:
        """Forgets ended requests that hold nothing, all but the newest."""
        ended = np.isin(self.rows["status"], _ENDED) & ~np.isin(self.rows["ordinal"], holders)
        old = np.flatnonzero(ended)[:-KEEP_ENDED]
        keep = np.ones(self._size, bool)
        keep[old] = False
        for ordinal in self.rows["ordinal"][old]:
            self.names.pop(int(ordinal), None)
        self.replace(self.rows[keep].copy(), self.names)

    def replace(self, rows: NDArray[np.void], names: dict[int, Name]) -> None:
        """Begins anew from these rows (sorted by ordinal) and names."""
        self._size = len(rows)
        self._rows = np.concatenate([rows, np.zeros(max(256, len(rows)), ROW)])
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
        at = np.searchsorted(self.rows["ordinal"], ordinals)
        known = np.zeros(len(ordinals), bool)
        inside = at < self._size
        known[inside] = self.rows["ordinal"][at[inside]] == ordinals[inside]
        if known.all():
            return at
        self._insert(np.unique(ordinals[~known]))
        return np.searchsorted(self.rows["ordinal"], ordinals)

    def _insert(self, ordinals: U4) -> None:
        fresh = np.zeros(len(ordinals), ROW)
        fresh["ordinal"] = ordinals
        size = self._size + len(fresh)
        if size > len(self._rows):
            self._rows = np.concatenate([self._rows[: self._size], np.zeros(size, ROW)])
        self._rows[self._size : size] = fresh
        if self._size and ordinals[0] < self._rows["ordinal"][self._size - 1]:
            self._rows[:size] = np.sort(self._rows[:size], order="ordinal", kind="stable")
        self._size = size
