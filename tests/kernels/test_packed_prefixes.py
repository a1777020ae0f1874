"""A packed prefix is never out of date and changes nothing; it is packed when it has stayed, and let go in time."""

from __future__ import annotations

import pytest
import torch
from kvxray_kernels import packed_prefixes
from kvxray_kernels.attention_variant import PLAIN, AttentionVariant
from kvxray_kernels.backend import CacheShape
from kvxray_kernels.cache_format import BFLOAT16, INT8
from kvxray_kernels.packed_prefixes import PackedPrefixes
from kvxray_kernels.packed_product import PackedMatrix, can_pack
from kvxray_kernels.torch_backend import TorchBackend

from tests.kernels.test_kept_blocks import HEADS, SHAPE, World
from tests.kernels.test_torch_cascade import TOLERANCE, VARIANTS, filled

pytestmark = pytest.mark.skipif(not can_pack(), reason="this torch, or this processor, has no packed product")


@pytest.fixture(autouse=True)
def small_prefixes_are_packed(monkeypatch):
    monkeypatch.setattr(packed_prefixes, "MIN_PRODUCTS", 0)
    monkeypatch.setattr(packed_prefixes, "PATIENCE", 2)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "variant", [PLAIN, AttentionVariant(sinks=torch.linspace(-2, 3, HEADS))], ids=["plain", "sinks"]
)
def test_blocks_may_be_written_freed_reused_copied_and_rewound(seed, variant, monkeypatch):
    used = []
    attend = packed_prefixes._Layer.attend
    monkeypatch.setattr(packed_prefixes._Layer, "attend", lambda *args: used.append(1) or attend(*args))
    World(seed, variant=variant).walk()
    assert used, "nothing was ever packed"


@pytest.mark.parametrize("place", ["write", "copy"])
def test_a_stale_prefix_is_found(place, monkeypatch):
    world = World(0)
    for _ in range(8):
        world.step()
    assert world.keeping._packed.num_packed == SHAPE.num_layers
    monkeypatch.setattr(PackedPrefixes, "wrote", lambda *_: None)
    if place == "write":
        world.write(world.prefix, range(3))
    else:
        world.keeping.copy_blocks([(world.prefix[2], world.prefix[0])])
    with pytest.raises(AssertionError, match="not close"):
        world.walk()


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_every_variant_comes_out_alike_once_the_prefix_is_packed(variant):
    packing, plain = filled(cascade=True), filled(cascade=False)
    tables, lens = [[10, 11, 12, 13, 14, 30 + at] for at in (0, 1)], [41, 41]
    for backend in (packing, plain):
        backend.write_kv(0, *torch.ones(2, 1, 2, 16), torch.tensor([31 * 8]))
    step = [1, 1], lens, tables
    q = torch.randn(2, 6, 16, generator=torch.Generator().manual_seed(5))
    expected = plain.attend(0, q, plain.build_metadata(*step), variant)
    for _ in range(4):
        out = packing.attend(0, q, packing.build_metadata(*step), variant)
        torch.testing.assert_close(out, expected, rtol=0, atol=TOLERANCE)
    bent = variant.sliding_window is not None or variant.softcap is not None
    assert packing._packed.num_packed == (0 if bent else 1)


def test_another_scale_is_not_the_packed_one():
    world = World(0)
    for scale in (None, None, None, 0.5, 0.1):
        world.variant = AttentionVariant(scale=scale)
        world.step()


def layer_of(prefixes: PackedPrefixes):
    return prefixes.of(0, 1)


def attended(prefixes: PackedPrefixes, *blocks: int) -> bool:
    """One step over a prefix of these blocks; whether it was packed before."""
    prefixes.begin_step()
    q, keys, values = torch.ones(1, 2, 4), torch.ones(1, 4 * len(blocks), 4), torch.ones(1, 4 * len(blocks), 4)
    layer = layer_of(prefixes)
    if layer.attend(blocks, q, PLAIN) is not None:
        return True
    layer.note(blocks, q, keys, values, PLAIN)
    return False


def made(most: int) -> PackedPrefixes:
    return PackedPrefixes(1, 4, packed_prefixes.MAX_PACKED_BYTES // most, possible=True)


def test_it_is_packed_after_it_has_stayed_and_again_after_it_was_written_to():
    prefixes = made(most=8)
    assert [attended(prefixes, 3, 4) for _ in range(4)] == [False, False, True, True]
    prefixes.wrote(0, [2 * 4, 5 * 4])
    assert attended(prefixes, 3, 4), "only neighbours were written to"
    prefixes.wrote(0, [4 * 4 + 1])
    assert [attended(prefixes, 3, 4) for _ in range(3)] == [False, False, True]


def test_the_least_lately_used_makes_room_and_what_is_too_long_is_not_packed():
    prefixes = made(most=4)
    for blocks in ((1, 2), (3, 4)):
        assert [attended(prefixes, *blocks) for _ in range(3)] == [False, False, True]
    assert attended(prefixes, 1, 2)
    assert [attended(prefixes, 5, 6) for _ in range(3)] == [False, False, True]
    assert attended(prefixes, 1, 2)
    assert not attended(prefixes, 3, 4), "it made room"
    assert not any(attended(prefixes, 1, 2, 3, 4, 5) for _ in range(5))


def test_it_is_let_go_when_nobody_uses_it(monkeypatch):
    monkeypatch.setattr(packed_prefixes, "IDLE_STEPS", 3)
    prefixes = made(most=8)
    assert [attended(prefixes, 3) for _ in range(3)] == [False, False, True]
    for _ in range(3):
        prefixes.begin_step()
    assert prefixes.num_packed == 1
    prefixes.begin_step()
    assert prefixes.num_packed == 0


def test_few_products_are_left_to_the_fused_kernel(monkeypatch):
    monkeypatch.setattr(packed_prefixes, "MIN_PRODUCTS", 2 * 4 * 8 + 1)
    prefixes = made(most=8)
    assert not any(attended(prefixes, 3, 4) for _ in range(5))


@pytest.mark.parametrize(("cache_format", "dtype"), [(INT8, torch.float32), (BFLOAT16, torch.bfloat16)])
def test_only_what_oneDNN_multiplies_as_it_is_gets_packed(cache_format, dtype):
    backend = TorchBackend(CacheShape(1, 64, 4, 2, 16), cache_format, dtype)
    assert backend._packed._max_blocks == 0


@torch.inference_mode()
def test_a_packed_matrix_does_not_need_the_plain_one():
    matrix, x = torch.randn(64, 48), torch.randn(3, 48)
    packed = PackedMatrix(matrix, 3)
    exact = x.double() @ matrix.double().t()
    matrix.fill_(torch.nan)
    torch.testing.assert_close(packed(x).double(), exact, rtol=0, atol=48 * 2**-21)
