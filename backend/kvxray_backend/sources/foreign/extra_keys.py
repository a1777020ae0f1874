"""What vLLM hashed beside tokens, as far as it can be told: the keys of a block carry no tags.

One entry a block: nothing, or a list in the order adapter, images, salt, embeddings. An adapter and a salt are text,
an image is a pair (id, offset), an embedding bytes. The salt is in the first block of a prompt alone, beside the name
of the adapter where there is one; so a single text that is not that name is the salt. Tagged keys, as they are hashed
and as vLLM means to send them, are understood too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Raw

from kvxray_backend.sources.foreign.caps import MAX_KEYS_BYTES, MAX_TEXT, BadEvent
from kvxray_backend.sources.foreign.msgpack_parts import NIL, Value, elements


def _refuse(code: int, data: memoryview) -> Any:
    raise BadEvent("Keys of a block carry a msgpack extension type.")


_ANY: Final = msgspec.msgpack.Decoder(ext_hook=_refuse)


@dataclass(frozen=True, slots=True)
class Keys:
    """Adapter and salt of a block, empty where none can be told. `is_odd`: something in them was not understood."""

    lora: str = ""
    salt: str = ""
    is_odd: bool = False


def are_all_nil(value: Value, num_hashes: int) -> bool:
    """Whether nothing is told of any block, which is the rule and should cost nothing."""
    view = memoryview(value)
    return len(view) <= num_hashes + 5 and not bytes(view[-num_hashes:]).strip(NIL)


def keys_by_block(value: Value, num_hashes: int) -> list[Raw]:
    """The keys of each block, unread. Raises `BadEvent` when they are not one entry a hash, or msgspec's errors."""
    keys = elements(value, num_hashes)
    if len(keys) != num_hashes:
        raise BadEvent(f"There are keys for {len(keys):,} blocks of {num_hashes:,}.")
    return keys


def first_keys(value: Value, lora: str) -> Keys:
    """Reads the keys of the first block of a prompt; `lora`: the adapter's name as the event tells it.

    Raises `BadEvent`, or msgspec's errors.
    """
    if len(memoryview(value)) > MAX_KEYS_BYTES:
        raise BadEvent("The keys of a block are too long.")
    keys = _ANY.decode(value)
    if keys is None:
        return Keys(lora)
    if not isinstance(keys, list):
        raise BadEvent("The keys of a block are no list.")
    return _sorted_out(keys, lora)


def _sorted_out(keys: list[Any], lora: str) -> Keys:
    texts: list[str] = []
    salt, is_odd = "", False
    for key in keys:
        if isinstance(key, str):
            texts.append(key)
        elif (tagged := _tagged(key)) is not None:
            lora, salt = tagged.lora or lora, tagged.salt or salt
        elif not _is_image(key) and not isinstance(key, bytes):
            is_odd = True
    if texts and (texts[0] == lora or (len(texts) > 1 and not lora)):
        lora = texts.pop(0)
    # More than one left: an embedding that came as text perhaps, and which of them is the salt cannot be told.
    if len(texts) == 1 and not salt:
        salt = texts.pop()
    if max(len(lora), len(salt)) > MAX_TEXT:
        raise BadEvent("A key of a block is too long.")
    return Keys(lora, salt, is_odd or bool(texts))


def _tagged(key: Any) -> Keys | None:
    match key:
        case {"type": "LoRAKey", "name": str(name)} | ["lora", str(name), _]:
            return Keys(lora=name)
        case ["cache_salt", str(salt)]:
            return Keys(salt=salt)
        case ["prompt_embeds", _]:
            return Keys()
    return None


def _is_image(key: Any) -> bool:
    match key:
        case [str(), int()] | ["mm", str(), int()]:
            return True
    return False
