"""Every backend against the float64 reference over the same cache: torch with and without cascade, and Triton.

The cases are a covering set: every two of a cache format, a head_dim, a block size, a group, a variant and a batch
meet in one of them, for each backend. Memory that nobody wrote is poisoned. Tolerances are in `conformance_world`.
"""

from collections import defaultdict

import pytest
import torch
import triton.language as tl
from kvxray_kernels.attention_variant import AttentionVariant
from kvxray_kernels.backend import CacheShape
from kvxray_kernels.cache_format import BFLOAT16, CACHE_FORMATS, FLOAT32, INT4, INT8
from kvxray_kernels.quantisation import movable
from kvxray_kernels.reference import reference_attention, reference_copy, reference_write
from kvxray_kernels.reference_quantisation import reference_dequantise, reference_quantise
from kvxray_kernels.torch_backend import TorchBackend
from kvxray_kernels.torch_steps import GROUP_BYTES
from kvxray_kernels.triton_backend import TritonBackend
from kvxray_kernels.triton_kernels.dequantise import dequantise
from kvxray_kernels.triton_kernels.quantise import quantise
from triton.runtime.interpreter import InterpretedFunction

from tests.kernels.conformance_cases import CASES_OF, every_kernel
from tests.kernels.conformance_world import (
    BACKENDS,
    Batch,
    World,
    assert_close,
    attend_case,
    poison,
)

# Which kernels the interpreter ran on which format, in this process.
kernels_seen: defaultdict[str, set[str]] = defaultdict(set)


@pytest.fixture
def see_kernels(monkeypatch):
    """Call it with the name of a format: kernels that run from then on are taken down for it."""

    def of(cache_format: str) -> None:
        run = InterpretedFunction.run

        def taken_down(self, *args, **kwargs):
            kernels_seen[cache_format].add(self.fn.__name__)
            return run(self, *args, **kwargs)

        monkeypatch.setattr(InterpretedFunction, "run", taken_down)

    return of


@pytest.mark.parametrize(
    ("backend", "case"),
    [pytest.param(name, case, id=f"{name}-{case}") for name in BACKENDS for case in CASES_OF[name]],
)
def test_attention_agrees_with_the_reference(backend, case, see_kernels):
    see_kernels(case.cache.partition("-")[0])
    assert_close(*attend_case(BACKENDS[backend], case))


in_every_backend = pytest.mark.parametrize("make", BACKENDS.values(), ids=BACKENDS)
in_every_format = pytest.mark.parametrize("cache_format", CACHE_FORMATS.values(), ids=CACHE_FORMATS)


@in_every_backend
def test_sequences_of_very_different_lengths_decode_together_in_any_order(make):
    batch = Batch([1] * 8, [290, 1, 17, 16, 300, 64, 299, 2])
    assert_close(*World(make, batch).attend(batch.query_lens, 6))


@pytest.mark.parametrize("make", [BACKENDS["torch_gather"], BACKENDS["torch_cascade"]])
def test_a_decode_batch_larger_than_one_group_agrees_with_the_reference(make):
    batch = Batch([1] * 40, [260 + i for i in range(40)])
    assert sum(batch.context_lens) * 2 * 64 * 4 * 2 > GROUP_BYTES
    assert_close(*World(make, batch, head_dim=64).attend(batch.query_lens, 2))


@in_every_backend
@pytest.mark.parametrize("query_len", [2, 127, 128, 129])
def test_a_chunk_over_a_paged_prefix_sees_its_past_and_not_its_future(make, query_len):
    batch = Batch([query_len], [query_len + 37])
    assert_close(*World(make, batch, kv_heads=1).attend(batch.query_lens, 3))


@in_every_backend
def test_more_sequences_than_a_tile_holds_share_a_prefix(make):
    batch = Batch([1] * 20, [60 + i for i in range(20)], tuple((i, 0, 7) for i in range(1, 20)))
    world = World(make, batch, block_size=8, kv_heads=1)
    assert_close(*world.attend(batch.query_lens, 5))


@in_every_backend
def test_a_block_table_may_be_longer_than_its_context(make):
    batch = Batch([1, 1, 8], [20, 5, 40])
    world = World(make, batch)
    world.tables = [[*table, 0, 0, 0] for table in world.tables]
    assert_close(*world.attend(batch.query_lens, 2))


