"""What a fold was before a message, kept so that the message can be taken back: only what it may change is copied.

A step back over a chunk then costs what the chunk touches, not what the pool holds.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kvxray_engine.stream.block_map import BLOCK_COLUMNS, BlockMap
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.columns import U4, distinct
from kvxray_engine.stream.request_table import RequestTable
from kvxray_engine.stream.schema import Kind

_NUMBERS: Final = (
    "source", "incarnation", "step", "t_ns", "next_seq", "next_wire_seq", "lost", "queried_tokens", "hit_tokens",
    "generated_tokens", "computed_tokens", "holders_known",
)  # fmt: skip
_TABLES: Final = ("holders", "hashes", "requests", "kind_totals", "eviction_totals", "stale")


class Undo:
    """`take_back` brings the fold it was made of to where it was, as often as wanted, whatever parts of `message` were
    folded since. Faults that were found stay found.
    """

    def __init__(self, block_map: BlockMap, message: Message) -> None:
        self._whole = block_map.copy() if _changes_everything(message) else None
        self._blocks: U4 = distinct(message.columns.blk) if self._whole is None else np.zeros(0, np.uint32)
        self._columns = {name: getattr(block_map, name)[self._blocks] for name in BLOCK_COLUMNS}
        self._numbers = {name: getattr(block_map, name) for name in _NUMBERS}
        self._tables = {name: getattr(block_map, name).copy() for name in _TABLES}

    @property
    def num_bytes(self) -> int:
        """About what it takes of memory; what the tables share with the fold is counted there."""
        requests: RequestTable = self._tables["requests"]
        blocks = len(self._blocks) if self._whole is None else self._whole.num_blocks
        return 2048 + 40 * blocks + requests.rows.nbytes + 120 * len(requests.names)

    def take_back(self, block_map: BlockMap) -> BlockMap:
        """The fold as it was: the same object, or another where the message changed everything."""
        if self._whole is not None:
            return self._whole.copy()
        block_map.put_back(self._blocks, self._columns)
        for name, number in self._numbers.items():
            setattr(block_map, name, number)
        for name, table in self._tables.items():
            setattr(block_map, name, table.copy())
        return block_map


def _changes_everything(message: Message) -> bool:
    """A new descriptor makes new blocks; a cleared cache may touch any of them."""
    return message.header.type == "descriptor" or bool((message.columns.kind == Kind.CacheCleared).any())
