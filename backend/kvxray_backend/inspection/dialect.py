"""How a payload of msgpack is written, in a few words: engines and their releases differ in it. Pure."""

from __future__ import annotations

from typing import Final, Literal

from kvxray_backend.sources.foreign.caps import MAX_EVENTS, MAX_FIELDS
from kvxray_backend.sources.foreign.msgpack_parts import UNREADABLE, Value, elements, entries, map_size

Encoding = Literal["maps", "arrays"]

_ENGINES: Final[dict[frozenset[Encoding], str]] = {
    frozenset(("maps",)): "events as maps (vLLM from 0.24, SGLang, TensorRT-LLM)",
    frozenset(("arrays",)): "events as arrays (vLLM before 0.24)",
    frozenset(("maps", "arrays")): "events as maps and as arrays, mixed",
    frozenset(): "no event that tells how events are written",
}


def encodings_of(payload: bytes) -> frozenset[Encoding]:
    """How the events of a batch are written; none of what is no batch."""
    try:
        if map_size(payload) is not None:
            events: Value = entries(payload)["events"]
        else:
            events = elements(payload, MAX_FIELDS)[1]
        return frozenset("arrays" if map_size(event) is None else "maps" for event in elements(events, MAX_EVENTS))
    except (*UNREADABLE, LookupError):
        return frozenset()


def msgpack_dialect(encodings: frozenset[Encoding]) -> str:
    return f"msgpack, {_ENGINES[encodings]}"


def hash_words(widths: frozenset[int]) -> str:
    """`64-bit hashes`, `16-byte and 32-byte hashes`; empty where there are none."""
    words = ["64-bit" if width == 8 else f"{width}-byte" for width in sorted(widths)]
    return f"{' and '.join(words)} hashes" if words else ""
