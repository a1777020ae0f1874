"""In which chunks each holder occurs: what lets the history of a request skip all others.

Holders that live at the same time have neighbouring ordinals, so what one commit says of 256 neighbours is one row:

    u1 width | u1 low byte of each holder | first message of its run | last message of its run

in columns, little endian, messages counted from the row's `wire_seq0`, each in as many bytes as the width says. A run
begins with a chunk that names the holder and ends with one. Every bit means something, so that verifying finds each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from kvxray_storage import models
from kvxray_storage.chunk import DamagedChunk
from kvxray_storage.chunk_builder import ClosedChunk
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.records import EpochKey
from kvxray_storage.upserts import Row

NEIGHBOURS: Final = 256
"""Holders of one row: those whose ordinals differ in the low byte alone."""

_WIDTHS: Final[dict[int, np.dtype[np.unsignedinteger[Any]]]] = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}
I8 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """One entry a holder: it occurs in chunks that lie within messages firsts..lasts."""

    holders: I8
    firsts: I8
    lasts: I8


def posting_rows(key: EpochKey, chunks: Sequence[ClosedChunk]) -> list[Row]:
    """What these chunks, which are stored together, say of their holders."""
    runs = _runs_of(chunks)
    buckets = runs.holders // NEIGHBOURS
    edges = np.flatnonzero(np.diff(buckets, prepend=-1, append=-1)).tolist()
    return [
        _row(key, int(buckets[at]), Runs(runs.holders[at:end], runs.firsts[at:end], runs.lasts[at:end]))
        for at, end in pairwise(edges)
    ]


def unpack(bucket: int, wire_seq0: int, packed: bytes) -> Runs:
    """What `posting_rows` packed. Raises DamagedChunk."""
    dtype, count = _shape(packed)
    lows = np.frombuffer(packed, np.uint8, count, 1)
    messages = np.frombuffer(packed, dtype, 2 * count, 1 + count).astype(np.int64) + wire_seq0
    return Runs(lows + np.int64(bucket * NEIGHBOURS), messages[:count], messages[count:])


def runs_of_holder(connection: sa.Connection, key: EpochKey, ordinal: int) -> list[tuple[int, int]]:
    """Messages first..last of each stretch of history that the holder occurs in, the newest first; they do not overlap,
    also where what came late lies in the middle of one. Raises DamagedChunk.
    """
    posting, low = models.posting, ordinal % NEIGHBOURS
    here = (*of_epoch(posting, key), posting.c.bucket == ordinal // NEIGHBOURS)
    query = sa.select(posting.c.wire_seq0, posting.c.packed).where(*here).order_by(posting.c.wire_seq0)
    found: list[tuple[int, int]] = []
    with connection.execute(query.execution_options(stream_results=True, yield_per=500)) as result:
        for row in result:
            found += _runs_of_low(low, row.wire_seq0, row.packed)
    return _apart(found)[::-1]


def holders_between(connection: sa.Connection, key: EpochKey, first: int, last: int) -> set[int]:
    """Ordinals that postings name, at least all from first to last. Raises DamagedChunk."""
    posting = models.posting
    within = posting.c.bucket.between(first // NEIGHBOURS, last // NEIGHBOURS)
    query = sa.select(posting.c.bucket, posting.c.packed).where(*of_epoch(posting, key), within)
    holders: set[int] = set()
    with connection.execute(query.execution_options(stream_results=True, yield_per=500)) as result:
        for row in result:
            holders.update(unpack(row.bucket, 0, row.packed).holders.tolist())
    return holders


def stored_rows(connection: sa.Connection, key: EpochKey) -> Iterator[Any]:
    """All of an epoch, in the order of their messages."""
    posting = models.posting
    query = sa.select(posting.c.bucket, posting.c.wire_seq0, posting.c.wire_seq1, posting.c.packed)
    ordered = query.where(*of_epoch(posting, key)).order_by(posting.c.wire_seq0, posting.c.bucket)
    with connection.execute(ordered.execution_options(stream_results=True, yield_per=500)) as result:
        yield from result


def _runs_of(chunks: Sequence[ClosedChunk]) -> Runs:
    """In the order of the holders."""
    holders = np.concatenate([chunk.holders for chunk in chunks]).astype(np.int64)
    sizes = [len(chunk.holders) for chunk in chunks]
    order = np.argsort(holders, kind="stable")
    begins = np.flatnonzero(np.diff(holders[order], prepend=-1))
    if not len(begins):
        return Runs(holders, holders, holders)
    firsts = np.repeat(np.array([chunk.wire_seq0 for chunk in chunks], np.int64), sizes)[order]
    lasts = np.repeat(np.array([chunk.wire_seq1 for chunk in chunks], np.int64), sizes)[order]
    return Runs(holders[order][begins], np.minimum.reduceat(firsts, begins), np.maximum.reduceat(lasts, begins))


def _row(key: EpochKey, bucket: int, runs: Runs) -> Row:
    first, last = int(runs.firsts.min()), int(runs.lasts.max())
    width = next(width for width in _WIDTHS if last - first < 256**width)
    messages = (np.concatenate([runs.firsts, runs.lasts]) - first).astype(_WIDTHS[width])
    lows = (runs.holders % NEIGHBOURS).astype(np.uint8)
    return {
        "source_id": key.source_id, "epoch": key.epoch, "bucket": bucket, "wire_seq0": first, "wire_seq1": last,
        "packed": b"".join((bytes([width]), lows.tobytes(), messages.tobytes())),
    }  # fmt: skip


def _shape(packed: bytes) -> tuple[np.dtype[np.unsignedinteger[Any]], int]:
    """Of its messages, and how many holders it has."""
    dtype = _WIDTHS.get(packed[0]) if packed else None
    count, rest = divmod(len(packed) - 1, 1 + 2 * dtype.itemsize) if dtype is not None else (0, 1)
    if dtype is None or rest or not 1 <= count <= NEIGHBOURS:
        raise DamagedChunk("A posting cannot be read.")
    return dtype, count


def _runs_of_low(low: int, wire_seq0: int, packed: bytes) -> Iterator[tuple[int, int]]:
    """One, or none: without unpacking the others."""
    dtype, count = _shape(packed)
    at, width = packed.find(low, 1, 1 + count), dtype.itemsize
    if at > 0:
        messages = (int.from_bytes(packed[begin : begin + width], "little") for begin in _places(at - 1, count, width))
        first, last = messages
        yield wire_seq0 + first, wire_seq0 + last


def _places(number: int, count: int, width: int) -> tuple[int, int]:
    begin = 1 + count + number * width
    return begin, begin + count * width


def _apart(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """In order, with those that overlap made one."""
    apart: list[tuple[int, int]] = []
    for first, last in sorted(runs):
        if apart and first <= apart[-1][1]:
            apart[-1] = apart[-1][0], max(last, apart[-1][1])
        else:
            apart.append((first, last))
    return apart
