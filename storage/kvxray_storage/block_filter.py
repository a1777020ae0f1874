"""Which blocks a chunk touches, in a few hundred bytes: what lets a block's history skip chunks without reading them.
Of an engine that tells of hashes only: which hashes, by ordinal.

    u1 shift | zstd of a bitmap, one bit for each 2^shift block ids

The bitmap has at most 32,768 bits: beyond that many block ids neighbours share a bit, and a yes means "perhaps".
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import zstandard
from kvxray_engine.stream.columns import HAS_VALUE, Columns, kind_table
from kvxray_engine.stream.schema import RESIDENCY_KINDS, Kind
from numpy.typing import NDArray

MAX_BITS: Final = 1 << 15
_MAX_BYTES: Final = MAX_BITS // 8
ROWS_ARE_HASHES: Final = kind_table(RESIDENCY_KINDS)
"""Kinds whose rows are hash ordinals, not block ids."""

VALUE_IS_A_BLOCK: Final = kind_table(frozenset({Kind.BlockCopied, Kind.BlockMoved}))
"""Kinds whose value is a block id too: the one copied or moved from."""


def touched_blocks(columns: Columns) -> NDArray[np.uint32]:
    """Block ids (or hash ordinals) that the rows name, the sources of copies and moves included, as often as named."""
    has_value = HAS_VALUE[columns.kind]
    from_block = np.repeat(VALUE_IS_A_BLOCK[columns.kind[has_value]], columns.n[has_value])
    return np.concatenate([columns.blk, columns.val[from_block].astype(np.uint32)])


def encode_filter(blocks: NDArray[np.uint32]) -> bytes:
    """The filter of these block ids; empty when there are none."""
    if not len(blocks):
        return b""
    top = int(blocks.max())
    shift = max(0, top.bit_length() - MAX_BITS.bit_length() + 1)
    bitmap = np.zeros((top >> shift) + 1, np.uint8)
    bitmap[blocks >> np.uint32(shift)] = 1
    packed: NDArray[Any] = np.packbits(bitmap, bitorder="little")
    return bytes([shift]) + zstandard.ZstdCompressor(level=1).compress(packed.tobytes())


def may_touch(bits: bytes, block: int) -> bool:
    """False: the chunk does not touch the block. True: perhaps, or the filter is damaged: the chunk knows."""
    if not bits:
        return False
    byte, bit = divmod(block >> bits[0], 8)
    try:
        bitmap = zstandard.ZstdDecompressor().decompress(memoryview(bits)[1:], max_output_size=_MAX_BYTES)
    except zstandard.ZstdError:
        return True
    return byte < len(bitmap) and bool(bitmap[byte] >> bit & 1)
