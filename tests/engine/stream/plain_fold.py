"""The fold once more, one event at a time, with dictionaries: slow and obvious, to judge the fast one by."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.columns import HAS_VALUE
from kvxray_engine.stream.schema import NO_ORDINAL, BlockState, Kind


@dataclass
class PlainBlock:
    ref: int = 0
    block_hash: bytes | None = None
    slots: int = 0
    written: bool = False
    holders: list[int] = field(default_factory=list)

    @property
    def state(self) -> BlockState:
        if self.ref:
            return BlockState.shared if self.ref > 1 else BlockState.active
        if self.block_hash is not None:
            return BlockState.cached
        return BlockState.free if self.written else BlockState.empty


class PlainFold:
    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.block_size = block_size
        self.blocks = [PlainBlock() for _ in range(num_blocks)]
        self.hashes: dict[int, bytes] = {}
        self.output: dict[int, int] = {}

    def apply(self, message: Message) -> None:
        header, columns = message.header, message.columns
        width = header.hash_width
        for i in range(len(columns.hashes) // width):
            self.hashes[header.hash0 + i] = bytes(columns.hashes[i * width : (i + 1) * width])
        row = value = 0
        for op in range(columns.num_operations):
            kind = Kind(int(columns.kind[op]))
            if kind == Kind.TokensGenerated:
                self.output[int(columns.req[op])] = int(columns.a1[op])
            if kind == Kind.CacheCleared:
                for block in self.blocks:
                    block.block_hash = None
            for i in range(int(columns.n[op])):
                val = 0
                if HAS_VALUE[kind]:
                    val = int(columns.val[value])
                    value += 1
                first = int(columns.a0[op])
                self.apply_row(kind, int(columns.req[op]), int(columns.blk[row]), val, first + i)
                row += 1

    def apply_row(self, kind: Kind, req: int, block_id: int, val: int, hash_ordinal: int) -> None:
        block = self.blocks[block_id]
        block.written = True
        if kind == Kind.BlockAllocated:
            block.ref, block.block_hash, block.slots = 1, None, 0
            block.holders.append(req)
        elif kind == Kind.BlockReferenced:
            block.ref = val
            block.holders.append(req)
        elif kind == Kind.BlockDereferenced:
            block.ref = val
            block.holders.remove(req)
        elif kind == Kind.BlockFreed:
            block.ref = 0
            block.holders.remove(req)
        elif kind == Kind.BlockCached:
            block.block_hash, block.slots = self.hashes[hash_ordinal], self.block_size
        elif kind == Kind.BlockEvicted:
            block.block_hash = None
        elif kind == Kind.BlockFilled:
            block.slots = val
        elif kind == Kind.BlockCopied:
            block.slots = self.blocks[val].slots
        assert req != NO_ORDINAL or kind == Kind.BlockFilled
