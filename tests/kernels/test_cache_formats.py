"""Quantised cache formats in torch: the bytes of the plain reference, for every number and in every place.

All comparisons are of bytes: the rules say which number is stored, so there is nothing to tolerate. Only attention
over a cache has a tolerance: its softmax and its sums are float32, see conformance_world.py.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kvxray_kernels.backend import CacheShape
from kvxray_kernels.cache_format import CACHE_FORMATS, FLOAT16, FP8_E4M3, INT4, INT8, CacheFormat
from kvxray_kernels.quantisation import CHUNK_VALUES, BlockReader, movable, quantise
from kvxray_kernels.reference import reference_attention, reference_copy, reference_write
from kvxray_kernels.reference_quantisation import reference_dequantise, reference_quantise
from kvxray_kernels.torch_backend import TorchBackend

from tests.kernels.cache_rows import (
    DTYPES,
    around_fp8_numbers,
    hard_rows,
    random_items,
    random_scales,
    same_bytes,
)

FORMATS = list(CACHE_FORMATS.values())
QUANTISED = [FP8_E4M3, INT8, INT4]
in_every_format = pytest.mark.parametrize("cache_format", FORMATS, ids=lambda f: f.name)
in_quantised_formats = pytest.mark.parametrize("cache_format", QUANTISED, ids=lambda f: f.name)
in_every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def stores_what_the_reference_stores(rows: torch.Tensor, cache_format: CacheFormat) -> bool:
    items, scales = quantise(rows, cache_format)
    expected_items, expected_scales = reference_quantise(rows, cache_format)
    return same_bytes(items, expected_items) and same_bytes(scales, expected_scales)


@in_quantised_formats
@in_every_dtype
@pytest.mark.parametrize("head_dim", [16, 80])
def test_hard_rows_are_stored_as_the_rules_say(cache_format, dtype, head_dim):
    for row in hard_rows(head_dim, dtype):
        assert stores_what_the_reference_stores(row, cache_format), row[0, :10]


def test_fp8_ties_go_to_even_and_their_neighbours_to_the_nearest():
    assert stores_what_the_reference_stores(around_fp8_numbers()[:, None], FP8_E4M3)


@in_quantised_formats
@settings(max_examples=150, deadline=None)
@given(numbers=st.lists(st.floats(width=32), min_size=6, max_size=6))
def test_any_float32_row_is_stored_as_the_rules_say(cache_format, numbers):
    assert stores_what_the_reference_stores(torch.tensor([numbers], dtype=torch.float32), cache_format)


@in_quantised_formats
@settings(max_examples=150, deadline=None)
@given(
    halves=st.lists(st.integers(-40, 40), min_size=6, max_size=6),
    step=st.floats(2.0**-12, 2.0**12, width=16),
    offset=st.integers(-100, 100),
)
def test_rows_of_whole_and_half_steps_are_stored_as_the_rules_say(cache_format, halves, step, offset):
    rows = torch.tensor([[(half + offset) * step / 2 for half in halves]], dtype=torch.float32)
    assert stores_what_the_reference_stores(rows, cache_format)


@pytest.mark.parametrize(("cache_format", "steps"), [(INT8, 0.5 + 127 / 2048), (INT4, 0.5 + 15 / 2048)])
def test_an_ordinary_number_comes_back_within_half_a_step(cache_format, steps):
    """Half a step of rounding; the largest numbers also lose what rounding the scale to float16 moved them."""
    rows = torch.randn(64, 1, 64, generator=torch.Generator().manual_seed(3))
    items, scales = quantise(rows, cache_format)
    assert scales is not None
    error = (reference_dequantise(items, scales, cache_format) - rows).abs()
    rounded_minimum = 2.0**-11 * scales[..., 1:].abs().amax(-1, keepdim=True) if cache_format == INT4 else 0
    assert bool((error <= steps * scales[..., :1] + rounded_minimum).all())


def test_a_number_that_is_not_finite_spoils_its_own_row_only():
    clean = torch.randn(3, 1, 16, generator=torch.Generator().manual_seed(4))
    spoilt = clean.clone()
    spoilt[1, 0, 5] = torch.nan
    for cache_format in QUANTISED:
        read = reference_dequantise(*quantise(spoilt, cache_format), cache_format)
        expected = reference_dequantise(*quantise(clean, cache_format), cache_format)
        assert bool(read[1].isnan().any())
        assert torch.equal(read[[0, 2]], expected[[0, 2]])


@in_quantised_formats
@in_every_dtype
@pytest.mark.parametrize(("block_size", "kv_heads", "head_dim"), [(8, 1, 16), (16, 3, 64), (128, 2, 80)])
def test_gathered_blocks_read_back_exactly(cache_format, dtype, block_size, kv_heads, head_dim):
    num_blocks = 3 * CHUNK_VALUES // (block_size * kv_heads * head_dim) + 2
    shape = CacheShape(1, min(num_blocks, 40), block_size, kv_heads, head_dim)
    cache = random_items(cache_format, shape.of_cache(cache_format)[1:])
    scales = random_scales(cache_format, shape.of_cache(cache_format)[1:-1])
    blocks = torch.randint(0, shape.num_blocks, (num_blocks,), generator=torch.Generator().manual_seed(2))
    out = torch.full((num_blocks, block_size, kv_heads, head_dim), 7.0, dtype=dtype)
    BlockReader(shape, cache_format, torch.device("cpu")).gather(cache, scales, blocks, out)
    expected = reference_dequantise(cache, scales, cache_format).float().to(dtype)[blocks]
    assert torch.equal(out.isnan(), expected.isnan())
    assert torch.equal(out.nan_to_num(), expected.nan_to_num())


def test_every_fp8_code_reads_back_as_its_number_or_as_nan():
    shape = CacheShape(1, 2, 8, 1, 16)
    cache = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).view(shape.of_cache(FP8_E4M3)[1:])
    out = torch.empty(2, 8, 1, 16)
    BlockReader(shape, FP8_E4M3, torch.device("cpu")).gather(cache, None, torch.tensor([0, 1]), out)
    assert torch.equal(out.isnan().view(-1).nonzero()[:, 0], torch.tensor([0x7F, 0xFF]))
    assert torch.equal(out.double().nan_to_num(), reference_dequantise(cache, None, FP8_E4M3).nan_to_num())


@pytest.mark.parametrize(
    ("cache_format", "head_dim", "most"),
    [(FP8_E4M3, 64, 0.51), (FP8_E4M3, 128, 0.51), (INT8, 64, 0.52), (INT4, 64, 0.29), (INT4, 128, 0.27)],
    ids=lambda x: getattr(x, "name", str(x)),
)
def test_a_block_takes_its_share_of_float16_with_scales_counted(cache_format, head_dim, most):
    shape = CacheShape(num_layers=2, num_blocks=5, block_size=16, num_kv_heads=3, head_dim=head_dim)
    assert shape.bytes_per_block(cache_format) <= most * shape.bytes_per_block(FLOAT16)
    backend = TorchBackend(shape, cache_format, torch.float32)
    kept = [backend.key_cache, backend.value_cache, backend.key_scales, backend.value_scales]
    assert sum(t.nbytes for t in kept if t is not None) == 5 * shape.bytes_per_block(cache_format)


class Filled:
    """A backend of any format whose memory holds what nobody may read: NaN wherever the format knows it."""

    def __init__(self, cache_format: CacheFormat, dtype: torch.dtype = torch.float32, *, num_blocks=9, block_size=8):
        dtype = dtype if cache_format.is_quantised else cache_format.storage_dtype
        shape = CacheShape(2, num_blocks, block_size, num_kv_heads=2, head_dim=16)
        self.backend = TorchBackend(shape, cache_format, dtype)
        self.random = torch.Generator().manual_seed(5)
        for cache in (self.backend.key_cache, self.backend.value_cache):
            cache.view(torch.uint8).fill_(0xFF)
        for scales in (self.backend.key_scales, self.backend.value_scales):
            if scales is not None:
                scales.fill_(torch.nan)

    def kept(self) -> dict[str, torch.Tensor]:
        """Copies of the backend's tensors, fp8 as bytes."""
        names = ("key_cache", "value_cache", "key_scales", "value_scales")
        found = {name: getattr(self.backend, name) for name in names}
        return {name: movable(tensor).clone() for name, tensor in found.items() if tensor is not None}

    def keys_and_values(self, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Slices of one tensor, as a model has them: neither is contiguous."""
        qkv = torch.randn(tokens, 7 * 16, generator=self.random).to(self.backend.dtype)
        return qkv[:, 48:80].view(tokens, 2, 16), qkv[:, 80:].view(tokens, 2, 16)


@in_every_format
@in_every_dtype
def test_writing_stores_each_row_in_its_slot_and_touches_no_other(cache_format, dtype):
    filled = Filled(cache_format, dtype)
    k, v = filled.keys_and_values(5)
    slots = [9, -1, 71, 8, 20]
    expected = filled.kept()
    for rows, name in ((k, "key"), (v, "value")):
        items, scales = reference_quantise(rows, cache_format)
        for kind, stored in (("cache", items), ("scales", scales)):
            if stored is not None:
                layer = expected[f"{name}_{kind}"][1]
                layer.copy_(reference_write(layer, movable(stored), slots))
    filled.backend.write_kv(1, k, v, torch.tensor(slots))
    assert all(same_bytes(tensor, expected[name]) for name, tensor in filled.kept().items())
    filled.backend.check_integrity()


@in_every_format
@pytest.mark.parametrize("pairs", [[], [(1, 2)], [(1, 2), (2, 1)], [(3, 4), (4, 5), (5, 3), (0, 6)], [(1, 7), (2, 7)]])
def test_copied_blocks_take_their_scales_with_them(cache_format, pairs):
    filled = Filled(cache_format)
    for layer in range(2):
        filled.backend.write_kv(layer, *filled.keys_and_values(72), torch.arange(72))
    expected = {name: reference_copy(tensor, pairs) for name, tensor in filled.kept().items()}
    filled.backend.copy_blocks(pairs)
    assert all(same_bytes(tensor, expected[name]) for name, tensor in filled.kept().items())


@in_every_format
def test_attention_reads_what_was_stored_and_nothing_else(cache_format):
    filled = Filled(cache_format, num_blocks=16)
    context_lens, query_lens, tables = [3, 17, 30, 11], [1, 1, 1, 4], [[5], [2, 9, 4], [1, 14, 7, 3], [8, 12]]
    for context_len, table in zip(context_lens, tables, strict=True):
        slots = torch.tensor([table[p // 8] * 8 + p % 8 for p in range(context_len)])
        filled.backend.write_kv(0, *filled.keys_and_values(context_len), slots)
    q = torch.randn(7, 6, 16, generator=filled.random).to(filled.backend.dtype)
    got = filled.backend.attend(0, q, filled.backend.build_metadata(query_lens, context_lens, tables))
    backend = filled.backend
    numbers = [
        reference_dequantise(cache[0], None if scales is None else scales[0], cache_format)
        for cache, scales in ((backend.key_cache, backend.key_scales), (backend.value_cache, backend.value_scales))
    ]
    expected = reference_attention(q, *numbers, query_lens, context_lens, tables)
    assert got.dtype == backend.dtype
    tolerance = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 2e-2}[backend.dtype]
    assert (got.double() - expected).abs().nan_to_num(9.0).max() < tolerance
