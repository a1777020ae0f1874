"""Events of a chunk by kind, as the bytes of its `counts` column: u1 kind, u4 count, for the kinds that occur."""

from __future__ import annotations

from typing import Final

import numpy as np
from kvxray_engine.stream.columns import Columns
from kvxray_engine.stream.schema import Kind

from kvxray_storage.chunk import DamagedChunk

_PAIR: Final = np.dtype([("kind", "u1"), ("count", "<u4")])


def encode_counts(columns: Columns) -> bytes:
    counts = columns.kind_counts()
    kinds = np.flatnonzero(counts)
    pairs = np.zeros(len(kinds), _PAIR)
    pairs["kind"], pairs["count"] = kinds, counts[kinds]
    return pairs.tobytes()


def decode_counts(data: bytes) -> dict[Kind, int]:
    """Raises DamagedChunk."""
    try:
        return {Kind(int(pair["kind"])): int(pair["count"]) for pair in np.frombuffer(data, _PAIR)}
    except ValueError as error:
        raise DamagedChunk(f"The count by kind of a chunk cannot be read: {error}.") from error
