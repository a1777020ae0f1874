"""What an engine is that tells of hashes only: its groups, media and block sizes, and how its events point at them.

a1 of a residency event: group in the low byte, medium (the index of a pool) in the next one, index of the block size in
the upper half. Group and medium together are the *place*, 16 bits.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kvxray_engine.stream.codec import MAX_BLOCKS, BadMessage
from kvxray_engine.stream.schema import Descriptor, Group, Pool

ANY_GROUP: Final = 255
"""The group of removals that name none, where there are several: each group that has the hash loses a copy."""
ALL_MEDIA: Final = 255
MAX_GROUPS: Final = 128
MAX_MEDIA: Final = 64
MAX_BLOCK_SIZES: Final = 1024
MAX_BLOCK_SIZE: Final = 1 << 24
FULL_KINDS: Final = frozenset({"", "full", "full_attention", "mla_attention", "sink_full_attention"})
"""Groups that hold every block of a chain; others drop or skip some by design."""

NOT_TOLD: Final = Descriptor(num_blocks=0, block_size=0, groups=(Group(""),), pools=(), block_sizes=(0,))

_DESCRIPTOR: Final = msgspec.json.Decoder(Descriptor)


def place_of(group: int, medium: int) -> int:
    return group | medium << 8


def group_of(place: int) -> int:
    return place & 0xFF


def medium_of(place: int) -> int:
    return place >> 8


def describe(
    groups: tuple[Group, ...], pools: tuple[Pool, ...], block_sizes: tuple[int, ...], like: Descriptor = NOT_TOLD
) -> Descriptor:
    """Another descriptor of the same engine; block_size is the first that was told, num_blocks those of all pools."""
    return msgspec.structs.replace(
        like,
        num_blocks=sum(pool.num_blocks for pool in pools),
        block_size=block_sizes[1] if len(block_sizes) > 1 else 0,
        groups=groups,
        pools=pools,
        block_sizes=block_sizes,
    )


def decode_residency_descriptor(data: bytes) -> Descriptor:
    """Reads the JSON descriptor of an engine that tells of hashes only. Raises `BadMessage`."""
    try:
        descriptor = _DESCRIPTOR.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadMessage(f"The descriptor of the source cannot be read: {error}.") from error
    check_residency_descriptor(descriptor)
    return descriptor


def check_residency_descriptor(descriptor: Descriptor) -> None:
    """Raises `BadMessage` with one sentence for what is no descriptor of such an engine."""
    groups, pools, sizes = descriptor.groups, descriptor.pools, descriptor.block_sizes
    if not 0 < len(groups) <= MAX_GROUPS or len(pools) > MAX_MEDIA or not 0 < len(sizes) <= MAX_BLOCK_SIZES:
        raise BadMessage(
            "The descriptor names no groups or block sizes, or more of them or of media than are followed."
        )
    if sizes[0] != 0 or min(sizes) < 0 or max(sizes) > MAX_BLOCK_SIZE or len(set(sizes)) != len(sizes):
        raise BadMessage("The descriptor names an impossible block size, or one twice.")
    if any(not 0 <= pool.num_blocks <= MAX_BLOCKS for pool in pools):
        raise BadMessage("The descriptor names a medium with an impossible number of blocks.")


def following(before: Descriptor, told: Descriptor) -> Descriptor:
    """What holds after `told`; raises `BadMessage` as `check_follows`. A batch that came late may tell less than what
    is known by then: nothing is forgotten for that.
    """
    is_older = len(told.pools) < len(before.pools) or len(told.block_sizes) < len(before.block_sizes)
    if is_older or len(told.groups) < len(before.groups):
        check_follows(told, before)
        return before
    check_follows(before, told)
    groups = tuple(map(_known_of, before.groups, told.groups))
    return msgspec.structs.replace(told, groups=groups + told.groups[len(groups) :])


def _known_of(before: Group, told: Group) -> Group:
    return Group(told.kind or before.kind, told.window or before.window, told.block_size or before.block_size)


def check_follows(before: Descriptor, after: Descriptor) -> None:
    """Raises `BadMessage` unless what events of before pointed at still stands at its index."""
    media = [(pool.medium, pool.name) for pool in before.pools]
    is_kept = (
        media == [(pool.medium, pool.name) for pool in after.pools[: len(media)]]
        and before.block_sizes == after.block_sizes[: len(before.block_sizes)]
        and len(before.groups) <= len(after.groups)
    )
    if not is_kept:
        raise BadMessage("The new descriptor gives other groups, media or block sizes to what was told before.")
