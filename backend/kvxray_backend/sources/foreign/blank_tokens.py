"""Takes what people wrote out of a batch before it is kept: every list of token ids becomes zeros of the same length.

Everything else of the batch stays, so that a recording tells the same stores, removals and chains. What is not known to
be harmless is not believed to be: an unknown field or event has its lists of whole numbers made zeros too.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kvxray_backend.sources.foreign.caps import BadBatch

# The whole batch becomes objects here, twice: a hostile one up to some 150 bytes for each of its own.
MAX_BLANKED_BYTES: Final = 2 << 20
# Fields that hold no tokens, whatever is in them: hashes, sizes, names, keys.
_KEPT: Final = frozenset(
    (
        "type", "block_hashes", "parent_block_hash", "block_size", "lora_id", "medium", "lora_name", "extra_keys",
        "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window", "locality", "ownership", "session_id",
        "cache_salt", "source_kind",
    )
)  # fmt: skip
# Of an event that is an array: where the fields are that hold no tokens.
_KEPT_PLACES: Final = {
    "BlockStored": frozenset((0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11)),
    "BlockRemoved": frozenset(range(6)),
    "AllBlocksCleared": frozenset((0,)),
}
_DECODER: Final = msgspec.msgpack.Decoder()
_ENCODER: Final = msgspec.msgpack.Encoder()


def blank_tokens(payload: bytes) -> tuple[bytes, int]:
    """The payload without its token ids, and how many numbers became zeros. Raises `BadBatch` for what is no batch."""
    if len(payload) > MAX_BLANKED_BYTES:
        raise BadBatch(f"A payload of {len(payload):,} bytes is larger than the {MAX_BLANKED_BYTES:,} that are taken.")
    try:
        batch = _DECODER.decode(payload)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadBatch(f"A payload is no msgpack: {str(error)[:100]}.") from error
    if not isinstance(batch, list) or len(batch) < 2 or not isinstance(batch[1], list):
        raise BadBatch("A payload is no batch of events.")
    blanked = _Blanked()
    events = [blanked.event(event) for event in batch[1]]
    return _ENCODER.encode([batch[0], events, *map(blanked.unknown, batch[2:])]), blanked.num_zeros


class _Blanked:
    """Counts what it makes zeros."""

    def __init__(self) -> None:
        self.num_zeros = 0

    def event(self, event: Any) -> Any:
        if isinstance(event, dict):
            return {name: value if name in _KEPT else self.unknown(value) for name, value in event.items()}
        if isinstance(event, list) and event and isinstance(event[0], str):
            places = _KEPT_PLACES.get(event[0], frozenset())
            return [value if place in places else self.unknown(value) for place, value in enumerate(event)]
        return self.unknown(event)

    def unknown(self, value: Any) -> Any:
        """Lists of whole numbers, however deep, become zeros; bytes too, since numbers can be packed."""
        if isinstance(value, dict):
            return {name: self.unknown(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._number(inner) if isinstance(inner, int) else self.unknown(inner) for inner in value]
        if isinstance(value, bytes):
            self.num_zeros += len(value)
            return bytes(len(value))
        return value

    def _number(self, value: int) -> int:
        if isinstance(value, bool):
            return value
        self.num_zeros += 1
        return 0
