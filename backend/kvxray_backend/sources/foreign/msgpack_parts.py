"""Takes msgpack apart one level at a time: an array or a map becomes its elements as bytes.

Nothing is made of what nobody reads: an element is skipped by the decoder's own C, which bounds how deep it goes, and
costs some 50 bytes however much it nests. So an unknown field, or tokens that nobody digests, are counted and no more.
"""

from __future__ import annotations

from typing import Final

from msgspec import MsgspecError, Raw
from msgspec.msgpack import Decoder

from kvxray_backend.sources.foreign.caps import MAX_FIELDS, BadEvent

Value = Raw | bytes

_ARRAY: Final = Decoder(list[Raw])
_MAP: Final = Decoder(dict[str, Raw])
_ODD_MAP: Final = Decoder(dict[int | str, Raw])
NIL: Final = b"\xc0"

UNREADABLE: Final = (BadEvent, MsgspecError, UnicodeDecodeError, RecursionError, OverflowError)
"""Whatever reading hostile msgpack can raise."""


def is_nil(value: Value) -> bool:
    return bytes(memoryview(value)[:1]) == NIL


def array_size(value: Value) -> int | None:
    """How many elements an array says it has; None: it is no array. Not more than its bytes could hold."""
    return _declared(value, 0x90, 0xDC)


def map_size(value: Value) -> int | None:
    """How many entries a map says it has; None: it is no map. Not more than its bytes could hold."""
    return _declared(value, 0x80, 0xDE)


def _declared(value: Value, fix: int, wide: int) -> int | None:
    view = memoryview(value)
    first = view[0] if view else 0
    if first & 0xF0 == fix:
        size = first & 0x0F
    elif first == wide or first == wide + 1:
        size = int.from_bytes(view[1 : 3 if first == wide else 5], "big")
    else:
        return None
    if size > len(view):
        raise BadEvent(f"A list declares {size:,} elements in {len(view):,} bytes.")
    return size


def elements(value: Value, at_most: int) -> list[Raw]:
    """The elements of an array. Raises `BadEvent` for anything else and for more than `at_most`, before making any."""
    size = array_size(value)
    if size is None or size > at_most:
        raise BadEvent("Something is no list that should be one." if size is None else f"A list has {size:,} elements.")
    return _ARRAY.decode(value)


def entries(value: Value) -> dict[str, Raw]:
    """The entries of a map by name, a key that is a number by its digits. Raises `BadEvent`, or msgspec's errors."""
    size = map_size(value)
    if size is None or size > MAX_FIELDS:
        raise BadEvent("Something is no map that should be one." if size is None else f"A map has {size:,} entries.")
    try:
        return _MAP.decode(value)
    except MsgspecError:
        return {str(key): entry for key, entry in _ODD_MAP.decode(value).items()}
