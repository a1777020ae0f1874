"""One step as the Triton kernels walk it: which rows of queries share a program, and what each of them reads.

Made on the host once a step and taken to the device in one copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch

from kvxray_kernels.backend import AttentionMetadata
from kvxray_kernels.shared_prefix import SharedPrefix
from kvxray_kernels.triton_kernels.tiles import tiles_for


@dataclass(frozen=True, slots=True)
class DeviceStep:
    """For one number of query heads. All tensors are int32."""

    context_lens: torch.Tensor  # [decode sequences]
    suffix_starts: torch.Tensor  # [decode sequences]: tokens of each that cascade attends
    members: torch.Tensor  # sequences that share a prefix, group after group
    row_tiles: torch.Tensor  # [tiles, 3]: first member, members, tokens of the prefix
    query_tiles: torch.Tensor  # [tiles, 4]: sequence, first query token, its position, query tokens
    longest_suffix: int
    longest_prefix: int


@dataclass(frozen=True, slots=True)
class TritonMetadata(AttentionMetadata):
    """The step, and what was made of it. How many query heads there are is known with the first query only."""

    num_decodes: int
    groups: tuple[SharedPrefix, ...]  # of decode sequences
    by_heads: dict[int, DeviceStep] = field(default_factory=dict)


def make_device_step(
    metadata: TritonMetadata, block_size: int, dtype: torch.dtype, head_dim: int, group: int
) -> DeviceStep:
    """`group` is the number of query heads of one kv head; `dtype` of queries."""
    context_lens = metadata.context_lens[: metadata.num_decodes]
    suffix_starts = [0] * metadata.num_decodes
    for shared in metadata.groups:
        for i in shared.sequences:
            suffix_starts[i] = shared.num_blocks * block_size
    lens, starts, members, row_tiles, query_tiles = _upload(
        metadata.block_tables.device,
        context_lens,
        suffix_starts,
        [i for shared in metadata.groups for i in shared.sequences],
        _row_tiles(metadata.groups, block_size, tiles_for("cascade", dtype, head_dim, group).rows // group),
        _query_tiles(metadata, tiles_for("prefill", dtype, head_dim, group).rows // group),
    )
    longest_suffix = max((n - start for n, start in zip(context_lens, suffix_starts, strict=True)), default=0)
    longest_prefix = max(suffix_starts, default=0)
    return DeviceStep(
        lens, starts, members, row_tiles.view(-1, 3), query_tiles.view(-1, 4), longest_suffix, longest_prefix
    )


def _row_tiles(groups: Sequence[SharedPrefix], block_size: int, members_each: int) -> list[int]:
    numbers, first = [], 0
    for group in groups:
        end = first + len(group.sequences)
        for member in range(first, end, members_each):
            numbers += [member, min(members_each, end - member), group.num_blocks * block_size]
        first = end
    return numbers


def _query_tiles(metadata: TritonMetadata, tokens_each: int) -> list[int]:
    numbers = []
    for i in range(metadata.num_decodes, len(metadata.query_lens)):
        query_len = metadata.query_lens[i]
        position = metadata.context_lens[i] - query_len
        for offset in range(0, query_len, tokens_each):
            tokens = min(tokens_each, query_len - offset)
            numbers += [i, metadata.query_starts[i] + offset, position + offset, tokens]
    return numbers


def _upload(device: torch.device, *rows: Iterable[int]) -> list[torch.Tensor]:
    """Lists of numbers as int32 tensors, by one copy; each starts at 16 bytes, which Triton compiles for apart."""
    numbers: list[int] = []
    bounds = []
    for row in rows:
        first = len(numbers)
        numbers += row
        bounds.append((first, len(numbers)))
        numbers += [0] * (-len(numbers) % 4)
    together = torch.tensor(numbers, dtype=torch.int32).to(device)
    return [together[first:last] for first, last in bounds]
