"""What an event of the wire tells, in the words that all dialects share. Token ids go no further than here."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from msgspec import MsgspecError, Raw
from msgspec.msgpack import Decoder

from kvxray_backend.sources.foreign.block_hashes import hash_of, hashes_of
from kvxray_backend.sources.foreign.caps import MAX_HASHES, BadBatch, BadEvent
from kvxray_backend.sources.foreign.extra_keys import Keys, are_all_nil, first_keys, keys_by_block
from kvxray_backend.sources.foreign.msgpack_parts import UNREADABLE, array_size, is_nil
from kvxray_backend.sources.foreign.oddity_count import OddityCount
from kvxray_backend.sources.foreign.token_chains import TokenChains
from kvxray_backend.sources.foreign.told import Cleared, Hash, Place, Removed, Spec, Stored, Told
from kvxray_backend.sources.foreign.wire_events import (
    NOT_SENT,
    ClearedMap,
    RemovedArray,
    RemovedMap,
    StoredArray,
    StoredMap,
    WireEvent,
)

_NUMBERS: Final = Decoder(list[int])
_PAIRS: Final = Decoder(list[tuple[int, int]])
# The same few of them, millions of times.
_place: Final = lru_cache(maxsize=256)(Place)
_spec: Final = lru_cache(maxsize=256)(Spec)
_NO_KEYS: Final = Keys()


class EventReader:
    """Reads the events of one batch; `room`: how many hashes they may still carry."""

    def __init__(self, odd: OddityCount, chains: TokenChains | None = None) -> None:
        self.room = MAX_HASHES
        self._odd = odd
        self._chains = chains

    def read(self, event: WireEvent) -> Told | None:
        """None for a bad event, which is counted. Raises `BadBatch` when the hashes are too many."""
        try:
            if isinstance(event, RemovedArray):
                return self._removed(event)
            if isinstance(event, StoredArray):
                return self._stored(event)
        except UNREADABLE:
            self._odd.bad_event()
            return None
        return Cleared(event.medium or "" if isinstance(event, ClearedMap) else "")

    def _stored(self, event: StoredArray) -> Stored:
        hashes = self._hashes(event)
        parent = None if event.parent_block_hash is None else hash_of(event.parent_block_hash)
        num_tokens = _num_tokens(event.token_ids)
        block_size = event.block_size or 0
        keys, by_block = self._keys(event, parent, len(hashes))
        digests: tuple[bytes, ...] = ()
        if self._chains is not None and num_tokens:
            tokens = _token_ids(event.token_ids)
            digests = self._chains.of_blocks(hashes, parent, tokens, block_size, by_block, (keys.lora, keys.salt))
        session, locality, ownership = _map_only(event) if isinstance(event, StoredMap) else ("", "", "")
        return Stored(
            hashes,
            parent,
            block_size,
            num_tokens,
            _place(event.medium or "", event.group_idx or 0),
            _spec(event.kv_cache_spec_kind or "", event.kv_cache_spec_sliding_window or 0),
            "store" if block_size or num_tokens else "placeholder",
            keys.lora,
            keys.salt,
            session,
            locality,
            ownership,
            digests,
        )

    def _removed(self, event: RemovedArray) -> Removed:
        hashes, group = self._hashes(event), event.group_idx
        place = _place(event.medium or "", group or 0)
        if isinstance(event, RemovedMap) and (event.locality or event.ownership):
            return Removed(hashes, place, group is None, event.locality or "", event.ownership or "")
        return Removed(hashes, place, group is None)

    def _hashes(self, event: StoredArray | RemovedArray) -> tuple[Hash, ...]:
        self.room -= len(event.block_hashes)
        if self.room < 0:
            raise BadBatch(f"The batch carries more than the {MAX_HASHES:,} hashes that are taken of one.")
        return hashes_of(event.block_hashes)

    def _keys(self, event: StoredArray, parent: Hash | None, num_hashes: int) -> tuple[Keys, list[Raw]]:
        """What is told beside tokens: adapter and salt, and the keys of each block where there are any."""
        lora = event.lora_name or ("" if event.lora_id is None else str(event.lora_id))
        salt = event.cache_salt or "" if isinstance(event, StoredMap) else ""
        told = Keys(lora, salt) if lora or salt else _NO_KEYS
        value = event.extra_keys
        if not num_hashes or are_all_nil(value, num_hashes):
            return told, []
        try:
            by_block = keys_by_block(value, num_hashes)
            keys = first_keys(by_block[0], lora) if parent is None else told
        except UNREADABLE:
            self._odd.unknown_field("BlockStored", "extra_keys")
            return told, []
        if keys.is_odd:
            self._odd.unknown_field("BlockStored", "extra_keys")
        return Keys(keys.lora, salt or keys.salt), by_block


def _map_only(event: StoredMap) -> tuple[str, str, str]:
    return event.session_id or "", event.locality or "", event.ownership or ""


def _num_tokens(tokens: Raw) -> int | None:
    if tokens is NOT_SENT or is_nil(tokens):
        return None
    size = array_size(tokens)
    if size is None:
        raise BadEvent("The tokens of a store are no list.")
    return size


def _token_ids(tokens: Raw) -> list[int] | list[tuple[int, int]]:
    """Token ids or pairs of them; empty for anything else, which then has no digests."""
    try:
        return _NUMBERS.decode(tokens)
    except MsgspecError:
        pass
    try:
        return _PAIRS.decode(tokens)
    except (MsgspecError, RecursionError):
        return []
