"""Binary frames for viewers: a snapshot of every block, or a delta of the changed ones. Layout in docs/architecture.md.

Little endian: a header of 64 bytes, then columns of one byte a block (a delta has the u4 block ids before them). Values
are absolute and the last wins, so that applying a frame twice is harmless. Pure: knows neither sockets nor the fold.

`seq_to` of a frame counts events, plus 1/1024 for each change that no event told (a leak found, a snapshot in place of
unknown blocks), so that it always grows with the picture; a viewer compares it as a number and shows its whole part.
Before the first event it is below 0: there is no event to name.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from kvxray_engine.stream.schema import UNKNOWN_U4
from numpy.typing import NDArray

MAGIC: Final = b"KVXB"
FRAME_VERSION: Final = 1
HEADER: Final = struct.Struct("<4sBBHIIdddIiIIQ")
UNKNOWN_BYTE: Final = 255
MAX_BYTE: Final = 254

FLAG_LEAKED: Final = 1
FLAG_NULL_BLOCK: Final = 2
FLAG_HASHED: Final = 4
FLAG_LEAKED_ONLY: Final = 8
"""All its holders have ended: nobody living uses it."""

U1 = NDArray[np.uint8]
U4 = NDArray[np.uint32]


class FrameType(IntEnum):
    snapshot = 1
    delta = 2


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """What both kinds of frame begin with. `time_s`: Unix seconds of the last event. `null_block`: -1 = none."""

    epoch: int
    num_blocks: int
    seq_from: float
    seq_to: float
    time_s: float
    null_block: int
    block_size: int
    usable: int

    def pack(self, type: FrameType, count: int) -> bytes:
        head = (MAGIC, FRAME_VERSION, type, 0, self.epoch, self.num_blocks, self.seq_from, self.seq_to, self.time_s)
        return HEADER.pack(*head, count, self.null_block, self.block_size, self.usable, 0)


@dataclass(frozen=True, slots=True)
class Picture:
    """How blocks look: four columns of one byte each, all of one length."""

    state: U1
    ref: U1
    fill: U1
    flags: U1

    @property
    def columns(self) -> tuple[U1, U1, U1, U1]:
        return (self.state, self.ref, self.fill, self.flags)

    def tobytes(self) -> bytes:
        return b"".join(column.tobytes() for column in self.columns)

    def differs_from(self, other: Picture) -> NDArray[np.bool_]:
        """Which blocks look different in another picture of the same blocks."""
        differing: NDArray[np.bool_] = np.zeros(len(self.state), bool)
        for mine, theirs in zip(self.columns, other.columns, strict=True):
            differing |= mine != theirs
        return differing


def ref_bytes(ref: U4) -> U1:
    """ref_cnt in one byte: capped at 254, 255 = unknown."""
    return np.where(ref == UNKNOWN_U4, UNKNOWN_BYTE, np.minimum(ref, MAX_BYTE)).astype(np.uint8)


def fill_bytes(slots: NDArray[np.uint16], unknown: NDArray[np.bool_], block_size: int) -> U1:
    """Written slots in one byte: 0 to 254 of a full block, rounded up so that one slot shows; 255 = unknown."""
    scaled = -(-(slots.astype(np.int64) * MAX_BYTE) // block_size)
    return np.where(unknown, UNKNOWN_BYTE, np.minimum(scaled, MAX_BYTE)).astype(np.uint8)


def encode_snapshot(header: FrameHeader, picture: Picture) -> bytes:
    assert len(picture.state) == header.num_blocks, "a snapshot shows every block"
    return header.pack(FrameType.snapshot, header.num_blocks) + picture.tobytes()


def encode_delta(header: FrameHeader, block_ids: U4, picture: Picture) -> bytes:
    assert len(picture.state) == len(block_ids), "a delta shows each of its blocks"
    return header.pack(FrameType.delta, len(block_ids)) + block_ids.astype("<u4").tobytes() + picture.tobytes()
