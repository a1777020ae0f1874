"""The fold: the state of every block after every event, vectorised. Pure: no clock, no socket, no thread.

Each event tells the state after it, so the last writer wins and a whole batch is folded with a few array operations.
The engine's publisher, the backend and replay all run this one code.
"""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvxray_engine.stream.codec import BadMessage, Message, decode_descriptor
from kvxray_engine.stream.columns import HAS_VALUE, NUM_CAUSES, NUM_KINDS, U1, U4, Columns, kind_table
from kvxray_engine.stream.event_times import timing_of
from kvxray_engine.stream.hash_table import HashTable
from kvxray_engine.stream.holder_log import ANONYMOUS, HolderLog
from kvxray_engine.stream.pool_dump import PoolDump
from kvxray_engine.stream.request_table import RequestTable
from kvxray_engine.stream.schema import NO_ORDINAL, UNKNOWN_U4, BlockState, Descriptor, Header, Kind
from kvxray_engine.stream.stale_blocks import CarriedHashes, GivenOut, StaleBlocks
from kvxray_engine.stream.transitions import Rows, double_frees, hashed_when_allocated, last_of_each, rows_of

ALL_MEDIA: Final = 255
MAX_FAULTS: Final = 1000
"""Broken laws that are kept until somebody asks: an engine's own fold is never asked."""
BLOCK_COLUMNS: Final = ("ref", "hash_ordinal", "parent_ordinal", "slots", "group", "t_alloc", "t_last", "written")
"""The columns that tell a block's state, which follows from them."""
# Plain numbers: to compare a column with a member of an enum takes numpy seven times as long.
_CACHED, _ALLOCATED, _FREED = int(Kind.BlockCached), int(Kind.BlockAllocated), int(Kind.BlockFreed)
_FILLED, _COPIED, _MOVED = int(Kind.BlockFilled), int(Kind.BlockCopied), int(Kind.BlockMoved)
_CLEARED, _SCHEDULED, _GENERATED = int(Kind.CacheCleared), int(Kind.RequestScheduled), int(Kind.TokensGenerated)
_COMPLETED = int(Kind.StepCompleted)
_SETS_REF: Final = kind_table(
    frozenset({Kind.BlockAllocated, Kind.BlockReferenced, Kind.BlockDereferenced, Kind.BlockFreed})
)
_ADDS_HOLD: Final = kind_table(frozenset({Kind.BlockAllocated, Kind.BlockReferenced}))
_SETS_HASH: Final = kind_table(frozenset({Kind.BlockAllocated, Kind.BlockCached, Kind.BlockEvicted}))
_SETS_SLOTS: Final = kind_table(frozenset({Kind.BlockAllocated, Kind.BlockCached, Kind.BlockFilled}))
_ALONE: Final = kind_table(frozenset({Kind.BlockCopied, Kind.BlockMoved, Kind.CacheCleared}))
"""Kinds that read the state their batch wrote: folded one operation at a time."""
_RESIDENCY: Final = kind_table(frozenset({Kind.ResidencyStored, Kind.ResidencyRemoved}))


@dataclass(frozen=True, slots=True)
class Fault:
    """A law broken by the stream itself. kind: `ref_underflow`, `double_free`, `stale_hash` (given out while it was
    cached: `block_hash` is what it carried, None where that was never told) or `stale_hit` (hit by that hash since;
    `given`: when, and to whom it was given). holder: who broke it, or who hits; NO_ORDINAL where that is not known.
    is_certain: False where it follows from other events than its own.
    """

    kind: str
    block: int
    holder: int
    seq: int
    t_ns: int
    block_hash: bytes | None = None
    given: GivenOut | None = None
    is_certain: bool = True


def _blaming(fault: Fault, lacking: Collection[tuple[int, int]]) -> Fault:
    """Without a holder where that had a right to what it did."""
    is_theirs = fault.kind == "ref_underflow" and (fault.block, min(fault.holder, ANONYMOUS)) not in lacking
    return replace(fault, holder=NO_ORDINAL) if is_theirs else fault


