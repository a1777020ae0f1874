"""How much memory a KV cache takes: plain arithmetic over the shape of a model. Nothing is loaded, nothing measured.

A layer with attention keeps one key and one value for each token and kv head. Grouped queries (GQA) share kv heads, so
they keep less than one for each query head (MHA); latent attention (MLA) keeps one compressed vector instead; a layer
with a sliding window keeps its last `window` tokens only. Quantised to integers, every such vector has a scale in 16
bits, and in int4 a minimum, as in `kvxray_kernels.cache_format`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

DTYPE_BITS: Final = {"fp32": 32, "fp16": 16, "bf16": 16, "fp8": 8, "int8": 8, "int4": 4}
SCALE_BYTES: Final = {"int8": 2, "int4": 4}
"""Beside each vector that is quantised by itself: the key, or the value, of a token in a head."""
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
    def vectors_per_layer(self) -> int:
        """That one token takes in one layer."""
        return 1 if self.latent_dim else 2 * self.kv_heads

    @property
    def vector_dim(self) -> int:
        """Numbers of each."""
        return self.latent_dim or self.head_dim

    def as_mha(self) -> KvShape | None:
        """The same with a kv head for each query head; None when the query heads are not known, or with MLA."""
        return replace(self, kv_heads=self.heads) if self.heads and not self.latent_dim else None


def kv_bytes(shape: KvShape, dtype: str, tokens: int, batch: int = 1) -> int:
    """Bytes of the keys and values of `batch` sequences of `tokens` tokens. `dtype`: a key of DTYPE_BITS."""
    kept = shape.layers * tokens + shape.window_layers * min(tokens, shape.window)
    vector = weight_bytes(shape.vector_dim, dtype) + SCALE_BYTES.get(dtype, 0)
    return batch * kept * shape.vectors_per_layer * vector


def weight_bytes(numbers: int, dtype: str) -> int:
    """Bytes of so many numbers, without scales; the last byte is a whole one."""
    return -(-numbers * DTYPE_BITS[dtype] // 8)


def num_fitting(room: int, shape: KvShape, dtype: str, tokens: int, block_size: int) -> int:
    """How many sequences of `tokens` tokens fit `room` bytes of whole blocks of `block_size` tokens."""
    whole_blocks = -(-tokens // block_size) * block_size
    return max(0, room) // kv_bytes(shape, dtype, whole_blocks)
