"""Bytes of hashes in a stream that may mix widths: shorter ones are padded with zeros in front to the widest one told.

No hash function gives 128 zero bits, so what has so many in front is a shorter hash.
"""

from __future__ import annotations

import numpy as np

from kvxray_engine.stream.codec import HASH_WIDTHS
from kvxray_engine.stream.hash_table import HashTable


def padded(data: bytes | memoryview, width: int, to_width: int) -> bytes:
    """Hashes of one width, made wider."""
    hashes = np.frombuffer(data, np.uint8).reshape(-1, width)
    return np.pad(hashes, ((0, 0), (to_width - width, 0))).tobytes()


def unpadded(data: bytes) -> bytes:
    """The hash as it was told."""
    width = max(HASH_WIDTHS)
    for shorter in sorted(HASH_WIDTHS, reverse=True):
        if len(data) >= shorter and not any(data[: len(data) - shorter]):
            width = shorter
    return data[-width:]


def added(table: HashTable, first: int, data: bytes | memoryview, width: int) -> HashTable:
    """The table with these hashes as well: another one where they are wider than what it had."""
    if width > table.width or not table.num_bytes:
        wider = HashTable(width)
        for begin, run in table.runs():
            wider.add(begin, padded(run, table.width, width))
        table = wider
    table.add(first, data if width == table.width else padded(data, width, table.width))
    return table
