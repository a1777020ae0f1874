"""Batches of foreign engines as messages of our own stream: hashes become ordinals, places become indices.

The messages of one epoch, one a batch. `seq` is wire_seq * 2^20 + index, so that a batch that comes late has its place.
What is new of the engine (a group, a medium, a block size) is told by the descriptor of the batch that needs it. Salts
and sessions are digested before they go into a name.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from kvxray_engine.stream.codec import HASH_WIDTHS, Message, encode_descriptor
from kvxray_engine.stream.columns import U4, Columns
from kvxray_engine.stream.joining import EVENTS_OF_BATCH
from kvxray_engine.stream.residency_descriptor import ANY_GROUP, NOT_TOLD, place_of
from kvxray_engine.stream.residency_names import NAMES_IN_USE
from kvxray_engine.stream.residency_rows import Bools
from kvxray_engine.stream.residency_state import GENERATION
from kvxray_engine.stream.schema import (
    MAX_ORDINAL,
    NO_ORDINAL,
    SCHEMA_VERSION,
    Cause,
    Descriptor,
    Header,
    Kind,
    Name,
)

from kvxray_backend.sources.foreign.caps import MAX_SEQ, BadBatch
from kvxray_backend.sources.foreign.described import Described, described_by
from kvxray_backend.sources.foreign.hash_ordinals import HashOrdinals
from kvxray_backend.sources.foreign.told import Batch, Cleared, Created, Hash, Moved, Removed, Stored, Told
from kvxray_backend.sources.privacy import NameFilter

MAX_HASHES: Final = 1 << 23
"""Remembered at once: more than the tiers of one engine hold, and about a gigabyte."""
MAX_TURNS: Final = 4_096
"""Of one batch: clears, and removals without a group where there are several. Each is folded by itself."""
_MAX_TS: Final = 1 << 32
_CAUSES: Final = {"store": Cause.store, "reuse_report": Cause.reuse_report, "placeholder": Cause.placeholder}


class EpochIsFull(Exception):
    """The epoch has no room for another hash: nothing was taken of the batch, and another epoch has to begin."""


@dataclass(frozen=True, slots=True, eq=False)
class Interned:
    """One batch. `token_digests`: hash ordinal and digest of its tokens, where they were told."""

    message: Message
    token_digests: tuple[tuple[int, bytes], ...]


class Interning:
    """Of one publisher in one epoch. Each message must be folded before the next batch is interned. `_next_wire_seq`:
    a batch below it comes late.
    """

    def __init__(
        self,
        source: str,
        names: NameFilter,
        are_gone: Callable[[U4], Bools],
        *,
        incarnation: str = "",
        like: Descriptor = NOT_TOLD,
        generation_size: int = GENERATION,
    ) -> None:
        """are_gone: `ResidencyMap.are_gone` of the fold. like: labels and model for the descriptor."""
        self._source = source
        self._incarnation = incarnation
        self._filter = names
        self._like = like
        self._described = Described()
        self._hashes = HashOrdinals(are_gone, generation_size)
        self._names: OrderedDict[Name, int] = OrderedDict()  # the first of many is found at once
        self._next_name = 0
        self._next_wire_seq = 0

    @property
    def descriptor(self) -> Descriptor:
        """The engine as far as it was told; before the first batch, where the fold begins."""
        return self._described.descriptor(self._like)

    @property
    def num_hashes(self) -> int:
        """How many are remembered."""
        return len(self._hashes)

    def intern(self, batch: Batch, wire_seq: int, received_ns: int) -> Interned:
        """received_ns: wall ns, for a batch that tells no time. Raises `BadBatch` with one sentence for a batch that
        cannot be told, and `EpochIsFull`; both change nothing.
        """
        described = described_by(self._described, batch.events)
        self._check(batch, wire_seq, described)
        t0_ns = received_ns if batch.ts is None else round(batch.ts * 1e6) * 1000
        # Read in the order of their numbers, a late batch comes before those that described what it names.
        is_told = described is self._described and wire_seq >= self._next_wire_seq
        self._described, self._next_wire_seq = described, max(self._next_wire_seq, wire_seq + 1)
        self._hashes.begin_message()
        body = _Body(hash0=self._hashes.next, req0=self._next_name)
        whole = Cause.none if not batch.oddities.bad_events else Cause.error
        body.operation(Kind.StepStarted, whole, a1=wire_seq & 0xFFFFFFFF)
        for event in batch.events:
            self._add(body, event)
        body.hashes = self._hashes.take_fresh()
        descriptor = b"" if is_told else encode_descriptor(self.descriptor)
        return Interned(self._message(body, wire_seq, t0_ns, descriptor), tuple(body.token_digests))

    def _check(self, batch: Batch, wire_seq: int, described: Described) -> None:
        if not 0 <= wire_seq < MAX_SEQ:
            raise BadBatch(f"The batch has the number {wire_seq}, which is out of range.")
        if batch.ts is not None and not 0 <= batch.ts < _MAX_TS:
            raise BadBatch(f"The batch has the time {batch.ts}, which no clock shows.")
        if _num_events(batch.events, len(described.media)) > EVENTS_OF_BATCH:
            raise BadBatch(f"The batch holds more than {EVENTS_OF_BATCH:,} events.")
        if _num_turns(batch.events) > MAX_TURNS:
            raise BadBatch(f"The batch clears media or removes from any group in more than {MAX_TURNS:,} turns.")
        if any(len(one) not in HASH_WIDTHS for event in batch.events for one in _hashes_of(event)):
            raise BadBatch("The batch holds a hash that is not 8, 16 or 32 bytes long.")
        is_used_up = max(self._hashes.next, self._next_name) + 2 * EVENTS_OF_BATCH >= MAX_ORDINAL
        if is_used_up or len(self._hashes) >= MAX_HASHES:
            raise EpochIsFull(f"This epoch of {self._source} has told of as many hashes as one can.")

    def _add(self, body: _Body, event: Told) -> None:
        if isinstance(event, Stored):
            self._add_stored(body, event)
        elif isinstance(event, Removed):
            is_any = event.is_any_group and len(self._described.groups) > 1
            group = ANY_GROUP if is_any else event.place.group
            self._add_removed(body, event.hashes, place_of(group, self._medium(event.place.medium)))
        elif isinstance(event, Moved):
            source, target = event.source, event.target
            self._add_removed(body, event.hashes, place_of(source.group, self._medium(source.medium)))
            # Where the block hangs in its chain was told when it was stored, not when it moves.
            self._add_stored(body, Stored(event.hashes, None, 0, None, target, why="placeholder"))
        elif isinstance(event, Cleared):
            for medium in self._described.cleared_media(event.medium):
                body.operation(Kind.CacheCleared, Cause.explicit, a0=medium)
        else:
            assert isinstance(event, Created), "the descriptor has told it already"

    def _add_stored(self, body: _Body, event: Stored) -> None:
        if not event.hashes:
            return
        is_chain = event.why != "placeholder"
        parent = self._hashes.ordinal_of(event.parent) if is_chain and event.parent is not None else -1
        ordinals = [self._hashes.ordinal_of(one) for one in event.hashes]
        place = place_of(event.place.group, self._medium(event.place.medium))
        size = self._described.block_sizes.index(event.block_size)
        body.operation(
            Kind.ResidencyStored,
            _CAUSES[event.why],
            req=self._name(body, event),
            rows=ordinals,
            values=[parent, *ordinals[:-1]] if is_chain else [-1] * len(ordinals),
            a0=NO_ORDINAL if event.num_tokens is None or not is_chain else min(event.num_tokens, NO_ORDINAL - 1),
            a1=place | size << 16,
        )
        body.token_digests += zip(ordinals, event.token_digests, strict=False)

    def _add_removed(self, body: _Body, hashes: tuple[Hash, ...], place: int) -> None:
        if hashes:
            ordinals = [self._hashes.ordinal_of(one) for one in hashes]
            values = [-1] * len(ordinals)
            body.operation(Kind.ResidencyRemoved, Cause.remove, rows=ordinals, values=values, a1=place)

    def _medium(self, medium: str) -> int:
        return self._described.medium_index(medium)

    def _name(self, body: _Body, event: Stored) -> int:
        """Ordinal of the session, LoRA and salt together; the least recent combinations lose theirs."""
        if not (event.session or event.lora or event.salt):
            return NO_ORDINAL
        told = Name("", "namespace", session=event.session, lora=event.lora, salt=event.salt)
        name = self._filter.name(told)
        ordinal = self._names.pop(name, None)
        if ordinal is None or ordinal <= self._next_name - NAMES_IN_USE:
            ordinal = self._next_name
            self._next_name += 1
            body.names.append(name)
        self._names[name] = ordinal
        if len(self._names) > NAMES_IN_USE:
            self._names.popitem(last=False)
        return ordinal

    def _message(self, body: _Body, wire_seq: int, t0_ns: int, descriptor: bytes) -> Message:
        columns = body.columns()
        header = Header(
            version=SCHEMA_VERSION, type="events", source=self._source, incarnation=self._incarnation,
            wire_seq=wire_seq, seq0=wire_seq * EVENTS_OF_BATCH, n=columns.num_events, step=wire_seq, t0_wall_ns=t0_ns,
            t0_mono_ns=0, lost=0, req0=body.req0, hash0=body.hash0, hash_width=self._hashes.width,
            names=tuple(body.names), sizes=(), descriptor=descriptor,
        )  # fmt: skip
        return Message(header, columns)


class _Body:
    """The columns of a message while it is built."""

    def __init__(self, hash0: int = 0, req0: int = 0) -> None:
        self.hash0, self.req0 = hash0, req0
        self.names: list[Name] = []
        self.hashes = b""
        self.token_digests: list[tuple[int, bytes]] = []
        self._operations: list[tuple[int, int, int, int, int, int]] = []
        self._rows: list[int] = []
        self._values: list[int] = []

    def operation(
        self, kind: Kind, cause: Cause, *, req: int = NO_ORDINAL, rows: list[int] | None = None,
        values: list[int] | None = None, a0: int = 0, a1: int = 0,
    ) -> None:  # fmt: skip
        self._operations.append((kind, cause, req, len(rows or ()), a0, a1))
        self._rows += rows or ()
        self._values += values or ()

    def columns(self) -> Columns:
        kind, cause, req, n, a0, a1 = zip(*self._operations, strict=True) if self._operations else ((),) * 6
        return Columns(
            kind=np.array(kind, np.uint8), cause=np.array(cause, np.uint8), req=np.array(req, np.uint32),
            n=np.array(n, np.uint32), a0=np.array(a0, np.uint32), a1=np.array(a1, np.uint32),
            blk=np.array(self._rows, np.uint32), val=np.array(self._values, np.int32), hashes=self.hashes,
        )  # fmt: skip


def _hashes_of(event: Told) -> tuple[Hash, ...]:
    if isinstance(event, Stored):
        return event.hashes if event.parent is None else (event.parent, *event.hashes)
    return event.hashes if isinstance(event, Removed | Moved) else ()


def _num_turns(events: tuple[Told, ...]) -> int:
    """How often the events go on to a clear, or from something else to removals that name no group."""
    is_any = [isinstance(event, Removed) and event.is_any_group for event in events]
    begun = sum(one and not before for one, before in zip(is_any, [False, *is_any], strict=False))
    return begun + sum(isinstance(event, Cleared) for event in events)


def _num_events(events: tuple[Told, ...], num_media: int) -> int:
    """How many `seq` numbers they take at most."""
    num = 1
    for event in events:
        if isinstance(event, Stored | Removed):
            num += len(event.hashes)
        elif isinstance(event, Moved):
            num += 2 * len(event.hashes)
        elif isinstance(event, Cleared):
            num += num_media
    return num
