"""Tokens computed twice: what a preempted request had computed and does not find in the cache when it runs again."""

from __future__ import annotations

from typing import Final

import numpy as np
from kvxray_engine.stream.columns import I8, kind_table
from kvxray_engine.stream.schema import Kind

from kvxray_backend.analysis.block_touches import Operations
from kvxray_backend.analysis.recent import Recent

MAX_FOLLOWED: Final = 10_000
"""Preempted requests; those preempted first are forgotten first."""
_SCHEDULED, _PREEMPTED = int(Kind.RequestScheduled), int(Kind.RequestPreempted)
_MATTERS: Final = kind_table(
    frozenset(
        {
            Kind.RequestScheduled,
            Kind.RequestPreempted,
            Kind.RequestFinished,
            Kind.RequestAborted,
            Kind.RequestFailed,
        }
    )
)


class Recomputed:
    """`recent`: of each that runs again, how many tokens it computes once more."""

    def __init__(self) -> None:
        self.recent = Recent(1)
        self._lost: dict[int, int] = {}

    def note(self, operations: Operations) -> None:
        kind = operations.kind
        if not self._lost and not (kind == _PREEMPTED).any():
            return
        at = np.flatnonzero(_MATTERS[kind])
        told = (kind[at].tolist(), operations.req[at].tolist(), operations.a0[at].tolist(), operations.a1[at].tolist())
        found: list[tuple[int, int]] = []
        for t_ns, *of_row in zip(operations.t[at].tolist(), *told, strict=True):
            tokens = self._take(*of_row)
            if tokens is not None:
                found.append((t_ns, tokens))
        again: I8 = np.array(found, np.int64).reshape(-1, 2)
        self.recent.add(again[:, 0], again[:, 1])

    def _take(self, kind: int, request: int, a0: int, a1: int) -> int | None:
        if kind == _PREEMPTED:
            if len(self._lost) >= MAX_FOLLOWED:
                del self._lost[next(iter(self._lost))]
            self._lost[request] = a0
            return None
        lost = self._lost.pop(request, None)
        return max(lost - a1, 0) if kind == _SCHEDULED and lost is not None else None
