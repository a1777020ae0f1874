"""A made-up engine for storage tests: tells any operations as messages, and expands them one by one, plainly."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st
from kvxray_engine.stream.codec import Message, decode, encode, encode_descriptor
from kvxray_engine.stream.columns import Columns
from kvxray_engine.stream.schema import (
    NO_ORDINAL,
    RESIDENCY_KINDS,
    ROW_KINDS,
    SCHEMA_VERSION,
    VALUE_KINDS,
    Cause,
    Descriptor,
    Header,
    Kind,
    Name,
    Pool,
)
from kvxray_storage.event_rows import EventRow

T0_NS = 1_770_000_000_000_000_000


def descriptor(num_blocks: int = 64) -> Descriptor:
    return Descriptor(
        num_blocks=num_blocks, block_size=16, null_block=0, pools=(Pool("GPU", "GPU", 0, num_blocks),), model="told"
    )


@dataclass(frozen=True)
class Told:
    """One operation. `blocks`: its rows; `values`: one for each, for kinds that have values."""

    kind: Kind
    req: int = NO_ORDINAL
    blocks: tuple[int, ...] = ()
    values: tuple[int, ...] = ()
    cause: Cause = Cause.none
    a0: int = 0
    a1: int = 0


def a_step(step: int, req: int, block: int) -> list[Told]:
    """Five events, two of them on `block`."""
    return [
        Told(Kind.StepStarted, a1=step),
        Told(Kind.BlockAllocated, req, (block,)),
        Told(Kind.BlockReferenced, req, (block,), (2,), Cause.hit),
        Told(Kind.TokensGenerated, req, a0=1, a1=step),
        Told(Kind.StepCompleted, a0=100, a1=1),
    ]


@dataclass
class Teller:
    """Numbers messages as a publisher does: wire_seq, seq and ordinals follow each other."""

    incarnation: str = "life-1"
    hash_width: int = 32
    wire_seq: int = 0
    seq: int = 0
    req: int = 0
    hash: int = 0
    t_ns: int = T0_NS
    names: dict[int, str] = field(default_factory=dict)

    def tell(self, told, *, names=(), num_hashes=0, step=0, after_ns=1_000_000) -> Message:
        """The next message, as a subscriber decodes it."""
        self.t_ns += after_ns
        columns = Columns(
            kind=np.array([one.kind for one in told], np.uint8),
            cause=np.array([one.cause for one in told], np.uint8),
            req=np.array([one.req for one in told], np.uint32),
            n=np.array([len(one.blocks) for one in told], np.uint32),
            a0=np.array([one.a0 for one in told], np.uint32),
            a1=np.array([one.a1 for one in told], np.uint32),
            blk=np.array([block for one in told for block in one.blocks], np.uint32),
            val=np.array([value for one in told for value in one.values], np.int32),
            hashes=bytes((self.hash + at) % 251 for at in range(num_hashes) for _ in range(self.hash_width)),
        )
        header = self._header(names=names, n=columns.num_events, step=step)
        self.names |= dict(enumerate((name.id for name in names), self.req))
        self.wire_seq += 1
        self.seq += columns.num_events
        self.req += len(names)
        self.hash += num_hashes
        return decode(encode(header, columns))

    def tell_step(self, step: int = 1, block: int = 1) -> Message:
        """A step of a new request: five events."""
        return self.tell(a_step(step, self.req, block), names=[Name(f"request-{self.req}")], step=step)

    def tell_descriptor(self, changed: Descriptor) -> Message:
        header = self._header(type="descriptor", descriptor=encode_descriptor(changed))
        self.wire_seq += 1
        return decode(encode(header, Columns.empty()))

    def lose(self, messages: int, events: int) -> None:
        """Numbers pass that nobody gets to see."""
        self.wire_seq += messages
        self.seq += events

    def _header(self, *, type="events", names=(), n=0, step=0, descriptor=b"") -> Header:
        return Header(
            version=SCHEMA_VERSION, type=type, source="engine", incarnation=self.incarnation, wire_seq=self.wire_seq,
            seq0=self.seq, n=n, step=step, t0_wall_ns=self.t_ns, t0_mono_ns=max(0, self.t_ns - T0_NS), lost=0,
            req0=self.req, hash0=self.hash, hash_width=self.hash_width, names=tuple(names), sizes=(),
            descriptor=descriptor,
        )  # fmt: skip


def expand(messages: list[Message], names: dict[int, str]) -> list[EventRow]:
    """Every event of these messages, in plain loops: what the event log must give back."""
    rows = []
    for message in messages:
        header, columns = message.header, message.columns
        seq, row, value = header.seq0, 0, 0
        started_ns, step = header.t0_wall_ns, header.step
        has_results = False
        for at in range(len(columns.kind)):
            kind, n = Kind(int(columns.kind[at])), int(columns.n[at])
            req, a0, a1 = int(columns.req[at]), int(columns.a0[at]), int(columns.a1[at])
            if kind == Kind.StepStarted:
                started_ns, step = header.t0_wall_ns + a0 * 1000, (header.step >> 32 << 32) + a1
                has_results = False
            has_results = has_results or kind in (Kind.TokensGenerated, Kind.BlockFilled, Kind.StepCompleted)
            t_ns = started_ns + (duration_ns(columns, at) if has_results else 0)
            for _ in range(max(n, 1)):
                block = val = None
                if n:
                    block = int(columns.blk[row])
                    row += 1
                if n and kind in VALUE_KINDS:
                    val = int(columns.val[value])
                    value += 1
                if kind in RESIDENCY_KINDS:
                    block, val = None, block
                cause = Cause(int(columns.cause[at]))
                request_id = names.get(req)
                taker = names.get(a1) if kind == Kind.RequestPreempted else None
                rows.append(EventRow(seq, t_ns, step, kind, cause, req, request_id, block, val, a0, a1, taker))
                seq += 1
    return rows


def duration_ns(columns: Columns, at: int) -> int:
    """How long the step of this operation took, 0 when the message does not tell its end."""
    for kind, a0 in zip(columns.kind[at:].tolist(), columns.a0[at:].tolist(), strict=True):
        if kind == Kind.StepCompleted:
            return a0 * 1000
        if kind == Kind.StepStarted:
            return 0
    return 0


def _told(num_names: int) -> st.SearchStrategy[Told]:
    """Any operation, on any of the requests told so far, or on none."""
    u4 = st.integers(0, 2**32 - 1)

    def with_rows(kind: Kind) -> st.SearchStrategy[Told]:
        rows = st.lists(
            st.tuples(st.integers(0, 70), st.integers(-1, 2**31 - 1)), max_size=5 if kind in ROW_KINDS else 0
        )
        return rows.flatmap(
            lambda pairs: st.builds(
                Told,
                kind=st.just(kind),
                req=st.sampled_from([*range(num_names), NO_ORDINAL]),
                blocks=st.just(tuple(block for block, _ in pairs)),
                values=st.just(tuple(value for _, value in pairs) if kind in VALUE_KINDS else ()),
                cause=st.sampled_from(Cause),
                # A parent's or a hash's ordinal must have been told; times must leave room for joining.
                a0=st.just(0)
                if kind == Kind.BlockCached
                else st.integers(0, 2**31)
                if kind == Kind.StepStarted
                else u4,
                a1=u4,
            )
        )

    kinds = [kind for kind in Kind if kind != Kind.BlockCached]
    return st.sampled_from(kinds).flatmap(with_rows)


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Message], dict[int, str]]:
    """Messages of one epoch, with holes and steps back in time, of any kinds; and the names that they tell."""
    teller = Teller(hash_width=draw(st.sampled_from([8, 16, 32])))
    messages = []
    for _ in range(draw(st.integers(1, 12))):
        names = [Name(f"request-{teller.req + at}") for at in range(draw(st.integers(0, 2)))]
        told = draw(st.lists(_told(teller.req + len(names)), max_size=6))
        if draw(st.booleans()):
            told = [Told(Kind.StepStarted, a0=draw(st.integers(0, 10**6)), a1=draw(st.integers(0, 2**32 - 1))), *told]
        messages.append(
            teller.tell(
                told,
                names=names,
                num_hashes=draw(st.integers(0, 3)),
                step=draw(st.integers(0, 2**40)),
                after_ns=draw(st.sampled_from([0, 1, 999, 1_234_567, 10**9, -5_000, 3_600 * 10**9])),
            )
        )
        if draw(st.integers(0, 4)) == 0:
            teller.lose(draw(st.integers(1, 3)), draw(st.integers(0, 50)))
        if draw(st.integers(0, 9)) == 0:
            teller.hash_width = draw(st.sampled_from([8, 16, 32]))
    return messages, teller.names
