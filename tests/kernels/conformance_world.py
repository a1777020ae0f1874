"""The small worlds of the conformance suite: a poisoned cache, sequences whose blocks lie anywhere in it, a variant.

A case is plain words, so that pytest can name it and a covering set can choose it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch
from kvxray_kernels.attention_variant import PLAIN, AttentionVariant
from kvxray_kernels.backend import AttentionBackend, CacheShape
from kvxray_kernels.cache_format import CACHE_FORMATS
from kvxray_kernels.quantisation import movable, quantise
from kvxray_kernels.reference import reference_attention
from kvxray_kernels.reference_quantisation import reference_dequantise
from kvxray_kernels.torch_backend import TorchBackend
from kvxray_kernels.triton_backend import TritonBackend

MakeBackend = Callable[..., AttentionBackend]


def torch_gather(*args) -> AttentionBackend:
    return TorchBackend(*args, cascade=False)


BACKENDS: dict[str, MakeBackend] = {
    "torch_gather": torch_gather,
    "torch_cascade": TorchBackend,
    "triton": TritonBackend,
}

# A cache format, and for a quantised one the dtype of queries and results.
CACHES = ["float32", "float16", "bfloat16", "fp8_e4m3-bfloat16", "fp8_e4m3-float32", "int8-float16", "int8-float32",
          "int4-bfloat16", "int4-float16"]  # fmt: skip

VARIANTS: dict[str, Callable[[int, int], AttentionVariant]] = {
    "plain": lambda heads, head_dim: PLAIN,
    "scale": lambda heads, head_dim: AttentionVariant(scale=1.5 * head_dim**-0.5),
    "narrow_window": lambda heads, head_dim: AttentionVariant(sliding_window=3),
    "wide_window": lambda heads, head_dim: AttentionVariant(sliding_window=45),
    "softcap": lambda heads, head_dim: AttentionVariant(softcap=1.5),
    "sinks": lambda heads, head_dim: AttentionVariant(sinks=torch.linspace(-2, 6, heads)),
    "all": lambda heads, head_dim: AttentionVariant(
        scale=1.5 * head_dim**-0.5, sliding_window=70, softcap=3.0, sinks=torch.linspace(4, -1, heads)
    ),
}


@dataclass(frozen=True)
class Batch:
    """Sequences of one step, decode first. The first blocks of some are those of an earlier one."""

    query_lens: list[int]
    context_lens: list[int]
    shared: tuple[tuple[int, int, int], ...] = ()  # (sequence, whose blocks it begins with, how many)


def ragged(bs: int) -> Batch:
    """Context lengths around the borders of blocks, and a single token."""
    return Batch([1] * 6, [1, bs - 1, bs, bs + 1, 83, 2 * bs + 1])


def split(bs: int) -> Batch:
    """Few and long enough to be cut into splits, of which the short sequence leaves some empty."""
    return Batch([1, 1], [3, 270])


def shared(bs: int) -> Batch:
    """Two groups and a loner. One sequence ends with its shared prefix: what is left of it is empty."""
    first = [(1, 0, 5), (2, 0, 5), (4, 0, 5)]
    return Batch([1] * 7, [5 * bs + 2, 5 * bs, 5 * bs + 1, 4 * bs + 9, 6 * bs + 3, 20, 4 * bs], (*first, (6, 3, 4)))


def chunks(bs: int) -> Batch:
    """Prefill: a chunk over a paged prefix, whole prompts, a chunk that begins and ends with blocks, one token."""
    few = min(bs, 32)  # the reference takes its time for each
    return Batch([17, few + 1, 9, 1, few], [bs + 37, few + 1, 9, 14, bs + few])


def mixed(bs: int) -> Batch:
    """Decode with a shared prefix beside prefill over the same blocks."""
    return Batch([1, 1, 1, 20], [4 * bs + 5, 4 * bs + 1, 7, 4 * bs + 30], ((1, 0, 4), (3, 0, 4)))


BATCHES = {batch.__name__: batch for batch in (ragged, split, shared, chunks, mixed)}


@dataclass(frozen=True)
class Case:
    cache: str
    head_dim: int
    block_size: int
    group: int  # query heads of one kv head
    variant: str
    batch: str

    def __str__(self) -> str:
        return "-".join(str(getattr(self, field.name)) for field in fields(self))

    @property
    def kv_heads(self) -> int:
        return 2 if self.group <= 3 else 1

    @property
    def dtype(self) -> torch.dtype:
        """Of queries and results."""
        return getattr(torch, self.cache.rpartition("-")[2])


def poison(backend: AttentionBackend) -> None:
    """What nobody wrote: NaN where the format has it, any bytes where it has none, and then NaN scales."""
    random = torch.Generator().manual_seed(99)
    for cache in (backend.key_cache, backend.value_cache):
        if cache.dtype.is_floating_point and cache.itemsize > 1:
            cache.fill_(torch.nan)
        elif cache.dtype.is_floating_point:
            cache.view(torch.uint8).fill_(0x7F)  # NaN of fp8 e4m3
        else:
            cache.view(torch.uint8).random_(0, 256, generator=random)
    for scales in (backend.key_scales, backend.value_scales):
        if scales is not None:
            scales.fill_(torch.nan)


class World:
    """One layer of a poisoned cache that holds the sequences of a batch."""

    def __init__(self, make: MakeBackend, batch: Batch, *, cache="float32", block_size=16, kv_heads=2, head_dim=16):
        self.random = torch.Generator().manual_seed(0)
        self.context_lens = list(batch.context_lens)
        needed = [math.ceil(n / block_size) for n in batch.context_lens]
        shape = CacheShape(2, sum(needed) + 4, block_size, kv_heads, head_dim)
        name, _, dtype = cache.partition("-")
        self.backend = make(shape, CACHE_FORMATS[name], getattr(torch, dtype or name))
        poison(self.backend)
        free = (torch.randperm(shape.num_blocks - 1, generator=self.random) + 1).tolist()  # never the null block
        self.tables = [[free.pop() for _ in range(n)] for n in needed]
        for sequence, owner, blocks in batch.shared:
            self.tables[sequence][:blocks] = self.tables[owner][:blocks]
        for table, context_len in zip(self.tables, batch.context_lens, strict=True):
            self.write(table, self.rows(context_len, kv_heads), self.rows(context_len, kv_heads))

    def write(self, table: list[int], k: torch.Tensor, v: torch.Tensor) -> None:
        """Not by the backend: a program for each token takes the interpreter too long, and has tests of its own."""
        backend, at = self.backend, torch.arange(len(k))
        blocks, offsets = torch.tensor(table)[at // backend.shape.block_size], at % backend.shape.block_size
        for rows, cache, scales in (
            (k, backend.key_cache, backend.key_scales),
            (v, backend.value_cache, backend.value_scales),
        ):
            stored, stored_scales = quantise(rows, backend.cache_format)
            movable(cache)[1, blocks, offsets] = movable(stored)
            if scales is not None:
                scales[1, blocks, offsets] = stored_scales

    def rows(self, tokens: int, heads: int) -> torch.Tensor:
        shape = (tokens, heads, self.backend.shape.head_dim)
        return torch.randn(shape, generator=self.random).to(self.backend.dtype)

    def numbers(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of the layer, float64, whatever the format."""
        backend = self.backend
        key_scales = None if backend.key_scales is None else backend.key_scales[1]
        value_scales = None if backend.value_scales is None else backend.value_scales[1]
        return (
            reference_dequantise(backend.key_cache[1], key_scales, backend.cache_format),
            reference_dequantise(backend.value_cache[1], value_scales, backend.cache_format),
        )

    def attend(
        self, query_lens: Sequence[int], heads: int, variant: AttentionVariant = PLAIN
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What the backend says and what the reference says."""
        metadata = self.backend.build_metadata(query_lens, self.context_lens, self.tables)
        q = self.rows(sum(query_lens), heads)
        got = self.backend.attend(1, q, metadata, variant)
        expected = reference_attention(q, *self.numbers(), query_lens, self.context_lens, self.tables, variant)
        assert got.shape == q.shape
        assert got.dtype == q.dtype
        assert bool(expected.isfinite().all()), "the reference itself read memory that nobody wrote"
        self.backend.check_integrity()
        return got, expected


def attend_case(make: MakeBackend, case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    batch = BATCHES[case.batch](case.block_size)
    world = World(
        make, batch, cache=case.cache, block_size=case.block_size, kv_heads=case.kv_heads, head_dim=case.head_dim
    )
    heads = case.kv_heads * case.group
    return world.attend(batch.query_lens, heads, VARIANTS[case.variant](heads, case.head_dim))


# What a backend may be off by, as (absolute, relative to the result):
# float32: a mean of values of size 1 over at most 800 tokens, summed in float32. Rounding is 2**-24 a step; its
#   independent errors over 800 steps add up to 800**0.5 * 2**-24, about 2e-6. Seen: 1.3e-6.
# float16, bfloat16: queries and cache are the same rounded numbers on both sides. The absolute part is the rounding of
#   weights (and in torch of dequantised keys and values) to 11 or 8 bits; they are means of size 1, and the errors of
#   many tokens are independent. The relative part is the result's own rounding: half of its last bit, and in Triton's
#   interpreter a whole one, because it truncates to bfloat16.
TOLERANCES = {
    torch.float32: (5e-6, 0.0),
    torch.float16: (2e-3, 2**-10),
    torch.bfloat16: (1.5e-2, 2**-7),
}


def assert_close(got: torch.Tensor, expected: torch.Tensor) -> None:
    absolute, relative = TOLERANCES[got.dtype]
    off = (got.double() - expected).abs().nan_to_num(math.inf)
    allowed = absolute + relative * expected.abs()
    worst = (off / allowed).max().item()
    assert worst <= 1, f"off by {worst:.3g} times what is allowed, by {off.max().item():.3g} at most"
