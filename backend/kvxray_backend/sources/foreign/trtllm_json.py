"""TensorRT-LLM's pulled events, JSON as `LLM.get_kv_cache_events()` gives it: each becomes a batch with its number.

Numbers rise by one within a rank: one left out is an event that the engine dropped. A store tells each block with its
own tokens; blocks of the same length, level and adapter that follow each other become one `Stored`, and a partial block
one of its own whose `block_size` is what it holds. Caches of different windows are different groups: by
`layer_group_id` where it is told, else numbered as their windows are first heard of (`created` tells them first).
A change of priority alone moves nothing and tells nothing.
"""

from __future__ import annotations

from hashlib import blake2b
from itertools import groupby
from typing import Any, Final

from msgspec import Raw, Struct
from msgspec.json import Decoder

from kvxray_backend.sources.foreign.block_hashes import hash_of
from kvxray_backend.sources.foreign.caps import MAX_BLOCK_SIZE, MAX_GROUP, MAX_HASHES, BadBatch, BadEvent
from kvxray_backend.sources.foreign.json_events import UNREADABLE, count_unknown_names, cut_into_events
from kvxray_backend.sources.foreign.media import medium_of_level
from kvxray_backend.sources.foreign.nesting import check_json
from kvxray_backend.sources.foreign.oddity_count import OddityCount
from kvxray_backend.sources.foreign.token_chains import TokenChains, Tokens
from kvxray_backend.sources.foreign.told import Batch, Created, Hash, Moved, Place, Removed, Spec, Stored, Told, Why

MAX_WINDOWS: Final = 64
MAX_LEVELS: Final = 16
AnyHash = int | str


class _Token(Struct, gc=False):
    token_id: int
    token_extra_id: int = 0


class _Block(Struct, gc=False):
    block_hash: AnyHash
    tokens: list[_Token] | None = None
    cache_level: int | None = 0
    lora_id: int | None = None
    mm_keys: Raw = Raw()


class _Created(Struct, gc=False, tag="created"):
    num_blocks_per_cache_level: list[int]


class _Stored(Struct, gc=False, tag="stored"):
    blocks: list[_Block]
    parent_hash: AnyHash | None = None


class _Removed(Struct, gc=False, tag="removed"):
    block_hashes: list[AnyHash]


class _Diff(Struct, gc=False):
    old_value: int
    new_value: int


class _Updated(Struct, gc=False, tag="updated"):
    block_hash: AnyHash
    cache_level: _Diff | None = None


class _Event(Struct, gc=False):
    event_id: int
    data: _Created | _Stored | _Removed | _Updated
    window_size: int = 0
    attention_dp_rank: int | None = None
    layer_group_id: int | None = None


class _Tag(Struct, gc=False):
    type: str | None = None


class _Outline(Struct, gc=False):
    data: _Tag
    event_id: Any = None


_EVENT: Final = Decoder(_Event)
_OUTLINE: Final = Decoder(_Outline)
_FIELDS: Final = frozenset((*_Event.__struct_fields__, "hash_algo"))
_DATA: Final = {
    "created": frozenset(("type", "num_blocks_per_cache_level")),
    "stored": frozenset(("type", "parent_hash", "blocks")),
    "removed": frozenset(("type", "block_hashes")),
    "updated": frozenset(("type", "block_hash", "cache_level", "priority")),
}


