"""Prefixes that many sequences share for many steps, packed: keys and values as the matrices that oneDNN multiplies
fastest.

Behind a long prefix all query rows of a kv head make one product large enough to be worth it: 20 agents behind 2,048
tokens (60 rows a kv head, head_dim 64) take 18.8 ms a step for it, torch's fused kernel 23.3; with head_dim 128, 8 kv
heads or 8,192 tokens it is 0.6 of that (two cores of a Zen 5). Below `MIN_PRODUCTS` the fused kernel is faster. Packing
takes about as long as two steps gain in ten, so a prefix has to have stayed for `PATIENCE` of them.

What is packed is of whole blocks that every query sees. It is let go when one of them is written to, when it is not
used for long, and when others need the room.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import torch

from kvxray_kernels.attention_variant import AttentionVariant
from kvxray_kernels.packed_product import PackedMatrix, can_pack

MAX_PACKED_BYTES: Final = 256 << 20
"""Of keys and values in all layers. SmolLM2's 2,048 tokens take 94 MB."""
MIN_PRODUCTS: Final = 3 << 20
"""Products of numbers for one kv head, rows times tokens times head_dim."""
PATIENCE: Final = 8
IDLE_STEPS: Final = 256

Partial = tuple[torch.Tensor, torch.Tensor]
"""A result [kv heads, rows, head_dim] and its log-sum-exp [kv heads, rows]."""


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """One matrix a kv head: keys [tokens, head_dim], scaled as scores are, and values [head_dim, tokens]."""

    scale: float
    keys: tuple[PackedMatrix, ...]
    values: tuple[PackedMatrix, ...]

    @classmethod
    def of(cls, keys: torch.Tensor, values: torch.Tensor, scale: float, rows: int) -> _Layer:
        return cls(
            scale,
            tuple(PackedMatrix((head * scale).contiguous(), rows) for head in keys),
            tuple(PackedMatrix(head.t().contiguous(), rows) for head in values),
        )

    def attend(self, q: torch.Tensor) -> Partial:
        out, lse = torch.empty_like(q), q.new_empty((*q.shape[:2], 1))
        # Head by head: its scores stay in the processor's cache.
        for head, (keys, values) in enumerate(zip(self.keys, self.values, strict=True)):
            scores = keys(q[head])
            largest = scores.amax(dim=-1, keepdim=True)
            total = scores.sub_(largest).exp_().sum(dim=-1, keepdim=True)
            torch.div(values(scores), total, out=out[head])
            torch.add(largest, total.log_(), out=lse[head])
        return out, lse.squeeze(-1)


class _Prefix:
    """`waited`: how often each layer was attended over without being packed."""

    def __init__(self, blocks: tuple[int, ...], num_layers: int, step: int) -> None:
        self.blocks = frozenset(blocks)
        self.layers: list[_Layer | None] = [None] * num_layers
        self.waited = [0] * num_layers
        self.used_at = step

    def forget(self, layer: int) -> None:
        self.layers[layer], self.waited[layer] = None, 0


class PackedPrefixes:
    """By the blocks of a prefix, in order; `bytes_per_block`: of keys and values in all layers."""

    def __init__(self, num_layers: int, block_size: int, bytes_per_block: int, *, possible: bool) -> None:
        self._num_layers = num_layers
        self._block_size = block_size
        self._max_blocks = MAX_PACKED_BYTES // bytes_per_block if possible and can_pack() else 0
        self._prefixes: dict[tuple[int, ...], _Prefix] = {}
        self._step = 0

    @property
    def num_packed(self) -> int:
        """Layers of prefixes."""
        return sum(layer is not None for prefix in self._prefixes.values() for layer in prefix.layers)

    def begin_step(self) -> None:
        self._step += 1
        for blocks in [key for key, one in self._prefixes.items() if self._step - one.used_at > IDLE_STEPS]:
            del self._prefixes[blocks]

    def wrote(self, layer: int, slots: Iterable[int]) -> None:
        """What was packed of these is out of date."""
        if not self._prefixes:
            return
        blocks = {slot // self._block_size for slot in slots}
        for prefix in self._prefixes.values():
            if not prefix.blocks.isdisjoint(blocks):
                prefix.forget(layer)

    def of(self, layer: int, num_kv_heads: int) -> LayerPrefixes:
        """What a layer of the model sees of it."""
        return LayerPrefixes(self, layer, num_kv_heads)

    def find(self, blocks: tuple[int, ...], layer: int) -> _Layer | None:
        """What is packed of a prefix."""
        prefix = self._prefixes.get(blocks)
        if prefix is None:
            return None
        prefix.used_at = self._step
        return prefix.layers[layer]

    def is_worth_it(self, blocks: tuple[int, ...], layer: int) -> bool:
        """Whether it was attended over often enough as it lies there, this time included."""
        if len(blocks) > self._max_blocks:
            return False
        prefix = self._prefixes.get(blocks) or self._make_room_for(blocks)
        prefix.waited[layer] += 1
        return prefix.waited[layer] >= PATIENCE

    def keep(self, blocks: tuple[int, ...], layer: int, packed: _Layer) -> None:
        self._prefixes[blocks].layers[layer] = packed

    def _make_room_for(self, blocks: tuple[int, ...]) -> _Prefix:
        """The ones that were not used for longest go."""
        while self._prefixes and sum(map(len, self._prefixes)) + len(blocks) > self._max_blocks:
            del self._prefixes[min(self._prefixes, key=lambda key: self._prefixes[key].used_at)]
        self._prefixes[blocks] = _Prefix(blocks, self._num_layers, self._step)
        return self._prefixes[blocks]


@dataclass(frozen=True, slots=True)
class LayerPrefixes:
    """The packed prefixes of one layer. Rows q are [kv heads, rows, head_dim]."""

    _prefixes: PackedPrefixes
    _layer: int
    num_kv_heads: int

    def attend(self, blocks: tuple[int, ...], q: torch.Tensor, variant: AttentionVariant) -> Partial | None:
        """Over a prefix; None: it is not packed, or not all of it is seen as it is."""
        if not _is_plain(variant):
            return None
        packed = self._prefixes.find(blocks, self._layer)
        return packed.attend(q) if packed is not None and packed.scale == variant.scale_for(q.shape[2]) else None

    def note(
        self,
        blocks: tuple[int, ...],
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        variant: AttentionVariant,
    ) -> None:
        """The prefix was attended over as it lies in keys and values [kv heads, tokens, head_dim]; packs it when that
        has happened often enough.
        """
        if not _is_plain(variant) or q.shape[1] * q.shape[2] * keys.shape[1] < MIN_PRODUCTS:
            return
        if self._prefixes.is_worth_it(blocks, self._layer):
            with torch.inference_mode(False), torch.no_grad():  # it outlives the caller's mode
                packed = _Layer.of(keys, values, variant.scale_for(q.shape[2]), q.shape[1])
            self._prefixes.keep(blocks, self._layer, packed)


def _is_plain(variant: AttentionVariant) -> bool:
    """Sinks come in when the parts are merged."""
    return variant.sliding_window is None and variant.softcap is None
