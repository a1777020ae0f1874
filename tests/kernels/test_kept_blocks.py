"""Blocks that stay gathered between steps are never out of date: whatever is written, freed, taken again for other
content, copied or left unwritten, attention is that of a backend which gathers in every step.
"""

from random import Random

import pytest
import torch
from kvxray_kernels import torch_backend
from kvxray_kernels.attention_variant import PLAIN, AttentionVariant
from kvxray_kernels.backend import CacheShape
from kvxray_kernels.cache_format import FLOAT32, INT8, CacheFormat
from kvxray_kernels.kept_blocks import KeptBlocks
from kvxray_kernels.torch_backend import TorchBackend

SHAPE = CacheShape(num_layers=2, num_blocks=64, block_size=4, num_kv_heads=2, head_dim=16)
HEADS, SIZE, PREFIX = 6, SHAPE.block_size, 6
# Rounding of a mean of values of size 1 over fewer than 100 tokens, summed in float32 in another order.
TOLERANCE = 100 * 2**-24


class World:
    """Sequences behind one prefix, in the cache of two backends: one keeps blocks, the other gathers."""

    def __init__(self, seed: int, cache_format: CacheFormat = FLOAT32, variant: AttentionVariant = PLAIN) -> None:
        self.random = Random(seed)
        self.numbers = torch.Generator().manual_seed(seed)
        self.variant = variant
        self.keeping, self.gathering = (
            TorchBackend(SHAPE, cache_format, torch.float32, cascade=cascade) for cascade in (True, False)
        )
        for name in ("key_cache", "value_cache", "key_scales", "value_scales"):
            tensor = getattr(self.keeping, name)
            if tensor is not None and tensor.is_floating_point():
                tensor.fill_(torch.nan)  # what nobody wrote
            setattr(self.gathering, name, tensor)
        self.free = list(range(1, SHAPE.num_blocks))
        self.random.shuffle(self.free)
        self.begin()

    def begin(self) -> None:
        """A prefix of new content, in the blocks that were freed last, and three sequences behind it."""
        self.prefix = [self.free.pop() for _ in range(PREFIX)]
        self.tables: list[list[int]] = []
        self.lens: list[int] = []
        self.write(self.prefix, range(PREFIX * SIZE))
        for _ in range(3):
            self.join()

    def join(self) -> None:
        self.tables.append(list(self.prefix))
        self.lens.append(PREFIX * SIZE)
        for _ in range(self.random.randrange(1, 6)):
            self.grow(len(self.lens) - 1)

    def leave(self) -> None:
        i = self.random.randrange(len(self.lens))
        self.free += self.tables.pop(i)[PREFIX:]
        self.lens.pop(i)

    def end(self) -> None:
        while self.lens:
            self.leave()
        self.free += reversed(self.prefix)  # that is, to be taken again in the same order

    def begin_again(self) -> None:
        self.end()
        self.begin()

    def fork(self) -> None:
        """Another sequence goes on from copies of one's own blocks."""
        i = self.random.randrange(len(self.lens))
        own = self.tables[i][PREFIX:]
        copies = [self.free.pop() for _ in own]
        self.keeping.copy_blocks(list(zip(own, copies, strict=True)))
        self.tables.append(self.prefix + copies)
        self.lens.append(self.lens[i])

    def rewind(self) -> None:
        """One goes back to where its own tokens begin, its blocks as they are."""
        self.lens[self.random.randrange(len(self.lens))] = PREFIX * SIZE + 1

    def grow(self, i: int) -> None:
        position = self.lens[i]
        if position == len(self.tables[i]) * SIZE:
            self.tables[i].append(self.free.pop())
        self.lens[i] += 1
        self.write(self.tables[i], [position])

    def write(self, table: list[int], positions) -> None:
        slots = torch.tensor([table[p // SIZE] * SIZE + p % SIZE for p in positions])
        for layer in range(SHAPE.num_layers):
            rows = torch.randn(2, len(slots), SHAPE.num_kv_heads, SHAPE.head_dim, generator=self.numbers)
            self.keeping.write_kv(layer, *rows, slots)

    def step(self) -> None:
        """A token for each; asserts that both backends see the same."""
        for i in range(len(self.lens)):
            self.grow(i)
        step = [1] * len(self.lens), self.lens, self.tables
        kept, gathered = self.keeping.build_metadata(*step), self.gathering.build_metadata(*step)
        q = torch.randn(len(self.lens), HEADS, SHAPE.head_dim, generator=self.numbers)
        for layer in self.random.sample(range(SHAPE.num_layers), self.random.choice([1, 2, 2])):
            expected = self.gathering.attend(layer, q, gathered, self.variant)
            assert expected.isfinite().all()
            got = self.keeping.attend(layer, q, kept, self.variant)
            torch.testing.assert_close(got, expected, rtol=0, atol=TOLERANCE)

    def walk(self) -> None:
        for _ in range(30):
            self.step()
            if max(self.lens) > 9 * SIZE or len(self.lens) > 5:
                self.begin_again()
            change = self.random.choice([self.join, self.leave, self.fork, self.rewind, self.begin_again, None, None])
            if change is not None and (len(self.lens) > 2 or change != self.leave):
                change()


@pytest.mark.parametrize("cache_format", [FLOAT32, INT8], ids=["float32", "int8"])
@pytest.mark.parametrize("seed", range(3))
def test_blocks_may_be_written_freed_reused_copied_and_rewound(seed, cache_format):
    world = World(seed, cache_format)
    world.walk()
    assert (world.keeping._kept.num_bytes > 0) == (cache_format is FLOAT32)


def test_windows_read_past_what_is_kept():
    World(0, variant=AttentionVariant(sliding_window=7)).walk()


BUGS = {
    "a block that was written stays as it was": ("wrote", lambda *_: None),
    "copies have been brought up to date already": ("bring_up_to_date", lambda *_: None),
}


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_a_stale_block_is_found(bug, monkeypatch):
    world = World(0)
    world.step()
    monkeypatch.setattr(KeptBlocks, *bug)
    with pytest.raises(AssertionError, match="not close"):
        world.walk()


def test_a_copy_into_a_block_that_is_read_is_seen():
    world = World(0)
    world.step()
    for target in (world.prefix[0], world.tables[1][PREFIX]):
        world.keeping.copy_blocks([(world.prefix[2], target)])
        world.step()


def test_a_block_freed_and_taken_again_for_other_content_is_read_anew():
    world = World(0)
    world.step()
    before = [table[:PREFIX] for table in world.tables]
    world.begin_again()
    assert world.tables[0][:PREFIX] == before[0], "the same blocks in the same places"
    world.step()


def test_a_step_copies_only_the_tokens_that_it_writes(monkeypatch):
    world = World(0)
    world.step()
    copied = []
    copying = KeptBlocks._copying

    def taken_down(*args):
        found = copying(*args)
        copied.append(set(found.slots.tolist()))
        return found

    monkeypatch.setattr(KeptBlocks, "_copying", taken_down)
    monkeypatch.setattr(world.random, "sample", lambda layers, number: [0])
    world.lens = [PREFIX * SIZE + 1 for _ in world.lens]  # from here on in their first own blocks
    world.step()
    copied.clear()
    world.step()
    assert copied == [{table[PREFIX] * SIZE + 2 for table in world.tables}]


def test_kept_tokens_of_a_kv_head_lie_side_by_side_so_that_all_sequences_are_one_product():
    world = World(0)
    world.step()
    metadata = world.keeping.build_metadata([1] * len(world.lens), world.lens, world.tables)
    (shared,) = metadata.shared_groups
    assert [len(region) for region in metadata.kept] == [
        blocks.ids.numel() for blocks in (shared.blocks, *(suffix.blocks for suffix in shared.suffixes))
    ]
    for layer in range(SHAPE.num_layers):
        world.keeping.attend(layer, torch.zeros(len(world.lens), HEADS, SHAPE.head_dim), metadata)
        for kept, cache in zip(
            world.keeping._kept.read(layer, 0, PREFIX),
            (world.keeping.key_cache, world.keeping.value_cache),
            strict=True,
        ):
            assert kept.is_contiguous()
            assert torch.equal(kept, cache[layer, world.prefix].flatten(0, 1).transpose(0, 1))


def test_memory_is_given_back_by_the_first_step_in_which_nothing_is_shared():
    world = World(0)
    world.step()
    held = world.keeping._kept.num_bytes
    assert 0 < held <= SHAPE.bytes_per_block(FLOAT32) * SHAPE.num_blocks
    world.keeping.build_metadata([1], world.lens[:1], world.tables[:1])
    assert world.keeping._kept.num_bytes == 0
    world.step()


@pytest.mark.parametrize("blocks", [0, PREFIX - 1, PREFIX, PREFIX + 2])
def test_what_would_take_too_much_memory_is_gathered_in_every_step(blocks, monkeypatch):
    monkeypatch.setattr(torch_backend, "MAX_KEPT_BYTES", blocks * SHAPE.bytes_per_block(FLOAT32))
    world = World(0)
    world.walk()
    assert world.keeping._kept.num_bytes <= blocks * SHAPE.bytes_per_block(FLOAT32)
