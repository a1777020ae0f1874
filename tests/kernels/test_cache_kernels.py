"""The kernels that write, copy and read the cache, in Triton's interpreter: byte for byte what torch makes of it.

Cases are few and small, since the interpreter takes milliseconds a program.
"""

import pytest
import torch
from kvxray_kernels import quantisation
from kvxray_kernels.backend import CacheShape
from kvxray_kernels.cache_format import BFLOAT16, CACHE_FORMATS, FP8_E4M3, INT4, INT8, CacheFormat
from kvxray_kernels.quantisation import movable
from kvxray_kernels.reference import reference_copy, reference_write
from kvxray_kernels.reference_quantisation import reference_dequantise
from kvxray_kernels.triton_kernels.copy_blocks import copy_blocks
from kvxray_kernels.triton_kernels.dequantise import dequantise
from kvxray_kernels.triton_kernels.quantise import quantise
from kvxray_kernels.triton_kernels.store_kv import store_kv

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
# Of formats that are not quantised only their own.
FORMATS_AND_DTYPES = [(f, dtype) for f in FORMATS for dtype in DTYPES if f.is_quantised or dtype == f.storage_dtype]
# The interpreter computes with numpy, which warns of infinity and NaN where torch and a GPU do not.
overflow_is_meant = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
nan_is_meant = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")


class Cache:
    """Keys, values and scales of two layers, full of what may not be read. The second layer is written to."""

    def __init__(self, cache_format: CacheFormat, num_blocks: int, block_size: int, heads: int, head_dim: int):
        shape = CacheShape(2, num_blocks, block_size, heads, head_dim)
        self.format = cache_format
        self.key_cache, self.value_cache = (
            torch.empty(shape.of_cache(cache_format), dtype=cache_format.storage_dtype) for _ in range(2)
        )
        self.key_scales, self.value_scales = (
            torch.empty(shape.of_scales(cache_format), dtype=torch.float16) if cache_format.num_scales else None
            for _ in range(2)
        )
        for tensor in self.tensors():
            if tensor is not None:
                tensor.view(torch.uint8).fill_(0xFF)

    def store(self, k: torch.Tensor, v: torch.Tensor, slots: list[int]) -> None:
        key_scales, value_scales = (None if t is None else t[1] for t in (self.key_scales, self.value_scales))
        slot_mapping = torch.tensor(slots, dtype=torch.int64)
        store_kv(k, v, self.key_cache[1], self.value_cache[1], key_scales, value_scales, slot_mapping, self.format)

    def expect(self, k: torch.Tensor, v: torch.Tensor, slots: list[int]) -> list[torch.Tensor | None]:
        """What `tensors` must be after storing these."""
        stored = [*quantisation.quantise(k, self.format), *quantisation.quantise(v, self.format)]
        return [
            None if tensor is None else torch.stack([tensor[0], reference_write(tensor[1], movable(rows), slots)])
            for tensor, rows in zip(self.tensors(), stored, strict=True)
        ]

    def tensors(self) -> list[torch.Tensor | None]:
        """fp8 as bytes."""
        return [movable(self.key_cache), self.key_scales, movable(self.value_cache), self.value_scales]