@in_every_backend
def test_one_backend_serves_growing_and_shrinking_steps(make):
    world = World(make, Batch([1] * 3, [33, 130, 20]))
    everyone = world.tables, world.context_lens
    for chosen in ([0], [1], [0, 1, 2], [2]):
        world.tables = [everyone[0][i] for i in chosen]
        world.context_lens = [everyone[1][i] for i in chosen]
        assert_close(*world.attend([1] * len(chosen), heads=2))


@in_every_backend
def test_queries_may_be_a_slice_of_something_wider(make):
    world = World(make, Batch([1, 1], [20, 33]), kv_heads=1)
    metadata = world.backend.build_metadata([1, 1], world.context_lens, world.tables)
    qkv = world.rows(2, 5)
    whole = world.backend.attend(1, qkv[:, :3].clone(), metadata)
    assert torch.equal(world.backend.attend(1, qkv[:, :3], metadata), whole)


@in_every_backend
def test_a_cache_of_more_than_two_to_the_31_numbers_is_addressed_right(make):
    """Memory that is never touched costs nothing. An offset of 32 bits would wrap around and kill the process."""
    k, v = torch.randn(2, 20, 8, 256).unbind(0)
    q = torch.randn(1, 8, 256)
    results = []
    for num_blocks in (3, 8200):
        backend = make(CacheShape(1, num_blocks, 128, 8, 256), CACHE_FORMATS["int8"], torch.float32)
        last = num_blocks - 1
        backend.write_kv(0, k, v, torch.arange(20) + last * 128)
        results.append(backend.attend(0, q, backend.build_metadata([1], [20], [[last]])))
    assert backend.key_cache.numel() > 2**31
    assert torch.equal(*results)


@in_every_backend
@in_every_format
def test_writing_stores_what_the_rules_say_and_slot_minus_one_writes_nothing(make, cache_format, see_kernels):
    see_kernels(cache_format.name)
    dtype = torch.float32 if cache_format.is_quantised else None
    backend = make(CacheShape(2, 5, 8, 2, 16), cache_format, dtype)
    poison(backend)
    before = [None if t is None else movable(t).clone() for t in stored_tensors(backend)]
    slots = [9, -1, 39, 8, -1, 20]
    k, v = (torch.randn(6, 2, 16).to(backend.dtype) for _ in range(2))
    backend.write_kv(1, k, v, torch.tensor(slots))
    expected = [*reference_quantise(k, cache_format), *reference_quantise(v, cache_format)]
    for tensor, old, rows in zip(stored_tensors(backend), before, expected, strict=True):
        if tensor is not None:
            assert same_bits(movable(tensor)[0], old[0]), "another layer is left alone"
            assert same_bits(movable(tensor)[1], reference_write(old[1], movable(rows), slots))
    after = [None if t is None else movable(t).clone() for t in stored_tensors(backend)]
    backend.write_kv(1, k, v, torch.full((6,), -1))
    backend.write_kv(1, k[:0], v[:0], torch.empty(0, dtype=torch.int64))
    for tensor, old in zip(stored_tensors(backend), after, strict=True):
        assert tensor is None or same_bits(movable(tensor), old)


@in_every_backend
@in_every_format
def test_blocks_are_copied_in_every_layer_and_sources_are_read_first(make, cache_format, see_kernels):
    see_kernels(cache_format.name)
    dtype = torch.float32 if cache_format.is_quantised else None
    backend = make(CacheShape(3, 6, 8, 1, 16), cache_format, dtype)
    for tensor in stored_tensors(backend):
        if tensor is not None:
            tensor.view(torch.uint8).random_(0, 256)
    before = [None if t is None else movable(t).clone() for t in stored_tensors(backend)]
    pairs = [(1, 2), (2, 1), (3, 5)]
    for chosen in (pairs, []):
        backend.copy_blocks(chosen)
        for tensor, old in zip(stored_tensors(backend), before, strict=True):
            assert tensor is None or same_bits(movable(tensor), reference_copy(old, pairs))


