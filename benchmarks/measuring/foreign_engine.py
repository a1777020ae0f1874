"""Payloads as vLLM publishes them, of an engine that is made up: shared prefixes, decoding, eviction, resets.

Sizes and fields are those of recordings (tests/data/captures); only tokens and hashes are made up. One batch a step:

- a few running requests each fill a block (a store of one block on the block before),
- prompts arrive and are stored in one event of up to 64 blocks, on the longest prefix that is still cached,
- whatever the pool has no room for is removed first, one event a block, the end of a chain before its beginning,
- now and then everything is cleared.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from random import Random
from typing import Any, Final

import msgspec

BLOCK_SIZE: Final = 16
MAX_PROMPT_BLOCKS: Final = 64
RUNNING: Final = 16
RESET_EVERY: Final = 5_000
VOCABULARY: Final = 32_000
FIRST_S: Final = 1_770_000_000.0
STEP_S: Final = 0.02
DIALECTS: Final = ("map_bytes", "map_int", "array_bytes", "array_int")
"""Events as maps (vLLM since 0.24) or arrays, hashes of 32 bytes or of 64 bits."""

Hash = bytes | int
Event = dict[str, Any] | list[Any]


class ForeignEngine:
    """`payload`: the next batch. `blocks`: hashes stored and removed so far. Invariant: no more is cached than fits."""

    def __init__(self, dialect: str, num_blocks: int, seed: int = 0) -> None:
        self.blocks = 0
        self._is_map = dialect.startswith("map")
        self._hash: Callable[[bytes], Hash] = (
            bytes if dialect.endswith("bytes") else lambda digest: int.from_bytes(digest[-8:], "big")
        )
        self._choose = Random(seed)
        self._num_blocks = num_blocks
        self._cached: OrderedDict[Hash, None] = OrderedDict()  # the first of them goes first
        self._prompts: list[list[Hash]] = []
        self._running: list[list[Hash]] = [[] for _ in range(RUNNING)]  # the hashes of each one's blocks
        self._num_made = self._step = 0

    def payload(self) -> bytes:
        events: list[Event] = []
        self._step += 1
        if self._step % RESET_EVERY == 0:
            self._clear(events)
        for chain in self._choose.sample(self._running, self._choose.randint(1, 3)):
            self._store(events, chain, 1)
        if self._choose.random() < 0.5:
            self._arrive(events)
        return msgspec.msgpack.encode([FIRST_S + self._step * STEP_S, events, 0])

    def check_integrity(self) -> None:
        assert len(self._cached) <= self._num_blocks, "more is cached than fits"

    def _arrive(self, events: list[Event]) -> None:
        """A prompt takes the place of a running request; every other one begins as an earlier one did."""
        chain: list[Hash] = []
        if self._prompts and self._choose.random() < 0.5:
            earlier = self._choose.choice(self._prompts)
            chain = earlier[: self._choose.randint(0, len(earlier))]
            held = next((at for at, one in enumerate(chain) if one not in self._cached), len(chain))
            del chain[held:]
        self._store(events, chain, self._choose.randint(1, MAX_PROMPT_BLOCKS))
        self._prompts = [*self._prompts[-199:], list(chain)]
        self._running[self._choose.randrange(RUNNING)] = chain

    def _store(self, events: list[Event], chain: list[Hash], number: int) -> None:
        """More blocks at the end of a chain, which begins anew where it was cleared, or is too long for the pool."""
        if chain and (chain[-1] not in self._cached or len(chain) + number > self._num_blocks // 2):
            chain.clear()
        # Whoever holds a block keeps the chain before it; what lies at the end of a chain is evicted first.
        self._touch(chain)
        self._make_room(events, number)
        parent = chain[-1] if chain else None
        hashes = [self._new_hash() for _ in range(number)]
        self._cached.update(dict.fromkeys(reversed(hashes)))
        self._touch(chain)
        chain += hashes
        self.blocks += number
        events.append(self._stored(hashes, parent))

    def _touch(self, chain: list[Hash]) -> None:
        for one in reversed(chain):
            self._cached.move_to_end(one)

    def _make_room(self, events: list[Event], number: int) -> None:
        while len(self._cached) + number > self._num_blocks:
            gone, _ = self._cached.popitem(last=False)
            self.blocks += 1
            events.append(self._removed(gone))

    def _clear(self, events: list[Event]) -> None:
        self._cached.clear()
        self._prompts.clear()
        events.append({"type": "AllBlocksCleared"} if self._is_map else ["AllBlocksCleared"])

    def _new_hash(self) -> Hash:
        self._num_made += 1
        return self._hash(blake2b(self._num_made.to_bytes(8, "big"), digest_size=32).digest())

    def _stored(self, hashes: list[Hash], parent: Hash | None) -> Event:
        tokens = self._choose.choices(range(VOCABULARY), k=len(hashes) * BLOCK_SIZE)
        if not self._is_map:
            return ["BlockStored", hashes, parent, tokens, BLOCK_SIZE, None, "GPU", None]
        return {
            "type": "BlockStored", "block_hashes": hashes, "parent_block_hash": parent, "token_ids": tokens,
            "block_size": BLOCK_SIZE, "lora_id": None, "medium": "GPU", "lora_name": None,
            "extra_keys": [None] * len(hashes), "group_idx": 0, "kv_cache_spec_kind": "full_attention",
        }  # fmt: skip

    def _removed(self, gone: Hash) -> Event:
        if not self._is_map:
            return ["BlockRemoved", [gone], "GPU"]
        return {"type": "BlockRemoved", "block_hashes": [gone], "medium": "GPU", "group_idx": 0}
