"""Which of the blocks that a request caches are of its prompt: as many as were looked up when it was admitted and not
found. Those after them hold what it generates.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from kvxray_engine.stream.columns import I8, U4, kind_table
from kvxray_engine.stream.schema import NO_ORDINAL, Kind

from kvxray_backend.analysis.block_touches import CACHED, Index, Operations

MAX_FOLLOWED: Final = 1 << 16
"""Requests whose prompts are being computed; the oldest are forgotten first."""
_BEGINS: Final = int(Kind.RequestScheduled)
_MATTERS: Final = kind_table(
    frozenset(
        {
            Kind.RequestScheduled,
            Kind.BlockCached,
            Kind.RequestPreempted,
            Kind.RequestFinished,
            Kind.RequestAborted,
            Kind.RequestFailed,
        }
    )
)


class PromptBlocks:
    """Blocks of its prompt that each request still has to cache, by ordinal, in order."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self._requests: U4 = np.zeros(0, np.uint32)
        self._left: I8 = np.zeros(0, np.int64)

    def take(self, told: Operations) -> I8:
        """For each operation how many of its rows, the first ones, are of a prompt."""
        found = np.zeros(len(told.kind), np.int64)
        ops = np.flatnonzero(_MATTERS[told.kind])
        # Of several groups of layers the first one tells; all are looked up alike.
        ops = ops[(told.req[ops] != NO_ORDINAL) & ((told.kind[ops] != CACHED) | (told.a1[ops] == 0))]
        if not len(ops):
            return found
        ops = ops[_order(told.req[ops])]
        req, sets = told.req[ops], told.kind[ops] != CACHED
        first = np.concatenate(([True], req[1:] != req[:-1]))
        group = np.maximum.accumulate(np.where(first, np.arange(len(ops)), 0))
        rows = np.where(sets, 0, told.n[ops])
        total = np.cumsum(rows)
        before = total - rows
        budget = np.where(told.kind[ops] == _BEGINS, self._to_cache(told.a0[ops], told.a1[ops]), 0) + before
        at = np.maximum.accumulate(np.where(sets, np.arange(len(ops)), -1))
        until = np.where(at >= group, budget[at], self._left_of(req) + before[group])
        found[ops] = np.clip(until - before, 0, rows)
        last = np.append(first[1:], True)
        self._keep(req[last], np.maximum(until - total, 0)[last])
        return found

    def check_integrity(self) -> None:
        """Asserts that it is in order and bounded."""
        assert (self._requests[1:] > self._requests[:-1]).all(), "requests are out of order"
        assert len(self._requests) == len(self._left) <= MAX_FOLLOWED, "too many requests are followed"
        assert (self._left > 0).all(), "a prompt that is done is followed"

    def _to_cache(self, queried: I8, hit: U4) -> I8:
        full: I8 = queried // self.block_size - hit.astype(np.int64) // self.block_size
        return np.maximum(full, 0)

    def _left_of(self, req: U4) -> I8:
        if not len(self._requests):
            return np.zeros(len(req), np.int64)
        at = np.minimum(np.searchsorted(self._requests, req), len(self._requests) - 1)
        return np.where(self._requests[at] == req, self._left[at], 0)

    def _keep(self, req: U4, left: I8) -> None:
        """req: sorted, each once."""
        held = np.minimum(np.searchsorted(req, self._requests), len(req) - 1)
        others = req[held] != self._requests
        requests = np.concatenate([self._requests[others], req[left > 0]])
        order = np.argsort(requests)[-MAX_FOLLOWED:]
        self._requests, self._left = requests[order], np.concatenate([self._left[others], left[left > 0]])[order]


def _order(req: U4) -> Index:
    """Sorted by request and then by place, in one number: faster than any stable sort."""
    both = np.sort((req.astype(np.uint64) << np.uint64(32)) | np.arange(len(req), dtype=np.uint64))
    return both.astype(np.uint32).astype(np.intp)
