"""What the torch backend does beside the answer itself, which the float64 reference checks: that a shared prefix is
found and changes nothing, that reading leaves the cache alone, and that torch's private kernel may be missing.
"""

import pytest
import torch
from kvxray_kernels import torch_attention
from kvxray_kernels.attention_variant import PLAIN, AttentionVariant
from kvxray_kernels.backend import CacheShape
from kvxray_kernels.cache_format import FLOAT32
from kvxray_kernels.torch_backend import TorchBackend

BLOCK_SIZE, KV_HEADS, HEADS, HEAD_DIM = 8, 2, 6, 16
SHARED = 5  # blocks
CONTEXT_LENS = [41, 43, 47, 48, 64, 190]  # with the shared blocks, of which the last sequence has none
TABLES = [
    [10, 11, 12, 13, 14, 30],
    [10, 11, 12, 13, 14, 20],
    [10, 11, 12, 13, 14, 5],
    [10, 11, 12, 13, 14, 7],
    [10, 11, 12, 13, 14, 8, 9, 3],
    list(range(40, 64)),
]
# Rounding of a mean of values of size 1 over fewer than 200 tokens, summed in float32 in another order.
TOLERANCE = 200 * 2**-24

VARIANTS = {
    "plain": PLAIN,
    "scale": AttentionVariant(scale=0.4),
    "softcap": AttentionVariant(softcap=2.0),
    "window within the suffix": AttentionVariant(sliding_window=1),
    "window into the prefix": AttentionVariant(sliding_window=20),
    "sinks": AttentionVariant(sinks=torch.linspace(-2, 3, HEADS)),
    "all": AttentionVariant(scale=0.3, sliding_window=12, softcap=3.0, sinks=torch.linspace(-1, 1, HEADS)),
}


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def filled(cascade: bool) -> TorchBackend:
    """Every token of every sequence is there; what is nobody's holds NaN."""
    backend = TorchBackend(CacheShape(1, 64, BLOCK_SIZE, KV_HEADS, HEAD_DIM), FLOAT32, cascade=cascade)
    backend.key_cache.fill_(torch.nan)
    backend.value_cache.fill_(torch.nan)
    random = torch.Generator().manual_seed(0)
    for table, context_len in zip(TABLES, CONTEXT_LENS, strict=True):
        slots = torch.tensor([table[p // BLOCK_SIZE] * BLOCK_SIZE + p % BLOCK_SIZE for p in range(context_len)])
        k, v = torch.randn(2, context_len, KV_HEADS, HEAD_DIM, generator=random)
        backend.write_kv(0, k, v, slots)
    return backend


def attended(cascade: bool, variant: AttentionVariant, order: list[int]) -> torch.Tensor:
    backend = filled(cascade)
    before = backend.key_cache.clone(), backend.value_cache.clone()
    lens, tables = [CONTEXT_LENS[i] for i in order], [TABLES[i] for i in order]
    metadata = backend.build_metadata([1] * len(order), lens, tables)
    assert [group.num_tokens for group in metadata.shared_groups] == ([SHARED * BLOCK_SIZE] if cascade else [])
    q = torch.randn(len(TABLES), HEADS, HEAD_DIM, generator=torch.Generator().manual_seed(1))
    out = backend.attend(0, q[order], metadata, variant)
    for cache, was in zip((backend.key_cache, backend.value_cache), before, strict=True):
        assert torch.equal(cache.nan_to_num(9.0), was.nan_to_num(9.0)), "reading has changed the cache"
    return out


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [4, 0, 5, 3, 1, 2]], ids=["by length", "in any order"])
def test_a_shared_prefix_attended_over_once_changes_nothing(variant, order):
    expected = attended(False, variant, order)
    assert expected.isfinite().all()
    torch.testing.assert_close(attended(True, variant, order), expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("variant", [PLAIN, VARIANTS["sinks"]], ids=["plain", "sinks"])
def test_the_kernel_that_is_private_to_torch_may_be_missing(variant, monkeypatch):
    expected = attended(True, variant, [0, 1, 2, 3, 4, 5])
    monkeypatch.setattr(torch_attention, "_FLASH", None)
    torch.testing.assert_close(attended(True, variant, [0, 1, 2, 3, 4, 5]), expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("few_tokens", [0, 256], ids=["fused kernel", "plain products"])
def test_what_sequences_have_of_their_own_comes_out_alike_either_way(few_tokens, monkeypatch):
    taken = []
    plain_attention = torch_attention.plain_attention
    monkeypatch.setattr(torch_attention, "FEW_TOKENS", few_tokens)
    monkeypatch.setattr(
        torch_attention, "plain_attention", lambda *args: taken.append(args[0].shape[0]) or plain_attention(*args)
    )
    order = [0, 1, 2, 3, 4, 5]
    torch.testing.assert_close(attended(True, PLAIN, order), attended(False, PLAIN, order), rtol=0, atol=TOLERANCE)
    assert taken == ([5] if few_tokens else []), "the five that share, and never the prefix"


def test_a_row_that_sees_nothing_is_empty_whatever_its_neighbours_see():
    random = torch.Generator().manual_seed(2)
    q, keys, values = (torch.randn(2, 3, n, HEAD_DIM, generator=random) for n in (4, 7, 7))
    bias = torch.zeros(2, 1, 1, 7)
    bias[0] = -torch.inf
    for variant in (PLAIN, VARIANTS["softcap"]):
        out, lse = torch_attention.plain_attention(q, keys, values, bias, variant)
        assert torch.equal(out[0], torch.zeros(3, 4, HEAD_DIM))
        assert torch.equal(lse[0], torch.full((3, 4), -torch.inf))
        assert out[1].isfinite().all()
        assert lse[1].isfinite().all()


def test_fewer_shared_blocks_than_pay_are_read_by_everybody():
    backend = filled(cascade=True)
    metadata = backend.build_metadata([1, 1], [30, 31], [TABLES[0], TABLES[1]])
    assert (len(metadata.shared_groups), len(metadata.decode_groups)) == (0, 1)
    assert len(backend.build_metadata([1, 1], [41, 41], [TABLES[0], TABLES[1]]).shared_groups) == 1


def test_prefill_beside_a_shared_prefix_stays_as_it_is():
    backend = filled(cascade=True)
    metadata = backend.build_metadata([1, 1, 3], [41, 43, 47], TABLES[:3])
    assert (len(metadata.shared_groups), len(metadata.decode_groups), len(metadata.prefill_chunks)) == (1, 0, 1)


def test_sequences_with_the_very_same_blocks_keep_a_token_each_for_themselves():
    backend = filled(cascade=True)
    (group,) = backend.build_metadata([1, 1], [40, 40], [TABLES[0], TABLES[1]]).shared_groups
    assert group.num_tokens == 32
    assert group.suffixes[0].num_tokens == 8