@in_every_format
def test_rows_become_what_the_cache_would_hold_and_come_back(cache_format, see_kernels):
    see_kernels(cache_format.name)
    dtype = torch.float32 if cache_format.is_quantised else cache_format.storage_dtype
    rows = torch.randn(3, 2, 80).to(dtype)
    stored, scales = quantise(rows, cache_format)
    expected, expected_scales = reference_quantise(rows, cache_format)
    assert same_bits(movable(stored), movable(expected))
    assert (scales is None) == (expected_scales is None)
    assert scales is None or torch.equal(scales, expected_scales)
    back = dequantise(stored, scales, cache_format, dtype)
    # One rounding of scale * code, and one of adding the minimum: numbers of size 4 in float32.
    assert torch.allclose(back.double(), reference_dequantise(stored, scales, cache_format), rtol=0, atol=4 * 2**-23)


def test_every_kernel_and_format_appears(request):
    """Last of this file on purpose: the tests before it say which kernels they ran."""
    mine = [item for item in request.session.items if item.fspath == request.node.fspath]
    if sum("agrees_with_the_reference" in item.name for item in mine) < sum(map(len, CASES_OF.values())):
        pytest.skip("asks about the whole suite, of which a part was chosen")
    assert len(every_kernel()) == 8
    assert {name: every_kernel() - kernels_seen[name] for name in CACHE_FORMATS} == dict.fromkeys(CACHE_FORMATS, set())


def stored_tensors(backend) -> tuple[torch.Tensor | None, ...]:
    return backend.key_cache, backend.key_scales, backend.value_cache, backend.value_scales


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """NaN is never equal to itself; its bits are."""
    return torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


def test_the_size_of_a_block_counts_keys_and_values_of_every_layer():
    smollm2 = CacheShape(num_layers=30, num_blocks=1, block_size=16, num_kv_heads=3, head_dim=64)
    assert smollm2.bytes_per_block(FLOAT32) == 737_280
    assert smollm2.bytes_per_block(BFLOAT16) == 368_640


def test_a_step_that_does_not_add_up_is_refused():
    backend = TorchBackend(CacheShape(num_layers=1, num_blocks=4, block_size=8, num_kv_heads=1, head_dim=16), FLOAT32)
    with pytest.raises(AssertionError, match="cover the context"):
        backend.build_metadata([1], [9], [[1]])
    with pytest.raises(AssertionError, match="at least its own queries"):
        backend.build_metadata([3], [2], [[1]])


@in_every_backend
def test_a_softcap_far_above_all_scores_changes_nothing(make):
    world = World(make, Batch([1, 1, 9], [40, 3, 30]), kv_heads=1)
    metadata = world.backend.build_metadata([1, 1, 9], world.context_lens, world.tables)
    q = world.rows(11, 3)
    capped = world.backend.attend(1, q, metadata, AttentionVariant(softcap=1e5))
    assert (capped - world.backend.attend(1, q, metadata)).abs().max() < 5e-6


@pytest.mark.parametrize("cache_format", [INT8, INT4], ids=["int8", "int4"])
def test_small_scales_keep_their_bits_in_float16(cache_format, monkeypatch):
    """As on a GPU, products are of float16: a weight times a small scale must not fall below its range."""
    monkeypatch.setattr("kvxray_kernels.triton_kernels.operands.dot_dtype", lambda dtype: tl.float16)
    random = torch.Generator().manual_seed(0)
    backend = TritonBackend(CacheShape(1, 6, 16, 1, 64), cache_format, torch.float16)
    values = (torch.randn(40, 1, 64, generator=random) * 2e-4).half()
    backend.write_kv(0, torch.randn(40, 1, 64, generator=random).half(), values, torch.arange(16, 56))
    q = torch.randn(1, 4, 64, generator=random).half()
    out = backend.attend(0, q, backend.build_metadata([1], [40], [[1, 2, 3]]))
    stored = [backend.key_cache, backend.value_cache], [backend.key_scales, backend.value_scales]
    keys, stored_values = (reference_dequantise(c[0], s[0], cache_format) for c, s in zip(*stored, strict=True))
    expected = reference_attention(q, keys, stored_values, [1], [40], [[1, 2, 3]])
    step = 2**-24  # of float16 where its numbers are smallest
    assert (out.double() - expected).abs().max() < step + 2e-3 * expected.abs().max()
