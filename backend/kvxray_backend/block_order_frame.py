"""The order of all blocks by their prefixes as maps ask for it. Layout in docs/architecture.md.

Little endian: a header of 32 bytes, then a u4 column of block ids, each as the difference from the one before (modulo
2^32): blocks of one chain are mostly neighbours, so that this compresses three to five times better than the ids
themselves. Pure but for the lock of the state it reads.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from kvxray_backend.block_order import prefix_order
from kvxray_backend.live_state import LiveState

MAGIC: Final = b"KVXO"
VERSION: Final = 1
HEADER: Final = struct.Struct("<4sB3xIIdII")


def order_frame(live: LiveState) -> tuple[float, bytes] | None:
    """`picture_seq` and the order; None before the source was joined."""
    with live.lock:
        if live.block_map is None:
            return None
        block_map, seq, epoch, now_ns = live.block_map, live.picture_seq, live.epoch or 0, live.state_ns
        columns = block_map.hash_ordinal.copy(), block_map.parent_ordinal.copy()
        null_block = block_map.descriptor.null_block
    order = prefix_order(*columns, null_block)
    head = HEADER.pack(
        MAGIC, VERSION, epoch, len(order.blocks), now_ns / 1e9, order.num_hashed, order.num_trees
    )  # fmt: skip
    return seq, head + np.diff(order.blocks, prepend=np.uint32(0)).astype("<u4").tobytes()
