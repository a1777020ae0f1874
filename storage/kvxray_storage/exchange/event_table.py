"""The events of a chunk as columns of one row each, made with arrays: what analysts' tables are filled from."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from kvxray_engine.stream.columns import HAS_VALUE, Columns
from kvxray_engine.stream.schema import NO_ORDINAL, Kind
from numpy.typing import NDArray

from kvxray_storage.block_filter import ROWS_ARE_HASHES
from kvxray_storage.chunk import Chunk
from kvxray_storage.event_rows import ChunkEvents

KIND_NAMES: Final = {int(kind): kind.name for kind in Kind}
NONE: Final = -1


class EventTable:
    """One entry an event, in order. NONE where there is nothing: `block_id` of events without a block, `request`
    without a holder, `hash_ordinal` of blocks that were not cached just then (a residency event is of a hash); `value`
    is masked by `has_value`.
    """

    def __init__(self, chunk: Chunk) -> None:
        columns, events = chunk.message.columns, ChunkEvents(chunk)
        begins, times, steps, a0 = events.by_operation()
        operation = events.operations_at(np.arange(len(events)))
        inside = np.arange(len(events)) - begins[operation]
        kind = columns.kind[operation]
        self.seq = events.seqs()
        self.t_ns, self.step = times[operation], steps[operation]
        self.kind, self.cause = kind, columns.cause[operation]
        self.request = np.where(columns.req == NO_ORDINAL, NONE, columns.req.astype(np.int64))[operation]
        self.a0, self.a1 = a0[operation], columns.a1[operation]
        has_row = columns.n[operation] > 0
        row = _numbers(columns, operation, inside, has_row)
        is_hash = ROWS_ARE_HASHES[kind]
        self.block_id = np.where(is_hash, NONE, row)
        self.has_value = has_row & (HAS_VALUE[kind] | is_hash)
        self.value = np.where(is_hash, row, _values(columns, operation, inside, has_row & HAS_VALUE[kind]))
        is_cached = has_row & (kind == Kind.BlockCached)
        cached = np.where(is_cached, columns.a0[operation].astype(np.int64) + inside, NONE)
        self.hash_ordinal = np.where(is_hash, row, cached)

    def __len__(self) -> int:
        return len(self.seq)


def _numbers(
    columns: Columns, operation: NDArray[np.int64], inside: NDArray[np.int64], has_row: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """`blk` of each event that has a row."""
    first = np.cumsum(columns.n, dtype=np.int64) - columns.n
    return _taken(columns.blk, first[operation] + inside, has_row)


def _values(
    columns: Columns, operation: NDArray[np.int64], inside: NDArray[np.int64], has_value: NDArray[np.bool_]
) -> NDArray[np.int64]:
    counts = np.where(HAS_VALUE[columns.kind], columns.n, 0).astype(np.int64)
    first = np.cumsum(counts) - counts
    return _taken(columns.val, first[operation] + inside, has_value)


def _taken(column: NDArray[Any], at: NDArray[np.int64], wanted: NDArray[np.bool_]) -> NDArray[np.int64]:
    found = np.full(len(at), NONE, np.int64)
    found[wanted] = column[at[wanted]]
    return found