class BlockMap:
    """State of all blocks of one source in one epoch.

    Arrays have one entry a block, the null block included. `ref`, `hash_ordinal`: UNKNOWN_U4 = not known;
    `hash_ordinal`, `parent_ordinal`: NO_ORDINAL = none. `slots`: tokens written. `t_alloc`, `t_last`: wall ns (0
    never). `state`: BlockState, kept equal to what `classify` says of the other columns. `kind_totals`: events by kind;
    `eviction_totals`: those of BlockEvicted by cause, as far as causes were told.
    """

    def __init__(self, descriptor: Descriptor, *, source: str = "", incarnation: str = "", known: bool = True) -> None:
        """known: the engine has just begun, so every block is empty; else every block is unknown until told."""
        self.source = source
        self.incarnation = incarnation
        self.step = 0
        self.t_ns = 0
        self.next_seq = 0
        self.next_wire_seq = 0
        self.lost = 0
        self.kind_totals = np.zeros(NUM_KINDS, np.int64)
        self.eviction_totals = np.zeros(NUM_CAUSES, np.int64)
        self.queried_tokens = 0
        self.hit_tokens = 0
        self.generated_tokens = 0
        self.computed_tokens = 0
        self.holders_known = known
        self.holders = HolderLog()
        self.hashes = HashTable()
        self.requests = RequestTable()
        self.stale = StaleBlocks()
        self._faults: list[Fault] = []
        self._set_descriptor(descriptor)
        if not known:
            self._forget_blocks()

    def _set_descriptor(self, descriptor: Descriptor) -> None:
        self.descriptor = descriptor
        self.num_blocks = n = descriptor.num_blocks
        self.ref: U4 = np.zeros(n, np.uint32)
        self.hash_ordinal: U4 = np.full(n, NO_ORDINAL, np.uint32)
        self.parent_ordinal: U4 = np.full(n, NO_ORDINAL, np.uint32)
        self.slots = np.zeros(n, np.uint16)
        self.group: U1 = np.zeros(n, np.uint8)
        self.t_alloc = np.zeros(n, np.int64)
        self.t_last = np.zeros(n, np.int64)
        self.written: U1 = np.zeros(n, np.uint8)
        self.state: U1 = np.full(n, BlockState.empty, np.uint8)
        self._scratch: U4 = np.zeros(n, np.uint32)
        self._counts = np.zeros(len(BlockState), np.int64)
        self._counts[BlockState.empty] = descriptor.usable_blocks
        sizes = [group.block_size or descriptor.block_size for group in descriptor.groups]
        self._block_sizes = np.array(sizes or [descriptor.block_size])

    def apply(self, message: Message) -> U4:
        """Folds one message (or several joined) and returns the ids of the blocks it touched, each once.

        Raises `BadMessage`, and changes nothing, when a row names a block that the source does not have.
        """
        header, columns = message.header, message.columns
        if header.type == "descriptor":
            self._set_descriptor(decode_descriptor(header.descriptor))
            self.holders.replace(np.zeros(0, np.uint32), np.zeros(0, np.uint32))
            self.stale = StaleBlocks()
            self._note_header(header)
            return np.arange(self.num_blocks, dtype=np.uint32)
        self.check_blocks(columns)
        timing = timing_of(message)
        times = timing.times
        self.hashes.set_width(header.hash_width)
        self.hashes.add(header.hash0, columns.hashes)
        self.requests.add_names(header.req0, header.names)
        touched = self._apply_rows(columns, times, header.seq0)
        self.requests.apply(columns, timing)
        self._count_operations(columns)
        self._note_header(header)
        if len(times):
            self.t_ns = int(times[-1])
        self._tidy()
        return touched

    def forget(self) -> None:
        """After a gap: no block is known until an event tells, no holder until a snapshot does."""
        self._forget_blocks()
        self.holders.replace(np.zeros(0, np.uint32), np.zeros(0, np.uint32))
        self.holders_known = False

    def copy(self) -> BlockMap:
        """Another fold in the same state, which goes its own way."""
        made = copy(self)
        for name in (*BLOCK_COLUMNS, "state", "_counts", "kind_totals", "eviction_totals"):
            setattr(made, name, getattr(self, name).copy())
        made._scratch = np.zeros(self.num_blocks, np.uint32)
        made.holders, made.hashes, made.requests = self.holders.copy(), self.hashes.copy(), self.requests.copy()
        made.stale, made._faults = self.stale.copy(), list(self._faults)
        return made

    def put_back(self, blocks: U4, columns: dict[str, NDArray[Any]]) -> None:
        """Gives these blocks (each once) the columns they had before."""
        for name, values in columns.items():
            getattr(self, name)[blocks] = values
        self._settle(blocks)

    def replace_from_dump(self, dump: PoolDump, wire_seq: int) -> None:
        """Begins anew from the engine's own lists, as they are after message `wire_seq`."""
        n = self.num_blocks
        assert len(dump.ref_cnt) == n, "a dump has one entry a block"
        self.ref = np.array(dump.ref_cnt, np.uint32)
        self.hash_ordinal = np.array(dump.hash_ordinal, np.uint32)
        self.parent_ordinal = np.array(dump.parent_ordinal or [NO_ORDINAL] * n, np.uint32)
        self.slots = np.array(dump.slots, np.uint16)
        self.written = (np.arange(n) < dump.high_water).astype(np.uint8)
        for block in np.flatnonzero(self.hash_ordinal != NO_ORDINAL):
            data = dump.block_hash[block]
            assert data is not None, "a block with a hash ordinal carries a hash"
            self.hashes.add(int(self.hash_ordinal[block]), data)
        holds = np.array(dump.holds, np.uint32).reshape(-1, 2)
        self.holders.replace(holds[:, 0], holds[:, 1])
        self.holders_known = True
        self.requests.replace_from_dump(dump.requests, dump.step)
        self.next_wire_seq, self.next_seq = wire_seq + 1, dump.next_seq
        self.step, self.t_ns = dump.step, dump.t_ns
        self.stale = StaleBlocks()
        self.reclassify()

    def adopt_totals(self, other: BlockMap) -> None:
        """Goes on counting from where another fold of the same epoch stood: totals never run backwards."""
        self.kind_totals, self.eviction_totals = other.kind_totals.copy(), other.eviction_totals.copy()
        self.queried_tokens, self.hit_tokens = other.queried_tokens, other.hit_tokens
        self.generated_tokens, self.computed_tokens = other.generated_tokens, other.computed_tokens

    def counts(self) -> dict[BlockState, int]:
        """Blocks in each state; the null block is outside."""
        return {state: int(self._counts[state]) for state in BlockState}

    def holders_of(self, block: int) -> list[int]:
        """Ordinals of the holders of one block, one entry a hold."""
        return self.holders.of_block(block)

    def holds(self) -> tuple[U4, U4]:
        """Blocks and holder ordinals, sorted by block, one entry a hold."""
        return self.holders.holds()

    def num_holds(self) -> NDArray[np.int64]:
        """How many holds each block has."""
        return self.holders.num_of_blocks(self.num_blocks)

    def blocks_of(self, holder: int) -> list[int]:
        return self.holders.of_holder(holder)

    def hash_bytes(self, ordinal: int) -> bytes | None:
        return self.hashes.get(ordinal)

    def take_faults(self) -> list[Fault]:
        """Broken laws seen since the last call. Where the count falls below zero as somebody lets go of what it holds,
        it is not who broke it: another gave its reference back before.
        """
        lacking = set(self.holders.take_releases_without_hold()) if self.holders_known else set()
        if self.holders_known:
            self._faults = [_blaming(fault, lacking) for fault in self._faults]
        told = {(fault.block, min(fault.holder, ANONYMOUS)) for fault in self._faults}
        for block, holder in sorted(lacking - told):
            who = holder if holder < ANONYMOUS else NO_ORDINAL
            self._faults.append(Fault("ref_underflow", block, who, self.next_seq, self.t_ns))
        found, self._faults = self._faults, []
        # The null block stands for none: how often it is taken and given back counts for nothing.
        return [fault for fault in found if fault.block != self.descriptor.null_block]

    def check_integrity(self, *, with_hashes: bool = True) -> None:
        """Asserts the laws: states partition the usable blocks, references are holds, a hash resolves to a block that
        carries it. with_hashes False: the fold began from a dump without the bytes of hashes.
        """
        expected = self.classify(np.arange(self.num_blocks, dtype=np.uint32))
        assert (self.state == expected).all(), "a block's state disagrees with its columns"
        counted = np.bincount(self._usable(self.state), minlength=len(BlockState))
        assert (self._counts == counted).all(), f"counts {self._counts} are not the states {counted}"
        assert int(self._counts.sum()) == self.descriptor.usable_blocks, "states do not add up to the usable blocks"
        self.requests.check_integrity()
        self.stale.check_integrity()
        known = self.ref != UNKNOWN_U4
        if self.holders_known:
            held = self.num_holds()
            assert (held[known] == self.ref[known]).all(), "ref_cnt is not the number of holds"
        for ordinal in self.ordinals_carried() if with_hashes else ():
            assert self.hashes.get(int(ordinal)) is not None, f"hash {ordinal} is carried by a block but not known"

    def ordinals_carried(self) -> U4:
        """Hash ordinals that some block carries."""
        carried: U4 = self.hash_ordinal[self.hash_ordinal < UNKNOWN_U4]
        return carried

    def parents_told(self) -> U4:
        """Hash ordinals that are the parent of a block's hash."""
        parents: U4 = self.parent_ordinal[self.parent_ordinal < UNKNOWN_U4]
        return parents

    def classify(self, blocks: U4) -> U1:
        """The state of these blocks as their columns tell it."""
        ref, ordinal = self.ref[blocks], self.hash_ordinal[blocks]
        state: U1 = self.written[blocks] + np.uint8(BlockState.empty)
        state[ordinal != NO_ORDINAL] = BlockState.cached
        state[ref > 0] = BlockState.active
        state[ref > 1] = BlockState.shared
        state[(ref == UNKNOWN_U4) | (ordinal == UNKNOWN_U4)] = BlockState.unknown
        return state

    def reclassify(self) -> None:
        """Makes `state` and the counts anew from the columns, after the columns were replaced."""
        self.state = self.classify(np.arange(self.num_blocks, dtype=np.uint32))
        self._counts = np.bincount(self._usable(self.state), minlength=len(BlockState)).astype(np.int64)

    def _apply_rows(self, columns: Columns, times: NDArray[np.int64], seq0: int) -> U4:
        if not len(columns.blk) and not (columns.kind == _CLEARED).any():
            return np.zeros(0, np.uint32)
        touched = []
        for rows in rows_of(columns, times, seq0, _ALONE):
            if rows.alone is not None:
                touched.append(self._apply_alone(rows))
            elif len(rows.blk):
                touched.append(self._apply_batch(rows))
        if len(touched) == 1:
            return touched[0]
        return last_of_each(np.concatenate([*touched, np.zeros(0, np.uint32)]), self._scratch)

    def _apply_batch(self, rows: Rows) -> U4:
        kind, blk = rows.kind, rows.blk
        sets_ref = np.flatnonzero(_SETS_REF[kind])
        self._set_refs(rows, sets_ref)
        sets_hash = np.flatnonzero(_SETS_HASH[kind])
        if len(sets_hash) or self.stale:
            self._check_hashes(rows)
        if len(sets_hash):
            self.hash_ordinal[blk[sets_hash]] = rows.hash_after(sets_hash)
        cached = np.flatnonzero(kind == _CACHED)
        self.parent_ordinal[blk[cached]] = rows.val[cached].astype(np.uint32)
        self._set_slots(rows)
        self.holders.extend(blk[sets_ref], rows.req[sets_ref], ~_ADDS_HOLD[kind[sets_ref]])
        allocated = np.flatnonzero(kind == _ALLOCATED)
        self.t_alloc[blk[allocated]] = rows.t[allocated]
        self.t_last[blk] = rows.t
        self.written[blk] = 1
        return self._settle(last_of_each(blk, self._scratch))

    def _set_refs(self, rows: Rows, at: NDArray[np.intp]) -> None:
        blk, after = rows.blk[at], self._refs_after(rows, at)
        freed = rows.kind[at] == _FREED
        if freed.any():
            for row in at[double_frees(blk, freed, after, self.ref)].tolist():
                self._note_fault("double_free", rows, row)
        self.ref[blk] = after

    def _check_hashes(self, rows: Rows) -> None:
        stale, ordinals = hashed_when_allocated(rows, self.hash_ordinal, self._scratch)
        fresh = {
            row: GivenOut(int(rows.req[row]), int(rows.seq[row]), int(rows.t[row]), self.hashes.get(ordinal))
            for row, ordinal in zip(stale.tolist(), ordinals.tolist(), strict=True)
        }
        for row, given in fresh.items():
            self._note_fault("stale_hash", rows, row, block_hash=given.block_hash)
        if fresh or self.stale:
            carried = CarriedHashes(rows, self.hash_ordinal, self.parent_ordinal, self.hashes)
            for hit in self.stale.follow(fresh, carried):
                told = {"block_hash": hit.given.block_hash, "given": hit.given, "is_certain": hit.is_certain}
                self._note_fault("stale_hit", rows, hit.row, **told)

    def _note_fault(self, kind: str, rows: Rows, row: int, **told: Any) -> None:
        block, holder, seq, t_ns = (int(column[row]) for column in (rows.blk, rows.req, rows.seq, rows.t))
        if len(self._faults) < MAX_FAULTS:
            self._faults.append(Fault(kind, block, holder, seq, t_ns, **told))

    def _refs_after(self, rows: Rows, at: NDArray[np.intp]) -> U4:
        kind, val = rows.kind[at], rows.val[at]
        after = np.where(kind == _ALLOCATED, 1, np.where(kind == _FREED, 0, val))
        for row in at[after < 0].tolist():
            self._note_fault("ref_underflow", rows, row)
        return np.maximum(after, 0).astype(np.uint32)

    def _set_slots(self, rows: Rows) -> None:
        at = np.flatnonzero(_SETS_SLOTS[rows.kind])
        if not len(at):
            return
        kind, blk, group = rows.kind[at], rows.blk[at], rows.group[at]
        full = self._block_sizes[np.minimum(group, len(self._block_sizes) - 1)]
        slots = np.where(kind == _FILLED, rows.val[at], np.where(kind == _CACHED, full, 0))
        self.slots[blk] = np.clip(slots, 0, 0xFFFF).astype(np.uint16)
        self.group[blk] = group

    def _apply_alone(self, rows: Rows) -> U4:
        if rows.alone == _CLEARED:
            return self._clear_cache(rows.a0)
        dst, src = rows.blk, rows.val.astype(np.uint32)
        self.slots[dst] = self.slots[src]
        if rows.alone == _MOVED:
            self.hash_ordinal[dst] = self.hash_ordinal[src]
            self.parent_ordinal[dst] = self.parent_ordinal[src]
        self.t_last[dst] = rows.t
        self.written[dst] = 1
        return self._settle(np.unique(dst))

    def _clear_cache(self, medium: int) -> U4:
        blocks = np.arange(self.num_blocks, dtype=np.uint32)
        if medium != ALL_MEDIA and medium < len(self.descriptor.pools):
            pool = self.descriptor.pools[medium]
            blocks = blocks[pool.first_block_id : pool.first_block_id + pool.num_blocks]
        changed = blocks[self.hash_ordinal[blocks] != NO_ORDINAL]
        self.hash_ordinal[changed] = NO_ORDINAL
        self.stale.forget(blocks.tolist() if self.stale else ())
        return self._settle(changed)

    def _settle(self, blocks: U4) -> U4:
        """Brings `state` and the counts up to date for these blocks (each once) and returns them."""
        before, after = self._usable_of(blocks, self.state[blocks]), self.classify(blocks)
        self._counts -= np.bincount(before, minlength=len(BlockState))
        self._counts += np.bincount(self._usable_of(blocks, after), minlength=len(BlockState))
        self.state[blocks] = after
        return blocks

    def _usable(self, states: U1) -> U1:
        null = self.descriptor.null_block
        return states if null < 0 else np.delete(states, null)

    def _usable_of(self, blocks: U4, states: U1) -> U1:
        null = self.descriptor.null_block
        return states if null < 0 else states[blocks != null]

    def _forget_blocks(self) -> None:
        self.ref[:] = UNKNOWN_U4
        self.hash_ordinal[:] = UNKNOWN_U4
        self.parent_ordinal[:] = NO_ORDINAL
        self.stale = StaleBlocks()
        self.reclassify()

    def check_blocks(self, columns: Columns) -> None:
        """Raises `BadMessage` for what `apply` would refuse."""
        if _RESIDENCY[columns.kind].any():
            raise BadMessage("The message tells of hashes, not of blocks: it is no stream of a pool.")
        if len(columns.blk) and int(columns.blk.max()) >= self.num_blocks:
            raise BadMessage(f"The message names block {columns.blk.max()}; the source has {self.num_blocks}.")
        alone = (columns.kind == _COPIED) | (columns.kind == _MOVED)
        if alone.any():
            sources = np.repeat(alone[HAS_VALUE[columns.kind]], columns.n[HAS_VALUE[columns.kind]])
            src = columns.val[sources]
            if len(src) and not 0 <= int(src.min()) <= int(src.max()) < self.num_blocks:
                raise BadMessage("The message copies from a block that the source does not have.")

    def _count_operations(self, columns: Columns) -> None:
        counts = columns.kind_counts()
        self.kind_totals += counts
        if counts[Kind.BlockEvicted]:
            self.eviction_totals += columns.cause_counts(Kind.BlockEvicted)
        scheduled = columns.kind == _SCHEDULED
        if scheduled.any():
            self.queried_tokens += int(columns.a0[scheduled].sum(dtype=np.int64))
            self.hit_tokens += int(columns.a1[scheduled].sum(dtype=np.int64))
        self.generated_tokens += int(columns.a0[columns.kind == _GENERATED].sum(dtype=np.int64))
        self.computed_tokens += int(columns.a1[columns.kind == _COMPLETED].sum(dtype=np.int64))

    def _note_header(self, header: Header) -> None:
        self.source, self.incarnation = header.source, header.incarnation
        self.step, self.lost = header.step, header.lost
        self.next_wire_seq = header.wire_seq + 1
        self.next_seq = header.seq0 + header.n

    def _tidy(self) -> None:
        self.hashes.thin(self._ordinals_kept)
        if self.requests.wants_pruning():
            self.requests.prune(self.holds()[1])

    def _ordinals_kept(self) -> U4:
        return np.concatenate([self.ordinals_carried(), self.parents_told()])
