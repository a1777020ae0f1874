"""The events of vLLM, SGLang and TensorRT-LLM as they are on the wire: fields in the order of their arrays, then those
that only maps have.

Strict and fast: what has another field, or a field of another type, is not decoded to these, and is then looked at
field by field (`odd_events.py`). Lists that can be long and are seldom read stay bytes (`Raw`).
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Raw, Struct
from msgspec.msgpack import Decoder

from kvxray_backend.sources.foreign.caps import MAX_BLOCK_SIZE, MAX_GROUP, MAX_TEXT

MAX_RANK: Final = 65_535

AnyHash = int | bytes
Number = Annotated[int, Meta(ge=0, le=1 << 62)] | None
Text = Annotated[str, Meta(max_length=MAX_TEXT)] | None
Group = Annotated[int, Meta(ge=0, le=MAX_GROUP)] | None
BlockSize = Annotated[int, Meta(ge=0, le=MAX_BLOCK_SIZE)] | None
Rank = Annotated[int, Meta(ge=0, le=MAX_RANK)] | None

NOT_SENT: Final = Raw()


class StoredArray(Struct, gc=False, forbid_unknown_fields=True, array_like=True, tag_field="type", tag="BlockStored"):
    block_hashes: list[AnyHash]
    parent_block_hash: AnyHash | None = None
    token_ids: Raw = NOT_SENT
    block_size: BlockSize = None
    lora_id: Number = None
    medium: Text = None
    lora_name: Text = None
    extra_keys: Raw = NOT_SENT
    group_idx: Group = None
    kv_cache_spec_kind: Text = None
    kv_cache_spec_sliding_window: Number = None


class StoredMap(StoredArray, array_like=False):
    locality: Text = None
    ownership: Text = None
    session_id: Text = None
    cache_salt: Text = None
    # Known, and of no use here.
    lookahead_token_ids: Raw = NOT_SENT
    block_mm_infos: Raw = NOT_SENT
    source_kind: Raw = NOT_SENT


class RemovedArray(Struct, gc=False, forbid_unknown_fields=True, array_like=True, tag_field="type", tag="BlockRemoved"):
    block_hashes: list[AnyHash]
    medium: Text = None
    group_idx: Group = None


class RemovedMap(RemovedArray, array_like=False):
    locality: Text = None
    ownership: Text = None


class ClearedArray(
    Struct, gc=False, forbid_unknown_fields=True, array_like=True, tag_field="type", tag="AllBlocksCleared"
):
    pass


class ClearedMap(ClearedArray, array_like=False):
    medium: Text = None
    source_kind: Raw = NOT_SENT


MapEvent = StoredMap | RemovedMap | ClearedMap
ArrayEvent = StoredArray | RemovedArray | ClearedArray
WireEvent = MapEvent | ArrayEvent


class MapBatch(Struct, gc=False, forbid_unknown_fields=True, array_like=True):
    ts: float | None
    events: list[MapEvent]
    rank: Rank = None


class ArrayBatch(Struct, gc=False, forbid_unknown_fields=True, array_like=True):
    ts: float | None
    events: list[ArrayEvent]
    rank: Rank = None


MAP_BATCH: Final = Decoder(MapBatch)
ARRAY_BATCH: Final = Decoder(ArrayBatch)
MAP_EVENT: Final = Decoder(MapEvent)
ARRAY_EVENT: Final = Decoder(ArrayEvent)
