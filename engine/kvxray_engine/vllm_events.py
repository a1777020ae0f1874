"""What vLLM would say on its KV event stream about a message of ours: the same events, field by field. Pure.

Our stream tells of blocks, vLLM's of hashes only, but with token ids and extra keys: so this needs the fold as it was
before the message (which hash did the evicted block carry?) and the requests (whose tokens are they?). It knows no
socket; names and order of the fields are those of vLLM 0.33.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kvxray_engine.hashing import BlockHash
from kvxray_engine.request import Request
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.columns import HAS_VALUE
from kvxray_engine.stream.schema import NO_ORDINAL, UNKNOWN_U4, Descriptor, Kind

VllmEvent = dict[str, Any]
"""One event as on the wire: `type`, then its fields, None where vLLM has nothing to say."""

SPEC_KINDS: Final = {"full": "full_attention"}
"""vLLM's names for kinds of groups."""


def to_vllm_events(
    message: Message, block_map: BlockMap, requests: Mapping[int, Request], *, int_hashes: bool = True
) -> list[VllmEvent]:
    """vLLM's events of one message, in order.

    `block_map`: the fold before `message`; it is not changed. `requests`: by ordinal, those that cached blocks in this
    message. `int_hashes`: hashes as vLLM sends them by default, the low 64 bits as an unsigned integer; else whole.
    """
    translation = _Translation(message, block_map, requests, int_hashes)
    return [event for operation in _operations(message) for event in translation.events(operation)]


@dataclass(slots=True)
class _Operation:
    """One operation with its rows. `first_value`: the value of its first row, for kinds that have values."""

    kind: int
    req: int
    a0: int
    group: int
    blocks: list[int]
    first_value: int


def _operations(message: Message) -> Iterator[_Operation]:
    columns = message.columns
    row = value = 0
    for kind, req, count, a0, a1 in zip(
        columns.kind.tolist(), columns.req.tolist(), columns.n.tolist(), columns.a0.tolist(), columns.a1.tolist(),
        strict=True,
    ):  # fmt: skip
        has_value = bool(HAS_VALUE[kind]) and count > 0
        first_value = int(columns.val[value]) if has_value else 0
        yield _Operation(kind, req, a0, a1 & 0xFF, columns.blk[row : row + count].tolist(), first_value)
        row += count
        value += count if has_value else 0


@dataclass(slots=True)
class _Translation:
    """`carried`: the hash ordinal of each block that this message gave one or took one from."""

    message: Message
    block_map: BlockMap
    requests: Mapping[int, Request]
    int_hashes: bool
    carried: dict[int, int] = field(default_factory=dict)

    def events(self, operation: _Operation) -> list[VllmEvent]:
        if operation.kind == Kind.BlockEvicted:
            return [self._removed(block, operation.group) for block in operation.blocks]
        if operation.kind == Kind.BlockCached:
            return [self._stored(operation)]
        return [{"type": "AllBlocksCleared"}] if operation.kind == Kind.CacheCleared else []

    def _removed(self, block: int, group: int) -> VllmEvent:
        ordinal = self.carried.get(block, int(self.block_map.hash_ordinal[block]))
        assert ordinal not in (NO_ORDINAL, UNKNOWN_U4), f"block {block} is evicted but carried no hash"
        self.carried[block] = NO_ORDINAL
        return {
            "type": "BlockRemoved",
            "block_hashes": [self._external(self._hash(ordinal))],
            "medium": _medium(self.block_map.descriptor, block),
            "group_idx": group,
        }

    def _stored(self, operation: _Operation) -> VllmEvent:
        """A run of a request's chain: the fold knows its hashes, the request its tokens and keys."""
        request, blocks = self.requests[operation.req], operation.blocks
        ordinals = range(operation.a0, operation.a0 + len(blocks))
        self.carried.update(zip(blocks, ordinals, strict=True))
        hashes = [self._hash(ordinal) for ordinal in ordinals]
        descriptor = self.block_map.descriptor
        layers = descriptor.groups[operation.group]
        size = layers.block_size or descriptor.block_size
        start = request.block_hashes.index(hashes[0])
        end = start + len(blocks)
        parent = operation.first_value
        return {
            "type": "BlockStored",
            "block_hashes": [self._external(one) for one in hashes],
            "parent_block_hash": None if parent < 0 else self._external(self._hash(parent)),
            "token_ids": request.token_ids[start * size : end * size],
            "block_size": size,
            "lora_id": request.lora_id or None,
            "medium": _medium(descriptor, blocks[0]),
            "lora_name": request.lora_name or None,
            "extra_keys": [_extra_keys(request, index) for index in range(start, end)],
            "group_idx": operation.group,
            "kv_cache_spec_kind": SPEC_KINDS.get(layers.kind, layers.kind),
        }

    def _hash(self, ordinal: int) -> BlockHash:
        """From the message where it tells the hash first, else from the fold."""
        header, hashes = self.message.header, self.message.columns.hashes
        index = ordinal - header.hash0
        if index >= 0:
            return bytes(hashes[index * header.hash_width : (index + 1) * header.hash_width])
        known = self.block_map.hash_bytes(ordinal)
        assert known is not None, f"hash {ordinal} was told before this message, and the fold does not know it"
        return known

    def _external(self, block_hash: BlockHash) -> int | bytes:
        return int.from_bytes(block_hash[-8:], "big") if self.int_hashes else block_hash


def _extra_keys(request: Request, index: int) -> list[str] | None:
    """Untagged on vLLM's wire, unlike in the hash: the adapter's name on every block, the salt on the first."""
    salt = request.cache_salt if index == 0 else ""
    return [key for key in (request.lora_name, salt) if key] or None


def _medium(descriptor: Descriptor, block: int) -> str:
    for pool in descriptor.pools:
        if pool.first_block_id <= block < pool.first_block_id + pool.num_blocks:
            return pool.medium
    return "GPU"
