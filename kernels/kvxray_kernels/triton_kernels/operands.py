"""What the attention kernels are given: one layer of the cache, how scores are bent, and room for partial results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from kvxray_kernels.attention_variant import AttentionVariant
from kvxray_kernels.triton_kernels.precision import dot_dtype, dot_precision
from kvxray_kernels.triton_kernels.tiles import Tiles, padded

NO_WINDOW = 2**31 - 1


@dataclass(frozen=True, slots=True)
class LayerCache:
    """One layer: keys and values [blocks, block_size, kv heads, items], scales [blocks, block_size, kv heads, n]."""

    keys: torch.Tensor
    values: torch.Tensor
    key_scales: torch.Tensor | None = None
    value_scales: torch.Tensor | None = None

    @property
    def num_kv_heads(self) -> int:
        return self.keys.shape[2]

    @property
    def num_scales(self) -> int:
        return 0 if self.key_scales is None else self.key_scales.shape[3]


@dataclass(frozen=True, slots=True)
class Scores:
    """How products of queries and keys become scores."""

    scale: float
    softcap: float | None = None
    window: int | None = None
    sinks: torch.Tensor | None = None  # [heads]

    @classmethod
    def of(cls, variant: AttentionVariant, head_dim: int) -> Scores:
        return cls(variant.scale_for(head_dim), variant.softcap, variant.sliding_window, variant.sinks)


@dataclass(frozen=True, slots=True)
class Partials:
    """Unfinished attention [tokens, heads, slots]: each slot is one part of a context."""

    values: torch.Tensor  # float32 [tokens, heads, slots, head_dim], not divided by the sum
    maxima: torch.Tensor  # float32 [tokens, heads, slots], of base 2 scores
    sums: torch.Tensor  # float32 [tokens, heads, slots]

    @classmethod
    def empty(cls, tokens: int, heads: int, slots: int, head_dim: int, device: torch.device) -> Partials:
        values = torch.empty((tokens, heads, slots, head_dim), dtype=torch.float32, device=device)
        maxima = torch.empty((tokens, heads, slots), dtype=torch.float32, device=device)
        return cls(values, maxima, torch.empty_like(maxima))

    @staticmethod
    def arguments(partials: Partials | None) -> dict[str, Any]:
        if partials is None:
            return {"partial_ptr": None, "maxima_ptr": None, "sums_ptr": None, "slots": 1}
        return {
            "partial_ptr": partials.values,
            "maxima_ptr": partials.maxima,
            "sums_ptr": partials.sums,
            "slots": partials.maxima.shape[2],
        }


def shared_arguments(q: torch.Tensor, cache: LayerCache, scores: Scores, tiles: Tiles) -> dict[str, Any]:
    """The arguments that every attention kernel takes."""
    head_dim, items = q.shape[2], cache.keys.shape[3]
    assert q.stride()[1:] == (head_dim, 1), "heads of a query token lie one after the other"
    return {
        "q_ptr": q,
        "key_ptr": cache.keys,
        "value_ptr": cache.values,
        "key_scale_ptr": cache.key_scales,
        "value_scale_ptr": cache.value_scales,
        "q_stride": q.stride(0),
        "scale": scores.scale,
        "softcap": scores.softcap or 1.0,
        "window": scores.window or NO_WINDOW,
        "HEADS": q.shape[1],
        "KV_HEADS": cache.num_kv_heads,
        "HEAD_DIM": head_dim,
        "BLOCK_SIZE": cache.keys.shape[1],
        "ITEMS": items,
        "PADDED": padded(items),
        "NUM_SCALES": cache.num_scales,
        "HAS_SOFTCAP": scores.softcap is not None,
        "ROWS": tiles.rows,
        "TILE": tiles.tokens,
        "DOT": dot_dtype(q.dtype),
        "PRECISION": dot_precision(q.dtype, head_dim),
    }
