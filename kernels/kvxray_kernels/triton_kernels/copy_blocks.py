"""Copies whole blocks within the paged cache: keys, values and scales, in all layers.

All sources are read before anything is written, so that blocks may be swapped, or each take its neighbour's place.
Programs of one launch run in no order, so this takes two launches where a block is both source and destination: the
first gathers the sources to scratch memory, the second writes from there, and launches of one stream run one after the
other. Where no block is both (copy on write, always), one launch copies from block to block.

A block is plain words here, 32 bits where its size allows. One program copies a chunk of one block in one layer.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

CHUNK_WORDS = 2048  # of one program: each of its 128 threads has four loads of 16 bytes in flight
COPY_WARPS = 4


def copy_blocks(
    key_cache: torch.Tensor,  # [num_layers, num_blocks, block_size, num_kv_heads, items], contiguous
    value_cache: torch.Tensor,
    key_scales: torch.Tensor | None,  # [num_layers, num_blocks, block_size, num_kv_heads, scales], contiguous
    value_scales: torch.Tensor | None,
    pairs: Sequence[tuple[int, int]],  # (source, destination); where two write one block, the last counts
) -> None:
    source_of = {destination: source for source, destination in pairs}
    if not source_of:
        return
    device, count = key_cache.device, len(source_of)
    moves = torch.tensor([(s, d) for d, s in source_of.items()], dtype=torch.int64).to(device)
    caches = [
        words_of_blocks(cache) for cache in (key_cache, value_cache, key_scales, value_scales) if cache is not None
    ]
    if source_of.keys().isdisjoint(source_of.values()):
        for cache in caches:
            _copy(cache, cache, moves)
        return
    places = torch.arange(count, device=device)
    into_scratch = torch.stack((moves[:, 0], places), dim=1)
    out_of_scratch = torch.stack((places, moves[:, 1]), dim=1)
    for cache in caches:
        scratch = torch.empty((cache.shape[0], count, cache.shape[2]), dtype=cache.dtype, device=device)
        _copy(cache, scratch, into_scratch)
        _copy(scratch, cache, out_of_scratch)


def words_of_blocks(cache: torch.Tensor) -> torch.Tensor:
    """The cache as [num_layers, num_blocks, words]."""
    blocks = cache.view(cache.shape[0], cache.shape[1], -1)
    whole_words = blocks.shape[2] * blocks.element_size() % 4 == 0
    return blocks.view(torch.int32 if whole_words else torch.uint8)


def chunk_words(words: int) -> int:
    """Words of one program's chunk of a block: a power of two."""
    return int(min(CHUNK_WORDS, triton.next_power_of_2(words)))


def _copy(source: torch.Tensor, destination: torch.Tensor, moves: torch.Tensor) -> None:
    num_layers, _, words = source.shape
    chunk = chunk_words(words)
    copy_blocks_kernel[(len(moves), num_layers, triton.cdiv(words, chunk))](
        source,
        destination,
        moves,
        source.stride(0),
        destination.stride(0),
        WORDS=words,
        CHUNK=chunk,
        num_warps=COPY_WARPS,
    )


@triton.jit
def copy_blocks_kernel(
    source_ptr: tl.tensor,
    destination_ptr: tl.tensor,
    moves_ptr: tl.tensor,  # int64 [moves, 2]
    source_layer_stride: tl.tensor,
    destination_layer_stride: tl.tensor,
    WORDS: tl.constexpr,  # of a block
    CHUNK: tl.constexpr,
) -> None:
    move = tl.program_id(0)
    layer = tl.program_id(1).to(tl.int64)
    source = source_ptr + layer * source_layer_stride + tl.load(moves_ptr + move * 2) * WORDS
    destination = destination_ptr + layer * destination_layer_stride + tl.load(moves_ptr + move * 2 + 1) * WORDS
    word = tl.program_id(2) * CHUNK + tl.arange(0, CHUNK)
    tl.store(destination + word, tl.load(source + word, mask=word < WORDS), mask=word < WORDS)
