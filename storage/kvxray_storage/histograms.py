"""How many tokens took how long, by quarters of an octave of microseconds: what a median is estimated from, to 9 %.

As bytes: u1 bucket, u4 count, for the buckets that occur. Histograms of parts add up to that of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

I8 = NDArray[np.int64]

NUM_BUCKETS: Final = 160
_PER_OCTAVE: Final = 4
_PAIR: Final = np.dtype([("bucket", "u1"), ("count", "<u4")])


def buckets_of(microseconds: I8) -> I8:
    """The bucket of each duration; bucket b begins at 2^(b/4) microseconds, the first holds all that is shorter."""
    octaves = np.log2(np.maximum(microseconds, 1))
    return np.minimum((octaves * _PER_OCTAVE).astype(np.int64), NUM_BUCKETS - 1)


def encode_histogram(counts: I8) -> bytes:
    """counts: one entry a bucket."""
    buckets = np.flatnonzero(counts)
    pairs = np.zeros(len(buckets), _PAIR)
    pairs["bucket"], pairs["count"] = buckets, np.minimum(counts[buckets], 0xFFFFFFFF)
    return pairs.tobytes()


def decode_histogram(data: bytes) -> I8:
    """One entry a bucket. What is no bucket is left out: nothing read from a file is believed."""
    pairs: NDArray[Any] = np.frombuffer(data[: len(data) // _PAIR.itemsize * _PAIR.itemsize], _PAIR)
    pairs = pairs[pairs["bucket"] < NUM_BUCKETS]
    counts = np.bincount(pairs["bucket"], weights=pairs["count"], minlength=NUM_BUCKETS)
    return counts.astype(np.int64)


def add_up(parts: Iterable[bytes]) -> I8:
    """The histogram of all of them, one entry a bucket."""
    counts = np.zeros(NUM_BUCKETS, np.int64)
    for part in parts:
        counts += decode_histogram(part)
    return counts


def quantile_us(counts: I8, share: float) -> float | None:
    """The duration that this share of all did not exceed, in microseconds; None when there are none."""
    total = int(counts.sum())
    if not total:
        return None
    ends = np.cumsum(counts)
    bucket = int(np.searchsorted(ends, share * total))
    inside = (share * total - (ends[bucket] - counts[bucket])) / counts[bucket]
    return float(2 ** ((bucket + inside) / _PER_OCTAVE))
