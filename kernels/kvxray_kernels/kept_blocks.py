"""Copies of the blocks that step after step reads together, side by side: made once, and then only where they changed.

Sequences that share a prefix decode over the same blocks for hundreds of steps. All of those blocks but the last of
each sequence stay as they are, and copying them again took a sixth of a step. A copy is that of a block and of how many
of its tokens are seen: the others are zeros in it. It is made anew when another block is wanted in its place, and
mended where tokens come to be seen, cease to be or were written since; whoever writes to a cache says so (`wrote`).

What is read together is a region, in which the tokens of one kv head lie side by side: the cache itself has those of
one token side by side, and products over all sequences at once would have to copy that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import torch

MAX_KEPT_BYTES: Final = 256 << 20
"""Of keys and values in all layers; what is more is gathered in every step. SmolLM2's 2,048 tokens take 94 MB."""

KeptBlock = tuple[int, int]
"""A block and how many of its tokens are seen."""

KeptRegion = tuple[KeptBlock, ...]
"""Blocks that are read together, in order."""


@dataclass(frozen=True, slots=True)
class _Copying:
    """What has to be copied for one step, worked out in its first layer: the others mostly need the same."""

    held: tuple[KeptRegion, ...]
    wanted: tuple[KeptRegion, ...]
    written: frozenset[int]
    slots: torch.Tensor  # int64
    rows: torch.Tensor  # int64: where the kv heads of these go, slot by slot
    unseen: torch.Tensor  # int64: rows that become zeros


class KeptBlocks:
    """Copies in every layer, each with its own memory of what they are of. It takes no room until it is used."""

    def __init__(
        self,
        num_layers: int,
        max_blocks: int,
        block_shape: tuple[int, int, int],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """`block_shape`: tokens, kv heads, head_dim."""
        self._max_blocks = max_blocks
        self._num_layers = num_layers
        self._block_shape = block_shape
        self._dtype = dtype
        self._device = device
        self._held: list[tuple[KeptRegion, ...]] = []  # of each layer
        self._written: list[set[int]] = []  # slots, since the layer was brought up to date
        self._last: _Copying | None = None
        self._allocate(0)

    @property
    def num_bytes(self) -> int:
        return self._keys.nbytes + self._values.nbytes

    def release(self) -> None:
        """Give the memory back until it is used again."""
        if self.num_bytes:
            self._allocate(0)

    def wrote(self, layer: int, slots: Iterable[int]) -> None:
        """Copies of these are out of date."""
        if self._held[layer]:
            self._written[layer].update(slots)

    def bring_up_to_date(
        self, layer: int, wanted: tuple[KeptRegion, ...], key_cache: torch.Tensor, value_cache: torch.Tensor
    ) -> None:
        """Hold what is wanted of these caches of the layer, in its order."""
        num_blocks = sum(map(len, wanted))
        assert num_blocks <= self._max_blocks, "no more is asked for than may be kept"
        if num_blocks > self._num_places:
            self._allocate(min(num_blocks + num_blocks // 8, self._max_blocks))  # suffixes grow
        copying = self._copying(self._held[layer], wanted, self._written[layer])
        self._held[layer] = ()  # until it is done
        for kept, cache in ((self._keys[layer], key_cache), (self._values[layer], value_cache)):
            if copying.slots.numel():
                kept.index_copy_(0, copying.rows, cache.flatten(0, 1).index_select(0, copying.slots).flatten(0, 1))
            if copying.unseen.numel():
                kept.index_fill_(0, copying.unseen, 0.0)
        self._held[layer] = wanted
        self._written[layer].clear()

    def read(self, layer: int, first: int, num_blocks: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of the region that begins there, each [num_kv_heads, tokens, head_dim] and contiguous; not
        to be written to.
        """
        size, num_kv_heads, head_dim = self._block_shape
        rows = slice(first * size * num_kv_heads, (first + num_blocks) * size * num_kv_heads)
        shape = (num_kv_heads, num_blocks * size, head_dim)
        return self._keys[layer, rows].view(shape), self._values[layer, rows].view(shape)

    def _copying(self, held: tuple[KeptRegion, ...], wanted: tuple[KeptRegion, ...], written: set[int]) -> _Copying:
        last = self._last
        if last is not None and last.held is held and last.wanted is wanted and last.written == written:
            return last
        written_blocks = {slot // self._block_shape[0] for slot in written}
        slots: list[int] = []
        rows: list[int] = []
        unseen: list[int] = []
        first, unmoved = 0, True
        for i, region in enumerate(wanted):
            # Where one is not as long as it was, it and all that come after it lie otherwise.
            unmoved = unmoved and i < len(held) and len(held[i]) == len(region)
            old = held[i] if unmoved else (None,) * len(region)
            for place, (was, new) in enumerate(zip(old, region, strict=True)):
                if was == new and new[0] not in written_blocks:
                    continue
                changed, zeros = self._changes(was, new, written)
                slots += [new[0] * self._block_shape[0] + token for token in changed]
                rows += self._rows(first, len(region), place, changed)
                unseen += self._rows(first, len(region), place, zeros)
            first += len(region)
        self._last = _Copying(
            held, wanted, frozenset(written), self._int64(slots), self._int64(rows), self._int64(unseen)
        )
        return self._last

    def _changes(self, was: KeptBlock | None, new: KeptBlock, written: set[int]) -> tuple[Sequence[int], Sequence[int]]:
        """Tokens of a block that are to be copied to its place, and those that become zeros there."""
        size, (block, seen) = self._block_shape[0], new
        known, zeros_from = (was[1], was[1]) if was is not None and was[0] == block else (0, size)
        changed = [token for token in range(seen) if token >= known or block * size + token in written]
        return changed, range(seen, zeros_from)

    def _rows(self, first: int, num_blocks: int, place: int, tokens: Sequence[int]) -> list[int]:
        """Of all kv heads of these tokens of the block at a place of the region that begins at `first`."""
        size, num_kv_heads, _ = self._block_shape
        begin = first * size * num_kv_heads + place * size
        return [begin + head * num_blocks * size + token for token in tokens for head in range(num_kv_heads)]

    def _int64(self, numbers: list[int]) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.int64, device=self._device)

    def _allocate(self, num_blocks: int) -> None:
        size, num_kv_heads, head_dim = self._block_shape
        shape = (self._num_layers, num_blocks * size * num_kv_heads, head_dim)
        with torch.inference_mode(False):  # they outlive the caller's mode
            self._keys = self._values = torch.empty(0)  # the old ones go before the new ones come
            self._keys = torch.empty(shape, dtype=self._dtype, device=self._device)
            self._values = torch.empty_like(self._keys)
        self._num_places = num_blocks
        self._held = [()] * self._num_layers
        self._written = [set() for _ in range(self._num_layers)]
        self._last = None
