"""Small steps with everything that tends to go wrong: ragged lengths, splits, chunks over a prefix, shared blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from kvxray_kernels.attention_variant import PLAIN, AttentionVariant


@dataclass(frozen=True, slots=True)
class Model:
    """The sizes that attention knows of a model."""

    head_dim: int
    num_kv_heads: int
    group: int  # query heads of a kv head
    block_size: int = 16

    @property
    def num_heads(self) -> int:
        return self.num_kv_heads * self.group

    def __str__(self) -> str:
        return f"head_dim {self.head_dim}, group {self.group}, block_size {self.block_size}"


@dataclass(frozen=True, slots=True)
class Step:
    """Sequences of one step; decode sequences first."""

    name: str
    query_lens: tuple[int, ...]
    context_lens: tuple[int, ...]
    shared_blocks: int = 0  # with which all of them begin

    def block_tables(self, block_size: int) -> list[list[int]]:
        """Every sequence's blocks, handed out from the last to the first: tables in order would hide wrong strides."""
        blocks = [-(-length // block_size) for length in self.context_lens]
        assert all(self.shared_blocks <= n for n in blocks), "a sequence has the blocks that it shares"
        unused = list(range(1, self.num_blocks(block_size)))
        shared = [unused.pop() for _ in range(self.shared_blocks)]
        return [shared + [unused.pop() for _ in range(n - self.shared_blocks)] for n in blocks]

    def num_blocks(self, block_size: int) -> int:
        """Of a pool that just holds them, the null block included."""
        blocks = [-(-length // block_size) - self.shared_blocks for length in self.context_lens]
        return 1 + self.shared_blocks + sum(blocks)


STEPS: Final = (
    Step("decode, ragged", (1, 1, 1, 1), (1, 17, 300, 1000)),
    Step("decode, split", (1,), (4097,)),
    Step("cascade", (1, 1, 1, 1, 1), (130, 131, 200, 145, 513), shared_blocks=8),
    Step("prefill", (5, 64, 130), (5, 100, 400)),
    Step("decode and prefill", (1, 1, 33), (40, 600, 70)),
)
TINY_STEPS: Final = (  # for the interpreter
    Step("decode, ragged", (1, 1), (1, 37)),
    Step("cascade", (1, 1), (66, 67), shared_blocks=4),
    Step("decode and prefill", (1, 5), (20, 21)),
)
MODELS: Final = (Model(128, 2, 4), Model(64, 3, 3), Model(80, 1, 5, 8), Model(256, 1, 8, 32))
TINY_MODELS: Final = (Model(16, 1, 3),)


def variants(num_heads: int, device: torch.device) -> dict[str, AttentionVariant]:
    sinks = torch.linspace(-1.0, 2.0, num_heads, device=device)
    return {"plain": PLAIN, "window, softcap, sinks": AttentionVariant(sliding_window=50, softcap=10.0, sinks=sinks)}
