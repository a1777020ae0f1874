"""One spelling for block hashes: numbers, signed or not, bytes and hex text all become bytes.

A number becomes 8 big-endian bytes, a negative one by two's complement: -1 and 2^64-1 are one hash. What a hash is made
of is its engine's business: it is never recomputed.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from kvxray_backend.sources.foreign.caps import BadEvent
from kvxray_backend.sources.foreign.told import Hash

WIDTHS: Final = (8, 16, 32)
_MASK: Final = (1 << 64) - 1
_EIGHT: Final = struct.Struct("8s")
_HEX_LENGTHS: Final = tuple(2 * width for width in WIDTHS)
_is_hex: Final = re.compile("[0-9a-fA-F]+").fullmatch
_first: Final = itemgetter(0)


def hashes_of(told: Sequence[int | bytes]) -> tuple[Hash, ...]:
    """All hashes of one event. Raises `BadEvent` for one that fits no width."""
    if len(told) == 1:
        return (hash_of(told[0]),)
    try:
        packed = struct.pack(f">{len(told)}Q", *told)
    except struct.error:  # bytes, or a number below 0
        return tuple(map(hash_of, told))
    return tuple(map(_first, _EIGHT.iter_unpack(packed)))


def hash_of_number(number: int) -> Hash:
    """Raises `BadEvent` for a number that does not fit 64 bits."""
    if not -(1 << 63) <= number <= _MASK:
        raise BadEvent("A block hash does not fit 64 bits.")
    return (number & _MASK).to_bytes(8, "big")


def hash_of_bytes(value: bytes) -> Hash:
    """Raises `BadEvent` for a width that no engine has."""
    if len(value) not in WIDTHS:
        raise BadEvent(f"A block hash of {len(value)} bytes is not one of 8, 16 or 32.")
    return value


def hash_of_text(text: str) -> Hash:
    """A hash as hex digits. Raises `BadEvent` for anything else."""
    if len(text) not in _HEX_LENGTHS or not _is_hex(text):
        raise BadEvent("A block hash is text, but not hex of 8, 16 or 32 bytes.")
    return bytes.fromhex(text)


def hash_of(told: int | bytes | str) -> Hash:
    """One hash, however it is told. Raises `BadEvent`."""
    if isinstance(told, int):
        return hash_of_number(told)
    return hash_of_bytes(told) if isinstance(told, bytes) else hash_of_text(told)
