"""The torch backend against the float64 reference: same cache, same queries, same answers.

Tolerances. float32: attention is a weighted mean of values of size 1, summed in float32 over at most 300 tokens; the
rounding of such a sum stays below 300 * 2**-24, about 2e-5. bfloat16: inputs are the same rounded numbers on both
sides, so what differs is the rounding of scores and weights to 8 bits, 2**-8 of values of size 1, and of the output.
"""

import math
from collections.abc import Sequence

import pytest
import torch
from kvxray_kernels.backend import AttentionBackend, CacheShape
from kvxray_kernels.reference import reference_attention, reference_copy, reference_write
from kvxray_kernels.torch_backend import GROUP_BYTES, TorchBackend

TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2e-2}
BACKENDS: list[type[AttentionBackend]] = [TorchBackend]


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class World:
    """A poisoned cache and sequences whose blocks lie in random order in it."""

    def __init__(self, backend_class, context_lens: Sequence[int], *, block_size=16, kv_heads=2, head_dim=16, layers=2,
                 dtype=torch.float32, seed=0):  # fmt: skip
        self.random = torch.Generator().manual_seed(seed)
        self.context_lens = list(context_lens)
        needed = [math.ceil(n / block_size) for n in context_lens]
        shape = CacheShape(layers, sum(needed) + 4, block_size, kv_heads, head_dim)
        self.backend = backend_class(shape, dtype)
        self.backend.key_cache.fill_(torch.nan)
        self.backend.value_cache.fill_(torch.nan)
        free = (torch.randperm(shape.num_blocks - 1, generator=self.random) + 1).tolist()  # never the null block
        self.tables = [[free.pop() for _ in range(n)] for n in needed]
        for table, context_len in zip(self.tables, context_lens, strict=True):
            slots = torch.tensor([table[p // block_size] * block_size + p % block_size for p in range(context_len)])
            for layer in range(layers):
                self.backend.write_kv(layer, *self.keys_and_values(context_len), slots)

    def rows(self, tokens: int, heads: int) -> torch.Tensor:
        shape = self.backend.shape
        return torch.randn(tokens, heads, shape.head_dim, generator=self.random).to(self.backend.dtype)

    def keys_and_values(self, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        heads = self.backend.shape.num_kv_heads
        return self.rows(tokens, heads), self.rows(tokens, heads)

    def largest_error(self, query_lens: Sequence[int], heads: int) -> float:
        """Attend in every layer and compare with the reference; infinite when a result is not finite."""
        metadata = self.backend.build_metadata(query_lens, self.context_lens, self.tables)
        worst = 0.0
        for layer in range(self.backend.shape.num_layers):
            q = self.rows(sum(query_lens), heads)
            got = self.backend.attend(layer, q, metadata)
            caches = self.backend.key_cache[layer], self.backend.value_cache[layer]
            expected = reference_attention(q, *caches, query_lens, self.context_lens, self.tables)
            assert got.shape == q.shape
            assert got.dtype == q.dtype
            assert bool(expected.isfinite().all()), "the reference itself read memory that nobody wrote"
            worst = max(worst, (got.double() - expected).abs().nan_to_num(math.inf).max().item())
        self.backend.check_integrity()
        return worst


@pytest.mark.parametrize("backend_class", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize(("group", "kv_heads", "head_dim"), [(1, 2, 16), (3, 3, 64), (1, 1, 64), (3, 1, 16)])
@pytest.mark.parametrize("block_size", [8, 16, 32])
def test_decode_and_prefill_in_one_batch_agree_with_the_reference(
    backend_class, dtype, group, kv_heads, head_dim, block_size
):
    world = World(
        backend_class,
        context_lens=[1, block_size - 1, block_size, block_size + 1, 83, 1, block_size, 2 * block_size + 3, 71],
        block_size=block_size,
        kv_heads=kv_heads,
        head_dim=head_dim,
        dtype=dtype,
    )
    query_lens = [1, 1, 1, 1, 1, 1, block_size, block_size + 2, 5]
    assert world.largest_error(query_lens, kv_heads * group) < TOLERANCE[dtype]


@pytest.mark.parametrize("backend_class", BACKENDS)
def test_sequences_of_very_different_lengths_decode_together_in_any_order(backend_class):
    world = World(backend_class, context_lens=[290, 1, 17, 16, 300, 64, 299, 2])
    assert world.largest_error([1] * 8, heads=6) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("backend_class", BACKENDS)
def test_a_decode_batch_larger_than_one_group_agrees_with_the_reference(backend_class):
    context_lens = [260 + i for i in range(40)]
    assert sum(context_lens) * 2 * 64 * 4 * 2 > GROUP_BYTES
    world = World(backend_class, context_lens, head_dim=64, layers=1)
    assert world.largest_error([1] * 40, heads=2) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("backend_class", BACKENDS)
@pytest.mark.parametrize("query_len", [2, 127, 128, 129, 257])
def test_a_chunk_over_a_paged_prefix_sees_its_past_and_not_its_future(backend_class, query_len):
    world = World(backend_class, context_lens=[query_len + 37], layers=1)
    assert world.largest_error([query_len], heads=6) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("backend_class", BACKENDS)
def test_a_prefill_of_one_token_after_longer_ones_is_served(backend_class):
    world = World(backend_class, context_lens=[20, 33, 9])
    assert world.largest_error([1, 4, 1], heads=2) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("backend_class", BACKENDS)
def test_two_sequences_that_share_blocks_read_the_same_prefix(backend_class):
    world = World(backend_class, context_lens=[48, 48])
    world.tables[1][:2] = world.tables[0][:2]
    assert world.largest_error([1, 1], heads=2) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("backend_class", BACKENDS)
def test_a_block_table_may_be_longer_than_its_context(backend_class):
    world = World(backend_class, context_lens=[20, 5, 40])
    world.tables = [[*table, 0, 0, 0] for table in world.tables]
    assert world.largest_error([1, 1, 8], heads=2) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("backend_class", BACKENDS)
def test_one_backend_serves_growing_and_shrinking_steps(backend_class):
    world = World(backend_class, context_lens=[33, 130, 20])
    everyone = world.tables, world.context_lens
    for chosen in ([0], [1], [0, 1, 2], [2]):
        world.tables = [everyone[0][i] for i in chosen]
        world.context_lens = [everyone[1][i] for i in chosen]
        assert world.largest_error([1] * len(chosen), heads=2) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("backend_class", BACKENDS)
def test_writing_is_exact_and_slot_minus_one_writes_nothing(backend_class):
    backend = backend_class(
        CacheShape(num_layers=2, num_blocks=5, block_size=8, num_kv_heads=2, head_dim=16), torch.float32
    )
    backend.key_cache.normal_()
    backend.value_cache.normal_()
    keys_before, values_before = backend.key_cache.clone(), backend.value_cache.clone()
    slots = [9, -1, 39, 8, -1, 20]
    k, v = torch.randn(6, 2, 16), torch.randn(6, 2, 16)
    backend.write_kv(1, k, v, torch.tensor(slots))
    assert torch.equal(backend.key_cache[1], reference_write(keys_before[1], k, slots))
    assert torch.equal(backend.value_cache[1], reference_write(values_before[1], v, slots))
    assert torch.equal(backend.key_cache[0], keys_before[0]), "another layer is left alone"
    backend.write_kv(1, k, v, torch.full((6,), -1))
    assert torch.equal(backend.key_cache[1], reference_write(keys_before[1], k, slots))


@pytest.mark.parametrize("backend_class", BACKENDS)
def test_blocks_are_copied_in_every_layer_and_sources_are_read_first(backend_class):
    backend = backend_class(
        CacheShape(num_layers=3, num_blocks=6, block_size=8, num_kv_heads=1, head_dim=16), torch.float32
    )
    backend.key_cache.normal_()
    backend.value_cache.normal_()
    keys_before, values_before = backend.key_cache.clone(), backend.value_cache.clone()
    pairs = [(1, 2), (2, 1), (3, 5)]
    backend.copy_blocks(pairs)
    assert torch.equal(backend.key_cache, reference_copy(keys_before, pairs))
    assert torch.equal(backend.value_cache, reference_copy(values_before, pairs))
    backend.copy_blocks([])
    assert torch.equal(backend.key_cache, reference_copy(keys_before, pairs))


def test_the_size_of_a_block_counts_keys_and_values_of_every_layer():
    smollm2 = CacheShape(num_layers=30, num_blocks=1, block_size=16, num_kv_heads=3, head_dim=64)
    assert smollm2.bytes_per_block(torch.float32) == 737_280
    assert smollm2.bytes_per_block(torch.bfloat16) == 368_640


def test_a_step_that_does_not_add_up_is_refused():
    backend = TorchBackend(
        CacheShape(num_layers=1, num_blocks=4, block_size=8, num_kv_heads=1, head_dim=16), torch.float32
    )
    with pytest.raises(AssertionError, match="cover the context"):
        backend.build_metadata([1], [9], [[1]])
    with pytest.raises(AssertionError, match="at least its own queries"):
        backend.build_metadata([3], [2], [[1]])
