"""A made-up block pool as an engine keeps one, for legal streams: who holds what, what is cached, what is free.

Every change is told to the recorder as whole-request operations. Ids 1..num_gpu-1 lie on the GPU, the rest on the CPU.
"""

from __future__ import annotations

from collections import OrderedDict
from random import Random

from kvxray_engine.stream.recorder import Recorder
from kvxray_engine.stream.schema import NO_ORDINAL, Cause, Kind, QueueEnd

BLOCK_SIZE = 16
GPU, CPU = 0, 1


class ModelPool:
    """`cached`: the GPU block that carries a hash. `free`: GPU blocks without references, the next to give out first.

    `hash_of`, `ordinal_of`: of every block, None and NO_ORDINAL without.
    """

    def __init__(self, recorder: Recorder, num_gpu: int, num_cpu: int, random: Random) -> None:
        self.recorder = recorder
        self.random = random
        self.num_gpu = num_gpu
        self.num_blocks = num_gpu + num_cpu
        self.ref = [0] * self.num_blocks
        self.hash_of: list[bytes | None] = [None] * self.num_blocks
        self.ordinal_of = [NO_ORDINAL] * self.num_blocks
        self.free = OrderedDict.fromkeys(range(1, num_gpu))
        self.cached: dict[bytes, int] = {}
        self.next_cpu = num_gpu

    def hits(self, chain: list[bytes]) -> list[int]:
        """The blocks of the longest beginning of the chain that is cached."""
        found = []
        for one in chain:
            block = self.cached.get(one)
            if block is None:
                break
            found.append(block)
        return found

    def reference(self, req: int, blocks: list[int], cause: Cause) -> None:
        for block in blocks:
            if not self.ref[block]:
                del self.free[block]
            self.ref[block] += 1
        self.recorder.values(Kind.BlockReferenced, cause, req, blocks, [self.ref[block] for block in blocks])

    def allocate(self, req: int, count: int) -> list[int]:
        """So many blocks; the caller has seen that they are free."""
        blocks = [self.free.popitem(last=False)[0] for _ in range(count)]
        self.evict([block for block in blocks if self.hash_of[block] is not None], Cause.allocation, req)
        self.recorder.rows(Kind.BlockAllocated, Cause.none, req, blocks)
        for block in blocks:
            self.ref[block] = 1
        return blocks

    def evict(self, blocks: list[int], cause: Cause, req: int = NO_ORDINAL) -> None:
        self.recorder.rows(Kind.BlockEvicted, cause, req, blocks)
        for block in blocks:
            self._forget(block)

    def cache(self, req: int, blocks: list[int], hashes: list[bytes], before: int | None) -> None:
        """Full blocks that follow each other; `before`: the block that comes before them."""
        parent = self.ordinal_of[before] if before is not None else NO_ORDINAL
        first = self.recorder.cached(req, blocks, hashes, -1 if parent == NO_ORDINAL else parent)
        for at, (block, one) in enumerate(zip(blocks, hashes, strict=True)):
            self.hash_of[block], self.ordinal_of[block] = one, first + at
            self.cached.setdefault(one, block)

    def release(self, req: int, blocks: list[int], cause: Cause) -> None:
        """One hold of each; the last of a request's blocks are given out again first."""
        freed, held = [], []
        for block in reversed(blocks):
            self.ref[block] -= 1
            (held if self.ref[block] else freed).append(block)
        plain = [block for block in freed if self.hash_of[block] is None]
        kept = [block for block in freed if self.hash_of[block] is not None]
        self.recorder.values(Kind.BlockDereferenced, cause, req, held, [self.ref[block] for block in held])
        self.recorder.rows(Kind.BlockFreed, cause, req, plain, QueueEnd.front)
        self.recorder.rows(Kind.BlockFreed, cause, req, kept, QueueEnd.tail)
        for block in plain:
            self.free[block] = None
            self.free.move_to_end(block, last=False)
        for block in kept:
            self.free[block] = None

    def copy_on_write(self, req: int, block: int) -> int:
        """A block of its own for a holder that shares this one."""
        [fresh] = self.allocate(req, 1)
        self.recorder.values(Kind.BlockCopied, Cause.fork, req, [fresh], [block])
        self.release(req, [block], Cause.fork)
        return fresh

    def offload(self, blocks: list[int]) -> None:
        """Moves cached blocks that nobody references to the CPU, whose blocks are used in turn."""
        targets = []
        for _ in blocks:
            targets.append(self.next_cpu)
            self.next_cpu = self.next_cpu + 1 if self.next_cpu + 1 < self.num_blocks else self.num_gpu
        self.evict([block for block in targets if self.hash_of[block] is not None], Cause.capacity)
        self.recorder.values(Kind.BlockMoved, Cause.capacity, NO_ORDINAL, targets, blocks)
        for target, block in zip(targets, blocks, strict=True):
            self.hash_of[target], self.ordinal_of[target] = self.hash_of[block], self.ordinal_of[block]
        self.evict(blocks, Cause.capacity)

    def clear_gpu(self) -> None:
        self.recorder.op(Kind.CacheCleared, Cause.explicit, NO_ORDINAL, GPU)
        for block in range(self.num_gpu):
            self._forget(block)

    def _forget(self, block: int) -> None:
        one = self.hash_of[block]
        if one is not None and self.cached.get(one) == block:
            del self.cached[one]
        self.hash_of[block], self.ordinal_of[block] = None, NO_ORDINAL
