"""Which hashes a chunk told first, in ten bits each: what lets the search for a hash skip chunks without reading them.

    u1 0 | a bitmap in which each hash has set four bits

Empty: the chunk tells none. A yes means "perhaps" (about once in a hundred). An older kvxray rounded the number of bits
up to a power of two, and wrote its logarithm where the 0 is: nearly twice the bytes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_BITS_PER_HASH: Final = 10
_PROBES: Final = 4
_MAX_BITS: Final = 1 << 24
# Odd numbers with many bits: hashes of other engines may be small numbers in a row.
_FACTORS: Final = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93], np.uint64)


def encode_hash_filter(hashes: bytes | memoryview, width: int) -> bytes:
    """The filter of these hashes of `width` bytes each."""
    num = len(hashes) // width
    num_bytes = min(-(-num * _BITS_PER_HASH // 8), _MAX_BITS // 8)
    return b"\0" + _bitmap(hashes, width, num_bytes * 8) if num else b""


def is_of_hashes(bits: bytes, hashes: bytes | memoryview, width: int) -> bool:
    """Whether this or an older kvxray wrote this filter of these hashes."""
    num_bits = _num_bits(bits)
    if not num_bits or not bits[0]:
        return bits == encode_hash_filter(hashes, width)
    return bits[1:] == _bitmap(hashes, width, num_bits)


def may_tell(bits: bytes | None, block_hash: bytes) -> bool:
    """False: the chunk did not tell the hash. True: perhaps. `bits` None: the chunk was not indexed."""
    if bits is None:
        return True
    if len(block_hash) < 8:
        return False
    num_bits = _num_bits(bits)
    if not num_bits:
        return bool(bits)
    places = _places(block_hash, len(block_hash), num_bits).reshape(-1)
    return all(bits[1 + place // 8] >> place % 8 & 1 for place in places.tolist())


def _num_bits(bits: bytes) -> int:
    """0: there are none, or what they are is damaged."""
    size = (len(bits) - 1) * 8
    return size if 0 < size <= _MAX_BITS and (not bits[0] or 1 << min(bits[0], 64) == size) else 0


def _bitmap(hashes: bytes | memoryview, width: int, num_bits: int) -> bytes:
    bitmap = np.zeros(num_bits, np.uint8)
    bitmap[_places(hashes, width, num_bits)] = 1
    packed: NDArray[Any] = np.packbits(bitmap, bitorder="little")
    return packed.tobytes()


def _places(hashes: bytes | memoryview, width: int, num_bits: int) -> NDArray[np.int64]:
    """Four bits of each hash, out of its first and its last 8 bytes."""
    assert width >= 8, "hashes have at least 8 bytes"
    table = np.frombuffer(hashes, np.uint8).reshape(-1, width)
    # One column each, so that the factors make four of it.
    ends = (np.ascontiguousarray(part).view("<u8") for part in (table[:, :8], table[:, -8:]))
    first, last = (end.astype(np.uint64) for end in ends)
    mixed = (first ^ (last >> np.uint64(29))) * _FACTORS
    # The upper half, as a part of 2^32, of so many bits: with a power of two its upper bits, as ever.
    return ((mixed >> np.uint64(32)) * np.uint64(num_bits) >> np.uint64(32)).astype(np.int64)
