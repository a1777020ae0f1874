"""A made-up engine that tells of hashes only, event by event, as messages."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import numpy as np
from kvxray_engine.stream.codec import Message, decode, encode, encode_descriptor
from kvxray_engine.stream.columns import Columns
from kvxray_engine.stream.residency_descriptor import describe, place_of
from kvxray_engine.stream.schema import NO_ORDINAL, SCHEMA_VERSION, Cause, Descriptor, Group, Header, Kind, Name, Pool

T0_NS = 1_770_000_000_000_000_000
GPU, CPU = place_of(0, 0), place_of(0, 1)
WINDOW = place_of(1, 0)
DESCRIPTOR = describe(
    (Group("full_attention"), Group("sliding_window", 32)),
    (Pool("GPU", "GPU", 0, 0), Pool("CPU", "CPU_PINNED", 0, 0)),
    (0, 4, 2),
)
FOUR = 1
"""Index of the block size of four tokens."""


@dataclass(frozen=True)
class Event:
    """`hashes`: ordinals. `parent`: that of the first, -1 of a root."""

    kind: Kind
    hashes: tuple[int, ...] = ()
    place: int = GPU
    parent: int = -1
    cause: Cause = Cause.store
    size: int = FOUR
    tokens: int | None = None
    req: int = NO_ORDINAL
    medium: int = 0

    @property
    def values(self) -> list[int]:
        if self.kind == Kind.ResidencyRemoved or self.cause == Cause.placeholder:
            return [-1] * len(self.hashes)
        return [self.parent, *self.hashes[:-1]][: len(self.hashes)]


def store(*hashes: int, parent: int = -1, place: int = GPU, **more) -> Event:
    return Event(Kind.ResidencyStored, hashes, place, parent, **more)


def remove(*hashes: int, place: int = GPU) -> Event:
    return Event(Kind.ResidencyRemoved, hashes, place, cause=Cause.remove, size=0)


def placeholder(*hashes: int, place: int = CPU) -> Event:
    return Event(Kind.ResidencyStored, hashes, place, cause=Cause.placeholder, size=0)


def clear(medium: int = 0) -> Event:
    return Event(Kind.CacheCleared, medium=medium, cause=Cause.explicit)


def hash_of(ordinal: int) -> bytes:
    return (ordinal + 1).to_bytes(8, "big")


@dataclass
class Teller:
    """Tells the bytes of every ordinal up to the highest that was mentioned. `seq` of event i of message m is m * 100 +
    i + 1: its StepStarted comes first.
    """

    wire_seq: int = 0
    hashes: int = 0
    req: int = 0
    names: list[Name] = field(default_factory=list)

    def tell(self, *events: Event, names: tuple[Name, ...] = ()) -> Message:
        header = self._header(max([self.hashes, *(1 + one for e in events for one in (*e.hashes, e.parent))]), names)
        columns = _columns(self.wire_seq, events)
        columns.hashes = b"".join(map(hash_of, range(header.hash0, self.hashes)))
        self.wire_seq += 1
        return decode(encode(_with(header, n=columns.num_events), columns))

    def describe(self, descriptor: Descriptor) -> Message:
        header = _with(self._header(self.hashes, ()), type="descriptor", descriptor=encode_descriptor(descriptor))
        return Message(header, Columns.empty())

    def _header(self, end: int, names: tuple[Name, ...]) -> Header:
        hash0, self.hashes = self.hashes, end
        req0, self.req = self.req, self.req + len(names)
        return Header(
            SCHEMA_VERSION, "events", "engine", "", self.wire_seq, self.wire_seq * 100, 0, self.wire_seq,
            T0_NS + self.wire_seq * 1_000_000, 0, 0, req0, hash0, 8, names, (),
        )  # fmt: skip


def _with(header: Header, **changes) -> Header:
    return msgspec.structs.replace(header, **changes)


def _columns(wire_seq: int, events: tuple[Event, ...]) -> Columns:
    started = (Kind.StepStarted, Cause.none, NO_ORDINAL, 0, 0, wire_seq)
    operations = [started]
    for e in events:
        a0 = e.medium if e.kind == Kind.CacheCleared else NO_ORDINAL if e.tokens is None else e.tokens
        a1 = 0 if e.kind == Kind.CacheCleared else e.place | e.size << 16
        operations.append((e.kind, e.cause, e.req, len(e.hashes), a0, a1))
    kind, cause, req, n, a0s, a1s = zip(*operations, strict=True)
    return Columns(
        np.array(kind, np.uint8), np.array(cause, np.uint8), np.array(req, np.uint32), np.array(n, np.uint32),
        np.array(a0s, np.uint32), np.array(a1s, np.uint32),
        np.array([one for e in events for one in e.hashes], np.uint32),
        np.array([one for e in events for one in e.values], np.int32),
    )  # fmt: skip
