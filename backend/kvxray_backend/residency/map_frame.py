"""The map of cached hashes as bytes: all that is there in the order of its chains; laid out in `docs/architecture.md`.
Pure.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
from kvxray_engine.stream.columns import I8, U4
from numpy.typing import NDArray

from kvxray_backend.residency.picture import ResidencyPicture

MAGIC: Final = b"KVXC"
VERSION: Final = 1
MAX_RESIDENTS: Final = 1 << 17
"""24 bytes each: 3 MB, as often as once a second, and more cells than a screen has room for."""
MAYBE: Final = 1
CERTAIN: Final = 2
UNREACHABLE: Final = 1
NOT_KNOWN: Final = 0xFFFFFFFF
_HEADER: Final = struct.Struct("<4sBBHIIIId")
_HUNDREDTH_NS: Final = 10_000_000


def map_frame(picture: ResidencyPicture, epoch: int, now_ns: int, limit: int = MAX_RESIDENTS) -> bytes:
    """At most `limit` residents, the first in order, so that what is told of them fits together: parents come first."""
    columns, order = picture.columns, picture.order
    rows = order.rows[:limit]
    header = _HEADER.pack(MAGIC, VERSION, 0, 0, epoch, len(rows), len(order.rows), order.num_trees, columns.t_ns / 1e9)
    is_sure = np.ones(len(rows), bool) if columns.counts_copies else columns.sure[rows] > 0
    parts = (
        columns.ordinals[rows],
        order.parents[:limit],
        columns.places[rows],
        np.where(is_sure, CERTAIN, MAYBE).astype(np.uint8),
        np.where(picture.is_unreachable[rows], UNREACHABLE, 0).astype(np.uint8),
        _hundredths(columns.t_first[rows], now_ns),
        _hundredths(columns.t_last[rows], now_ns),
        _saturated(columns.reuses[rows]),
        _saturated(order.depths[:limit]),
    )
    return header + b"".join(part.astype(part.dtype.newbyteorder("<")).tobytes() for part in parts)


def _hundredths(since_ns: I8, now_ns: int) -> U4:
    """How long ago, in hundredths of a second; what lies ahead is now, and what was never told is not known."""
    ages = np.clip((now_ns - since_ns) // _HUNDREDTH_NS, 0, NOT_KNOWN - 1)
    return np.where(since_ns > 0, ages, NOT_KNOWN).astype(np.uint32)


def _saturated(counts: NDArray[np.intp] | U4) -> NDArray[np.uint16]:
    return np.minimum(counts, 0xFFFF).astype(np.uint16)
