"""How much memory a KV cache takes: plain arithmetic over the shape of a model. Nothing is loaded, nothing measured.

A layer with attention keeps one key and one value for each token and kv head. Grouped queries (GQA) share kv heads, so
they keep less than one for each query head (MHA); latent attention (MLA) keeps one compressed vector instead; a layer
with a sliding window keeps its last `window` tokens only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

DTYPE_BYTES: Final = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}
GB: Final = 10**9
GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class KvShape:
    """What of a model's shape decides the size of its KV cache.

    `layers`: that keep keys and values of all tokens. `window_layers`: that keep those of the last `window` tokens.
    `heads`: query heads, None = not known. `latent_dim`: numbers that a token takes in a layer with MLA, 0 = no MLA.
    """

    layers: int
    kv_heads: int
    head_dim: int
    heads: int | None = None
    window_layers: int = 0
    window: int = 0
    latent_dim: int = 0

    @property
    def numbers_per_layer(self) -> int:
        """That one token takes in one layer."""
        return self.latent_dim or 2 * self.kv_heads * self.head_dim

    def as_mha(self) -> KvShape | None:
        """The same with a kv head for each query head; None when the query heads are not known, or with MLA."""
        return replace(self, kv_heads=self.heads) if self.heads and not self.latent_dim else None


def kv_bytes(shape: KvShape, dtype: str, tokens: int, batch: int = 1) -> int:
    """Bytes of the keys and values of `batch` sequences of `tokens` tokens. `dtype`: a key of DTYPE_BYTES."""
    kept = shape.layers * tokens + shape.window_layers * min(tokens, shape.window)
    return batch * kept * shape.numbers_per_layer * DTYPE_BYTES[dtype]


def num_fitting(room: int, shape: KvShape, dtype: str, tokens: int, block_size: int) -> int:
    """How many sequences of `tokens` tokens fit `room` bytes of whole blocks of `block_size` tokens."""
    whole_blocks = -(-tokens // block_size) * block_size
    return max(0, room) // kv_bytes(shape, dtype, whole_blocks)