def slices_of_qkv(tokens: int, heads: int, head_dim: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values as a model has them: slices of one tensor, the queries before them."""
    width = heads * head_dim
    qkv = torch.randn(tokens, 4 * width, generator=torch.Generator().manual_seed(7)).to(dtype)
    return qkv[:, 2 * width : 3 * width].view(tokens, heads, head_dim), qkv[:, 3 * width :].view(
        tokens, heads, head_dim
    )


@pytest.mark.parametrize(("cache_format", "dtype"), FORMATS_AND_DTYPES, ids=lambda x: getattr(x, "name", str(x)))
@pytest.mark.parametrize(
    ("heads", "head_dim", "block_size"), [(2, 16, 8), (3, 64, 16), (1, 80, 32), (5, 96, 16), (9, 128, 8), (1, 256, 128)]
)
def test_every_row_is_stored_in_its_slot_and_no_other_slot_is_touched(cache_format, dtype, heads, head_dim, block_size):
    cache = Cache(cache_format, 5, block_size, heads, head_dim)
    k, v = slices_of_qkv(5, heads, head_dim, dtype)
    slots = [block_size + 1, -1, 5 * block_size - 1, 0, 2 * block_size]
    expected = cache.expect(k, v, slots)
    cache.store(k, v, slots)
    assert all(map(same_bytes, cache.tensors(), expected))


def test_no_tokens_are_no_launch():
    cache = Cache(INT8, 2, 8, 1, 16)
    before = [None if t is None else t.clone() for t in cache.tensors()]
    cache.store(torch.empty(0, 1, 16), torch.empty(0, 1, 16), [])
    assert all(map(same_bytes, cache.tensors(), before))
    assert quantise(torch.empty(0, 1, 16), INT8)[0].shape == (0, 1, 16)


# Pages that nothing touches take no memory: of these 2 GB a few blocks exist.
def test_a_cache_of_more_than_two_to_the_31_numbers_is_written_at_its_far_end():
    blocks = (1 << 31) // (128 * 256) + 2
    keys, values = (torch.empty((blocks, 128, 1, 256), dtype=torch.int8) for _ in range(2))
    key_scales, value_scales = (torch.empty((blocks, 128, 1, 1), dtype=torch.float16) for _ in range(2))
    k, v = slices_of_qkv(2, 1, 256, torch.float32)
    slots = torch.tensor([blocks * 128 - 1, 3])
    store_kv(k, v, keys, values, key_scales, value_scales, slots, INT8)
    for items, scales, rows in ((keys, key_scales, k), (values, value_scales, v)):
        expected_items, expected_scales = quantisation.quantise(rows, INT8)
        assert torch.equal(items[[blocks - 1, 0], [127, 3]], expected_items)
        assert torch.equal(scales[[blocks - 1, 0], [127, 3]], expected_scales)


def test_blocks_beyond_two_to_the_31_are_copied():
    block_bytes = 129 * 255  # odd, so that they are copied byte by byte and the offset counts bytes
    blocks = (1 << 31) // block_bytes + 2
    keys, values = (torch.empty((1, blocks, 129, 1, 255), dtype=torch.int8) for _ in range(2))
    for seed, cache in enumerate((keys, values)):
        cache[0, -1] = random_items(INT8, (129, 1, 255), seed)
    copy_blocks(keys, values, None, None, [(blocks - 1, 3), (blocks - 1, blocks - 2)])
    for cache in (keys, values):
        assert torch.equal(cache[0, 3], cache[0, -1])
        assert torch.equal(cache[0, -2], cache[0, -1])


@overflow_is_meant
@in_quantised_formats
@in_every_dtype
@pytest.mark.parametrize("head_dim", [16, 80])
def test_hard_rows_are_stored_as_torch_stores_them(cache_format, dtype, head_dim):
    rows = hard_rows(head_dim, dtype)
    for got, expected in zip(quantise(rows, cache_format), quantisation.quantise(rows, cache_format), strict=True):
        assert same_bytes(got, expected)


@nan_is_meant
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_every_number_of_16_bits_becomes_the_fp8_number_of_torchs_own_cast(dtype):
    every = torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(dtype)
    assert same_bytes(quantise(every.view(8, 64, 128), FP8_E4M3)[0], cast_by_torch(every.view(8, 64, 128)))


def test_float32_numbers_from_below_the_smallest_to_beyond_the_largest_become_torchs_fp8_numbers():
    dense = torch.arange(0x3A000000, 0x44000000, 0x1400, dtype=torch.int32).view(torch.float32)  # 2**-11 to 512
    numbers = torch.cat([dense, -dense, around_fp8_numbers()])
    rows = torch.nn.functional.pad(numbers, (0, -len(numbers) % 1024)).view(-1, 8, 128)
    assert same_bytes(quantise(rows, FP8_E4M3)[0], cast_by_torch(rows))


def cast_by_torch(rows: torch.Tensor) -> torch.Tensor:
    return rows.float().clamp(-448, 448).to(torch.float8_e4m3fn)


@in_every_format
@in_every_dtype
@pytest.mark.parametrize(("heads", "head_dim"), [(3, 64), (9, 80)])
def test_stored_rows_read_back_exactly(cache_format, dtype, heads, head_dim):
    stored = random_items(cache_format, (4, heads, head_dim // cache_format.values_per_item))
    scales = random_scales(cache_format, (4, heads))
    got = dequantise(stored, scales, cache_format, dtype)
    expected = reference_dequantise(stored, scales, cache_format).float().to(dtype)
    assert torch.equal(got.isnan(), expected.isnan())
    assert torch.equal(got.nan_to_num(), expected.nan_to_num())


def test_every_fp8_code_reads_back_as_its_number_or_as_nan():
    every = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).view(2, 1, 128)
    got = dequantise(every, None, FP8_E4M3, torch.float32)
    assert torch.equal(got.isnan().view(-1).nonzero()[:, 0], torch.tensor([0x7F, 0xFF]))
    assert torch.equal(got.double().nan_to_num(), reference_dequantise(every, None, FP8_E4M3).nan_to_num())


@in_every_format
@pytest.mark.parametrize(
    "pairs",
    [[], [(1, 2)], [(1, 2), (2, 1)], [(3, 4), (4, 5), (5, 3), (0, 1)], [(1, 3), (2, 3)], [(4, 4)]],
    ids=["none", "one", "swap", "ring", "two-into-one", "itself"],
)
def test_blocks_are_copied_in_every_layer_with_their_scales(cache_format, pairs):
    shape = (2, 6, 8, 1, 16 // cache_format.values_per_item)
    keys, values = (random_items(cache_format, shape, seed) for seed in (0, 1))
    key_scales, value_scales = (random_scales(cache_format, shape[:-1], seed) for seed in (2, 3))
    kept = [keys, values, key_scales, value_scales]
    expected = [None if t is None else reference_copy(movable(t), pairs) for t in kept]
    copy_blocks(keys, values, key_scales, value_scales, pairs)
    assert all(same_bytes(None if t is None else movable(t), e) for t, e in zip(kept, expected, strict=True))


@pytest.mark.parametrize(("block_size", "head_dim"), [(8, 3), (16, 300)], ids=["odd bytes", "several chunks"])
def test_blocks_of_any_size_are_copied(block_size, head_dim):
    shape = (2, 4, block_size, 3, head_dim)
    keys, values = (random_items(BFLOAT16, shape, seed) for seed in (0, 1))
    expected = [reference_copy(t, [(3, 1), (1, 0)]) for t in (keys, values)]
    copy_blocks(keys, values, None, None, [(3, 1), (1, 0)])
    assert all(map(same_bytes, (keys, values), expected))
