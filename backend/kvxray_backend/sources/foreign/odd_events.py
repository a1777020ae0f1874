"""An event that is not quite as it is known to be, field by field: what can be understood of it is kept.

What decides which block is meant where (hashes, parent, tokens, block size, medium, group) must be what it should be,
or the event is bad. What only describes is left out and counted where it is not; so are fields that nobody knows.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import MsgspecError, Raw
from msgspec.msgpack import Decoder

from kvxray_backend.sources.foreign.block_hashes import hash_of_text
from kvxray_backend.sources.foreign.caps import MAX_FIELDS, BadBatch, BadEvent
from kvxray_backend.sources.foreign.msgpack_parts import UNREADABLE, Value, array_size, elements, entries, map_size
from kvxray_backend.sources.foreign.oddity_count import OddityCount
from kvxray_backend.sources.foreign.wire_events import (
    AnyHash,
    BlockSize,
    ClearedArray,
    ClearedMap,
    Group,
    Number,
    RemovedArray,
    RemovedMap,
    StoredArray,
    StoredMap,
    Text,
    WireEvent,
)

_KINDS: Final[dict[str, tuple[type[WireEvent], type[WireEvent]]]] = {
    "BlockStored": (StoredArray, StoredMap),
    "BlockRemoved": (RemovedArray, RemovedMap),
    "AllBlocksCleared": (ClearedArray, ClearedMap),
}
_TAG: Final = Decoder(str)
_HASHES: Final = Decoder(list[AnyHash])
_HEX_HASHES: Final = Decoder(list[str])
_HASH: Final = Decoder(AnyHash | None)
_HEX_HASH: Final = Decoder(str)
_TEXT: Final = Decoder(Text)
_NUMBER: Final = Decoder(Number)
_MUST: Final[dict[str, Decoder[Any]]] = {
    "block_size": Decoder(BlockSize),
    "medium": _TEXT,
    "group_idx": Decoder(Group),
}
_MAY: Final[dict[str, Decoder[Any]]] = {
    "lora_id": _NUMBER,
    "kv_cache_spec_sliding_window": _NUMBER,
    **dict.fromkeys(("lora_name", "kv_cache_spec_kind", "locality", "ownership", "session_id", "cache_salt"), _TEXT),
}


def read_odd_event(event: Raw, odd: OddityCount, room: int) -> WireEvent | None:
    """The event as a map would have told it, None for one of an unknown kind; `room`: hashes that are still taken.

    Raises `BadEvent` or msgspec's errors for a bad one, `BadBatch` where its hashes are too many.
    """
    tag, fields = _as_map(event, odd) if map_size(event) is not None else _as_array(event, odd)
    if tag not in _KINDS:
        odd.unknown_event(tag)
        return None
    kind = _KINDS[tag][1]
    if "block_hashes" not in fields and "block_hashes" in kind.__struct_fields__:
        raise BadEvent("An event tells no hashes.")
    told = {name: _value(tag, name, value, odd, room) for name, value in fields.items()}
    return kind(**told)


def _as_map(event: Raw, odd: OddityCount) -> tuple[str, dict[str, Raw]]:
    fields = entries(event)
    if "type" not in fields:
        raise BadEvent("An event does not say what it is.")
    tag = _TAG.decode(fields.pop("type"))
    if tag in _KINDS:
        for name in fields.keys() - set(_KINDS[tag][1].__struct_fields__):
            odd.unknown_field(tag, name)
            del fields[name]
    return tag, fields


def _as_array(event: Raw, odd: OddityCount) -> tuple[str, dict[str, Raw]]:
    parts = elements(event, MAX_FIELDS)
    if not parts:
        raise BadEvent("An event is an empty list.")
    tag, values = _TAG.decode(parts[0]), parts[1:]
    names = _KINDS[tag][0].__struct_fields__ if tag in _KINDS else ()
    if tag in _KINDS:
        for position in range(len(names), len(values)):
            odd.unknown_field(tag, str(position + 1))
    return tag, dict(zip(names, values, strict=False))


def _value(tag: str, name: str, value: Raw, odd: OddityCount, room: int) -> Any:
    if name == "block_hashes":
        return _hashes(value, room)
    if name == "parent_block_hash":
        return _parent(value)
    if name in _MUST:
        return _MUST[name].decode(value)
    if name not in _MAY:
        return value
    try:
        return _MAY[name].decode(value)
    except UNREADABLE:
        odd.unknown_field(tag, name)
        return None


def _hashes(value: Value, room: int) -> list[AnyHash]:
    size = array_size(value)
    if size is not None and size > room:
        raise BadBatch("The batch carries more hashes than are taken of one.")
    try:
        return _HASHES.decode(value)
    except MsgspecError:
        return [hash_of_text(text) for text in _HEX_HASHES.decode(value)]


def _parent(value: Value) -> AnyHash | None:
    try:
        told: AnyHash | None = _HASH.decode(value)
    except MsgspecError:
        return hash_of_text(_HEX_HASH.decode(value))
    return told
