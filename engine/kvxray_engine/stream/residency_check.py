"""Whether events tell of hashes as their source has described itself: what no fold of hashes could take is refused."""

from __future__ import annotations

from typing import Final

from kvxray_engine.stream.codec import BadMessage
from kvxray_engine.stream.columns import HAS_ROWS, Columns, kind_table
from kvxray_engine.stream.residency_descriptor import ALL_MEDIA, ANY_GROUP, decode_residency_descriptor, following
from kvxray_engine.stream.schema import RESIDENCY_KINDS, Descriptor, Header, Kind

_FOLDED: Final = kind_table(RESIDENCY_KINDS)


def described_events(header: Header, columns: Columns, descriptor: Descriptor) -> Descriptor:
    """The descriptor that holds for these events: the message tells of the source what it tells for the first time.

    descriptor: the one before. Raises `BadMessage` for what is no message of such a stream.
    """
    if header.descriptor:
        descriptor = following(descriptor, decode_residency_descriptor(header.descriptor))
    if (HAS_ROWS[columns.kind] & ~_FOLDED[columns.kind]).any():
        raise BadMessage("The message tells of blocks, not of hashes: it is no stream of residency.")
    end = header.hash0 + len(columns.hashes) // header.hash_width
    if any(len(column) and int(column.max()) >= end for column in (columns.blk, columns.val)):
        raise BadMessage("The message names a hash that the stream has not told.")
    _check_places(columns, descriptor)
    return descriptor


def _check_places(columns: Columns, descriptor: Descriptor) -> None:
    is_row = _FOLDED[columns.kind]
    a1, is_removed = columns.a1[is_row], columns.kind[is_row] == Kind.ResidencyRemoved
    group, medium, size = a1 & 0xFF, (a1 >> 8) & 0xFF, a1 >> 16
    if ((group >= len(descriptor.groups)) & ~((group == ANY_GROUP) & is_removed)).any():
        raise BadMessage("The message names a group that the source has not described.")
    cleared = columns.a0[columns.kind == Kind.CacheCleared]
    num_media = len(descriptor.pools)
    if (medium >= num_media).any() or ((cleared >= num_media) & (cleared != ALL_MEDIA)).any():
        raise BadMessage("The message names a medium that the source has not described.")
    if (size >= len(descriptor.block_sizes)).any():
        raise BadMessage("The message names a block size that the source has not described.")
