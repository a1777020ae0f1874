"""Calls each launcher on tensors of the CPU that hold nothing: only types and sizes matter to what is launched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from kvxray_kernels.attention_variant import AttentionVariant
from kvxray_kernels.backend import CacheShape
from kvxray_kernels.cache_format import SCALE_DTYPE, CacheFormat
from kvxray_kernels.triton_kernels.cascade import cascade
from kvxray_kernels.triton_kernels.copy_blocks import copy_blocks
from kvxray_kernels.triton_kernels.dequantise import dequantise
from kvxray_kernels.triton_kernels.merge_splits import merge_splits
from kvxray_kernels.triton_kernels.operands import LayerCache, Partials, Scores
from kvxray_kernels.triton_kernels.paged_decode import paged_decode
from kvxray_kernels.triton_kernels.paged_prefill import paged_prefill
from kvxray_kernels.triton_kernels.quantise import quantise
from kvxray_kernels.triton_kernels.store_kv import store_kv

from benchmarks.kernel_builds.variants import Variant

TOKENS: Final = 4
KV_HEADS: Final = 2
SPLITS: Final = 4
WINDOW: Final = 128
SOFTCAP: Final = 30.0
COPIED_HEAD_DIM: Final = 80  # blocks are bytes when they are copied: a size that is no power of two has every mask


def launch(variant: Variant) -> None:
    """Start the kernel of this variant. Outside of `recorded_launches` this wants a GPU."""
    LAUNCHERS[variant.kernel](variant)


def _decode(variant: Variant) -> None:
    q = _queries(variant)
    partials = _partials(variant) if variant.split else None
    paged_decode(
        q,
        torch.empty_like(q),
        _layer(variant),
        _scores(variant),
        _tables(),
        _lengths(),
        splits=SPLITS if variant.split else 1,
        partials=partials,
        suffix_starts=_lengths() if variant.shared else None,
    )


def _prefill(variant: Variant) -> None:
    q = _queries(variant)
    tiles = torch.empty((2, 4), dtype=torch.int32)
    paged_prefill(q, torch.empty_like(q), _layer(variant), _scores(variant), _tables(), tiles)


def _cascade(variant: Variant) -> None:
    """`split`: the prefix in several parts."""
    partials = _partials(variant, slots=1 + (SPLITS if variant.split else 1))
    row_tiles = torch.empty((1, 3), dtype=torch.int32)
    layer, scores = _layer(variant), _scores(variant)
    cascade(_queries(variant), partials, layer, scores, _tables(), _lengths(), _lengths(), row_tiles, first_slot=1)


def _merge(variant: Variant) -> None:
    shared = _lengths() if variant.shared else None
    merge_splits(_partials(variant), _queries(variant), _scores(variant).sinks, SPLITS - variant.shared, shared)


def _store(variant: Variant) -> None:
    rows, layer = _rows(variant, KV_HEADS), _layer(variant)
    slots = torch.empty(TOKENS, dtype=torch.int64)
    scales = (layer.key_scales, layer.value_scales)
    store_kv(rows, rows, layer.keys, layer.values, *scales, slots, variant.cache_format)


def _copy(variant: Variant) -> None:
    shape = CacheShape(1, TOKENS, variant.block_size, KV_HEADS, COPIED_HEAD_DIM)
    cache, scales = _cache(shape, variant.cache_format)
    copy_blocks(cache, cache, scales, scales, [(0, 1)])


def _quantise(variant: Variant) -> None:
    quantise(_rows(variant, KV_HEADS), variant.cache_format)


def _dequantise(variant: Variant) -> None:
    layer = _layer(variant)
    scales = None if layer.key_scales is None else layer.key_scales[0]
    dequantise(layer.keys[0], scales, variant.cache_format, getattr(torch, variant.dtype))


def _layer(variant: Variant) -> LayerCache:
    shape = CacheShape(1, TOKENS, variant.block_size, KV_HEADS, variant.head_dim)
    cache, scales = _cache(shape, variant.cache_format)
    one_layer = None if scales is None else scales[0]
    return LayerCache(cache[0], cache[0], one_layer, one_layer)


def _cache(shape: CacheShape, kind: CacheFormat) -> tuple[torch.Tensor, torch.Tensor | None]:
    cache = torch.empty(shape.of_cache(kind), dtype=kind.storage_dtype)
    return cache, torch.empty(shape.of_scales(kind), dtype=SCALE_DTYPE) if kind.num_scales else None


def _scores(variant: Variant) -> Scores:
    bent = AttentionVariant(
        sliding_window=WINDOW if variant.window else None,
        softcap=SOFTCAP if variant.softcap else None,
        sinks=torch.empty(KV_HEADS * variant.group) if variant.sinks else None,
    )
    return Scores.of(bent, variant.head_dim)


def _partials(variant: Variant, slots: int = SPLITS) -> Partials:
    return Partials.empty(TOKENS, KV_HEADS * variant.group, slots, variant.head_dim, torch.device("cpu"))


def _queries(variant: Variant) -> torch.Tensor:
    return _rows(variant, KV_HEADS * variant.group)


def _rows(variant: Variant, heads: int) -> torch.Tensor:
    return torch.empty((TOKENS, heads, variant.head_dim), dtype=getattr(torch, variant.dtype))


def _tables() -> torch.Tensor:
    return torch.empty((TOKENS, 5), dtype=torch.int32)


def _lengths() -> torch.Tensor:
    return torch.empty(TOKENS, dtype=torch.int32)


LAUNCHERS: Final[dict[str, Callable[[Variant], None]]] = {
    "paged_decode": _decode,
    "paged_prefill": _prefill,
    "cascade": _cascade,
    "merge_splits": _merge,
    "store_kv": _store,
    "copy_blocks": _copy,
    "quantise": _quantise,
    "dequantise": _dequantise,
}