class TrtllmEvents:
    """Decodes what one engine's pull API gives, call after call: it remembers which windows there are."""

    def __init__(self, chains: TokenChains | None = None) -> None:
        self._chains = chains
        self._groups: dict[int, int] = {}

    def decode(self, payload: bytes) -> list[Batch]:
        """One event, a list of them, or lines of them. Raises `BadBatch` when nothing of it is one of these events."""
        batches = [self._batch(event) for event in cut_into_events(payload)]
        if batches and all(batch.oddities.bad_events for batch in batches):
            raise BadBatch("Nothing of the payload is an event as TensorRT-LLM tells it.")
        return batches

    def _batch(self, raw: bytes | Raw) -> Batch:
        odd = OddityCount()
        digest = blake2b(raw, digest_size=16).digest()
        try:
            check_json(bytes(raw))
            event = _EVENT.decode(raw)
            told = self._told(event)
            rank = event.attention_dp_rank
        except UNREADABLE:
            _count_odd_event(raw, odd)
            return Batch(None, None, (), odd.total(), digest)
        fields = count_unknown_names("event", raw, _FIELDS, odd)
        if "data" in fields:
            tag = event.data.__struct_config__.tag
            count_unknown_names(str(tag), fields["data"], _DATA[str(tag)], odd)
        return Batch(None, rank, told, odd.total(), digest, event.event_id)

    def _told(self, event: _Event) -> tuple[Told, ...]:
        data, group = event.data, self._group(event)
        if isinstance(data, _Created):
            numbers = data.num_blocks_per_cache_level
            if len(numbers) > MAX_LEVELS or any(number < 0 for number in numbers):
                raise BadEvent("The sizes of the caches make no sense.")
            sizes = tuple((medium_of_level(level), number) for level, number in enumerate(numbers))
            return (Created(sizes, event.window_size),)
        if isinstance(data, _Stored):
            return self._stored(data, group, event.window_size)
        if isinstance(data, _Removed):
            _check_number(len(data.block_hashes))
            return (Removed(tuple(map(hash_of, data.block_hashes)), Place("", group), is_any_medium=True),)
        if data.cache_level is None:
            return ()
        source, target = (_place(level, group) for level in (data.cache_level.old_value, data.cache_level.new_value))
        return (Moved((hash_of(data.block_hash),), source, target),)

    def _group(self, event: _Event) -> int:
        if event.window_size < 0:
            raise BadEvent("A window of less than no tokens.")
        if event.layer_group_id is not None:
            if not 0 <= event.layer_group_id <= MAX_GROUP:
                raise BadEvent("A layer group is out of its range.")
            return event.layer_group_id
        if event.window_size not in self._groups:
            if len(self._groups) >= MAX_WINDOWS:
                raise BadEvent("There are more windows than an engine has.")
            self._groups[event.window_size] = len(self._groups)
        return self._groups[event.window_size]

    def _stored(self, data: _Stored, group: int, window: int) -> tuple[Told, ...]:
        _check_number(len(data.blocks))
        parent = None if data.parent_hash is None else hash_of(data.parent_hash)
        told: list[Told] = []
        for (size, level, lora_id), run in groupby(data.blocks, _alike):
            blocks = list(run)
            hashes = tuple(hash_of(block.block_hash) for block in blocks)
            lora = "" if lora_id is None else str(lora_id)
            digests = self._digests(hashes, parent, blocks, size, lora)
            why: Why = "store" if size != 0 else "placeholder"
            num_tokens = None if size is None else size * len(blocks)
            spec = Spec("", window)
            told.append(
                Stored(
                    hashes,
                    parent,
                    size or 0,
                    num_tokens,
                    _place(level, group),
                    spec,
                    why,
                    lora,
                    token_digests=digests,
                )
            )
            parent = hashes[-1]
        return tuple(told)

    def _digests(
        self, hashes: tuple[Hash, ...], parent: Hash | None, blocks: list[_Block], size: int | None, lora: str
    ) -> tuple[bytes, ...]:
        if self._chains is None or not size:
            return ()
        tokens = [token for block in blocks for token in block.tokens or ()]
        ids: Tokens = [token.token_id for token in tokens]
        if any(token.token_extra_id for token in tokens):
            ids = [(token.token_id, token.token_extra_id) for token in tokens]
        has_keys = any(memoryview(block.mm_keys) for block in blocks)
        keys = [bytes(block.mm_keys) for block in blocks] if has_keys else ()
        return self._chains.of_blocks(hashes, parent, ids, size, keys, (lora, ""))


def _alike(block: _Block) -> tuple[int | None, int, int | None]:
    size = None if block.tokens is None else len(block.tokens)
    if size is not None and size > MAX_BLOCK_SIZE:
        raise BadEvent("A block has more tokens than any block.")
    return size, block.cache_level or 0, block.lora_id


def _place(level: int, group: int) -> Place:
    if not 0 <= level < MAX_LEVELS:
        raise BadEvent("A cache level is out of its range.")
    return Place(medium_of_level(level), group)


def _check_number(num_hashes: int) -> None:
    if num_hashes > MAX_HASHES:
        raise BadEvent(f"An event carries more than {MAX_HASHES:,} hashes.")


def _count_odd_event(raw: bytes | Raw, odd: OddityCount) -> None:
    """An event of a kind that nobody knows is not a bad one."""
    try:
        check_json(bytes(raw))
        tag = _OUTLINE.decode(raw).data.type
    except UNREADABLE:
        tag = None
    if tag is None or tag in _DATA:
        odd.bad_event()
    else:
        odd.unknown_event(tag)
