"""What a foreign engine is, as its batches tell it bit by bit: groups, media with their blocks, and block sizes. Pure.

Each has an index that stands for the whole epoch. A medium is the same in upper and lower case; one that is not told is
the GPU's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from kvxray_engine.stream.residency_descriptor import MAX_BLOCK_SIZES, MAX_GROUPS, MAX_MEDIA, NOT_TOLD, describe
from kvxray_engine.stream.schema import Descriptor, Group, Pool

from kvxray_backend.sources.foreign.caps import BadBatch
from kvxray_backend.sources.foreign.media import tier_of
from kvxray_backend.sources.foreign.told import Cleared, Created, Moved, Place, Removed, Stored, Told

_GPU: Final = "GPU"
_MAX_NUM_BLOCKS: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class Described:
    """`media`: names in upper case, as told in `names`. `num_blocks`: by medium and window, as engines tell them."""

    groups: tuple[Group, ...] = (Group(""),)
    media: tuple[str, ...] = (_GPU,)
    names: tuple[str, ...] = (_GPU,)
    block_sizes: tuple[int, ...] = (0,)
    num_blocks: dict[tuple[str, int], int] = field(default_factory=dict)

    def descriptor(self, like: Descriptor = NOT_TOLD) -> Descriptor:
        pools = tuple(
            Pool(tier_of(medium) or medium, name, 0, self._blocks_of(medium))
            for medium, name in zip(self.media, self.names, strict=True)
        )
        return describe(self.groups, pools, self.block_sizes, like)

    def medium_index(self, medium: str) -> int:
        return self.media.index(medium.upper() or _GPU)

    def cleared_media(self, medium: str) -> list[int]:
        """Indices of what a clear means: every medium of the GPU where it names none."""
        if medium:
            return [self.medium_index(medium)]
        return [index for index, one in enumerate(self.media) if tier_of(one) == _GPU]

    def _blocks_of(self, medium: str) -> int:
        told = [count for (one, _), count in self.num_blocks.items() if one == medium]
        return min(sum(told), _MAX_NUM_BLOCKS)


def described_by(described: Described, events: tuple[Told, ...]) -> Described:
    """What is known after these events; the same object where they tell nothing new. Raises `BadBatch` for one that
    tells of more groups, media or block sizes than are followed.
    """
    for event in events:
        if isinstance(event, Stored):
            described = _with_group(_with_place(described, event.place), event)
            described = _with_block_size(described, event.block_size)
        elif isinstance(event, Removed):
            described = _with_place(described, event.place)
        elif isinstance(event, Moved):
            described = _with_place(_with_place(described, event.source), event.target)
        elif isinstance(event, Cleared):
            described = _with_medium(described, event.medium)
        else:
            described = _with_num_blocks(described, event)
    return described


def _with_place(described: Described, place: Place) -> Described:
    missing = place.group + 1 - len(described.groups)
    if missing > 0:
        if place.group >= MAX_GROUPS:
            raise BadBatch(f"The batch tells of group {place.group}; at most {MAX_GROUPS} are followed.")
        described = replace(described, groups=described.groups + (Group(""),) * missing)
    return _with_medium(described, place.medium)


def _with_medium(described: Described, told: str) -> Described:
    medium = told.upper() or _GPU
    if medium in described.media:
        return described
    if len(described.media) == MAX_MEDIA:
        raise BadBatch(f"The batch tells of another medium; at most {MAX_MEDIA} are followed.")
    return replace(described, media=(*described.media, medium), names=(*described.names, told))


def _with_group(described: Described, event: Stored) -> Described:
    """What was told first of a group counts."""
    index, groups = event.place.group, described.groups
    group, spec = groups[index], event.spec
    told = Group(group.kind or spec.kind, group.window or spec.window, group.block_size or event.block_size)
    if told == group:
        return described
    return replace(described, groups=(*groups[:index], told, *groups[index + 1 :]))


def _with_block_size(described: Described, size: int) -> Described:
    if size in described.block_sizes:
        return described
    if len(described.block_sizes) == MAX_BLOCK_SIZES:
        raise BadBatch(f"The batch tells of another block size; at most {MAX_BLOCK_SIZES} are followed.")
    return replace(described, block_sizes=(*described.block_sizes, size))


def _with_num_blocks(described: Described, event: Created) -> Described:
    for told, count in event.num_blocks:
        described = _with_medium(described, told)
        key = (told.upper() or _GPU, event.window)
        if described.num_blocks.get(key) == count:
            continue
        if len(described.num_blocks) >= MAX_MEDIA * MAX_GROUPS:
            raise BadBatch("The batch tells of the size of one more cache than are followed.")
        described = replace(described, num_blocks={**described.num_blocks, key: count})
    return described
