"""What the cache's own events tell of waste: how long blocks were cached and idle when they were evicted, how long
after its last use one is used again, which hashes come back after they were evicted, and why prompts miss.

Fed beside the fold, with what was folded, and worked out many messages at a time. Every event counts: nothing is a
sample. Of one epoch, of the last minute; knows no clock.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from kvxray_engine.stream.block_map import ALL_MEDIA, BlockMap
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.columns import I8, distinct
from kvxray_engine.stream.key_index import U8
from kvxray_engine.stream.schema import UNKNOWN_U4, BlockState, Cause, Kind, Pool

from kvxray_backend.analysis.block_touches import (
    ALLOCATED,
    CACHED,
    EVICTED,
    RELEASED,
    REUSED,
    Operations,
    Touches,
    touches_of,
)
from kvxray_backend.analysis.hash_memory import Bools, Changes, HashMemory, Seen, keys_of
from kvxray_backend.analysis.prompt_blocks import PromptBlocks
from kvxray_backend.analysis.recent import WINDOW_NS, Recent
from kvxray_backend.analysis.recomputed import Recomputed
from kvxray_backend.analysis.touched_before import LastRows

SETTLE_AT: Final = 1 << 16
"""Events that are worked out together."""
UNKNOWN_NS: Final = -1
NEVER, DROPPED, BESIDE = -1, -2, -3
"""Why a block of a prompt was computed, where it was not evicted: nobody had cached it before, it was dropped on
purpose, or another block has it.
"""
_WHY: Final = np.array([NEVER, 0, DROPPED, BESIDE])
"""By what was known of its hash."""
_EVICTED: Final = int(Seen.evicted)
_ON_PURPOSE, _SCHEDULED = int(Cause.explicit), int(Kind.RequestScheduled)


class BlockLives:
    """`evicted`: of each block given up to make room how long ago it was allocated, and released; `reused`: how long
    nobody had held a block when it was hit; `gone`: hashes whose last copy was evicted; `returned`: hashes that were
    cached again within a minute, with their keys; `missed`: blocks of prompts that were computed, how long after they
    were evicted, or why; `tails`: tokens of prompts that fill no block. ns; `UNKNOWN_NS` where nobody saw it begin.
    """

    def __init__(self, block_map: BlockMap, *, is_of_past: bool = False) -> None:
        """From the state of all blocks at one moment, before the first message that it will be told. is_of_past: that
        moment was chosen, minutes before the one that is asked about: what was evicted before it is not known.
        """
        self.is_of_past = is_of_past
        self.since_ns = block_map.t_ns
        self.is_whole = block_map.next_seq == 0 and block_map.holders_known
        self.evicted, self.reused = Recent(2), Recent(1)
        self.gone, self.returned = Recent(0), Recent(1)
        self.missed, self.tails = Recent(1), Recent(1)
        self.recomputed = Recomputed()
        self.memory = HashMemory()
        self.nameless_ns = -1
        group = block_map.descriptor.groups[0] if block_map.descriptor.groups else None
        self.block_size = (group.block_size if group else 0) or block_map.descriptor.block_size
        self._prompts = PromptBlocks(self.block_size)
        self._pools: tuple[Pool, ...] = block_map.descriptor.pools
        self._hash_bytes = block_map.hash_bytes
        self._pending: list[Message] = []
        self._num_pending = 0
        self._alloc_ns: I8 = np.where(block_map.state == BlockState.unknown, 0, block_map.t_alloc)
        # Of a cached block the last event was its release.
        self._released_ns: I8 = np.where(block_map.state == BlockState.cached, block_map.t_last, 0)
        self._last_rows = LastRows(block_map.num_blocks)
        self.key_of = _keys_of_blocks(block_map)
        self.memory.begin(self.key_of[self.key_of > 0])

    def note(self, message: Message) -> None:
        """A message that was folded."""
        if message.header.type != "events":
            return
        if self._pending and not _follows(self._pending[-1], message):
            self.settle()
        self._pending.append(message)
        self._num_pending += message.header.n
        if self._num_pending >= SETTLE_AT:
            self.settle()

    def settle(self) -> None:
        """Works out what was noted: call before anything is read."""
        messages, self._pending, self._num_pending = self._pending, [], 0
        if not messages:
            return
        operations, header = Operations.of(messages), messages[0].header
        told = keys_of(b"".join(message.columns.hashes for message in messages), header.hash_width)
        for part, cleared in operations.parts():
            self.recomputed.note(part)
            self._note_tails(part)
            of_prompt = self._prompts.take(part)
            touches = touches_of(part, told, header.hash0, self._hash_bytes)
            if len(touches):
                self._measure(touches)
                self._remember(touches, touches.place < of_prompt[touches.op])
            if cleared is not None:
                self._clear(*cleared)

    def thrashing(self, now_ns: int, times: int) -> U8:
        """Keys of the hashes that came back so often within the last minute, each time soon after they went."""
        keys = np.sort(self.returned.since(now_ns)[1].view(np.uint64))
        again = keys[times - 1 :]
        return distinct(again[again == keys[: len(again)]])

    def knows_evictions(self, now_ns: int) -> bool:
        """Whether everything is remembered that was evicted within a minute before anything of the last one."""
        since_ns = now_ns - 2 * WINDOW_NS
        watched = self.is_whole or self.since_ns <= since_ns
        return watched and self.memory.forgotten_ns <= since_ns and self.nameless_ns <= since_ns

    def knows_all(self) -> bool:
        """Whether every hash is remembered that was cached in this life of the engine."""
        return self.is_whole and self.memory.forgotten_ns < 0 and self.nameless_ns < 0

    def check_integrity(self) -> None:
        """Asserts the invariants of the parts, and that a hash has as many copies as blocks carry it."""
        self.settle()
        for recent in (self.evicted, self.reused, self.gone, self.returned, self.missed, self.tails):
            recent.check_integrity()
        self.memory.check_integrity()
        self._prompts.check_integrity()
        keys, copies = np.unique(self.key_of[self.key_of > 0], return_counts=True)
        assert (self.memory.copies(keys) == copies).all(), "a hash has more copies than blocks, or fewer"

    def _note_tails(self, part: Operations) -> None:
        at = np.flatnonzero(part.kind == _SCHEDULED)
        self.tails.add(part.t[at], part.a0[at] % self.block_size)

    def _measure(self, touches: Touches) -> None:
        """How long blocks lay there when they were evicted, or used again."""
        kind, blk, t = touches.kind, touches.blk, touches.t
        evicted = np.flatnonzero((kind == EVICTED) & (touches.cause != _ON_PURPOSE))
        reused = np.flatnonzero((kind == REUSED) & (touches.ref == 1))
        allocated, released = np.flatnonzero(kind == ALLOCATED), np.flatnonzero(kind == RELEASED)
        before = self._last_rows.before
        since = before(blk, evicted, allocated, t[allocated], self._alloc_ns)
        idle = before(blk, evicted, released, t[released], self._released_ns)
        self.evicted.add(t[evicted], _since(since, t[evicted]), _since(idle, t[evicted], since))
        left = before(blk, reused, released, t[released], self._released_ns)
        self.reused.add(t[reused], _since(left, t[reused]))
        # In order: the last of each block is what stays.
        self._alloc_ns[blk[allocated]] = t[allocated]
        self._released_ns[blk[released]] = t[released]

    def _remember(self, touches: Touches, of_prompt: Bools) -> None:
        """Which hashes came, went and came back, and why blocks of prompts were computed."""
        at = np.flatnonzero((touches.kind == CACHED) | (touches.kind == EVICTED))
        blk, cached, t, keys = touches.blk[at], touches.kind[at] == CACHED, touches.t[at], touches.key[at]
        gives, takes = np.flatnonzero(cached), np.flatnonzero(~cached)
        keys[takes] = self._last_rows.before(blk, takes, gives, keys[gives], self.key_of)
        self.key_of[blk] = np.where(cached, keys, 0)
        is_named = keys > 0
        if not is_named.all():
            self.nameless_ns = max(self.nameless_ns, int(t[~is_named].max()))
            at, cached, t, keys = at[is_named], cached[is_named], t[is_named], keys[is_named]
        is_room = touches.cause[at] != _ON_PURPOSE
        told = self.memory.note(Changes(keys, t, cached, is_room))
        self.gone.add(t[told.is_last & is_room])
        away = t - told.gone_ns
        back = cached & (told.seen == _EVICTED)
        soon = back & (away >= 0) & (away <= WINDOW_NS)
        self.returned.add(t[soon], keys[soon].view(np.int64))
        missed = np.flatnonzero(cached & of_prompt[at])
        why = np.where(back[missed], np.maximum(away[missed], 0), _WHY[told.seen[missed]])
        self.missed.add(t[missed], why)

    def _clear(self, medium: int, t_ns: int) -> None:
        blocks = slice(None)
        if medium != ALL_MEDIA and medium < len(self._pools):
            pool = self._pools[medium]
            blocks = slice(pool.first_block_id, pool.first_block_id + pool.num_blocks)
        keys = self.key_of[blocks]
        self.memory.drop_all(keys[keys > 0], t_ns)
        self.key_of[blocks] = 0


def _since(began_ns: I8, t_ns: I8, not_before: I8 | None = None) -> I8:
    """UNKNOWN_NS where it is not known when it began, or where the clock was set back since."""
    is_known = (began_ns > 0) & (began_ns <= t_ns)
    if not_before is not None:
        is_known &= began_ns >= not_before
    return np.where(is_known, t_ns - began_ns, UNKNOWN_NS)


def _follows(last: Message, message: Message) -> bool:
    """Whether its hashes are numbered on from the last one's."""
    a, b = last.header, message.header
    return a.hash_width == b.hash_width and a.hash0 + len(last.columns.hashes) // a.hash_width == b.hash0


def _keys_of_blocks(block_map: BlockMap) -> U8:
    """The key of the hash that each block carries; 0: none, or none that is known."""
    keys = np.zeros(block_map.num_blocks, np.uint64)
    hashed = np.flatnonzero(block_map.hash_ordinal < UNKNOWN_U4)
    if len(hashed):
        found, data = block_map.hashes.of(block_map.hash_ordinal[hashed])
        keys[hashed[found]] = keys_of(data[found].tobytes(), block_map.hashes.width)
    return keys
