"""The words of the event stream: kinds, causes, states, and the header of a message.

A *message* is what one step of an engine did. Its body is a set of columns: **operations** (one whole-request action
each), every one owning the next `n` **rows** (one block each). `seq` numbers events: a row is one, an operation without
rows is one. Requests and block hashes are known by *ordinals*, contiguous within an epoch, so that the hot path needs
no dictionary.

Block states, event kinds and causes are spelled the same in code, API, charts and docs.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

SCHEMA_VERSION = 1

NO_ORDINAL = 0xFFFFFFFF
"""u4 for "no request" and "no hash"."""

UNKNOWN_U4 = 0xFFFFFFFE
"""u4 for "not known": before the first snapshot, and after a gap."""

MAX_ORDINAL = 0x7FFFFFFF
"""Holders are packed with a flag bit into 32 bits: an epoch ends before an ordinal reaches this."""


class Kind(IntEnum):
    """What happened. Values are on the wire and in stored chunks: never renumber."""

    StepStarted = 1
    StepCompleted = 2
    BlockAllocated = 10
    BlockReferenced = 11
    BlockDereferenced = 12
    BlockFreed = 13
    BlockCached = 14
    BlockEvicted = 15
    BlockFilled = 16
    BlockCopied = 17
    BlockMoved = 18
    CacheCleared = 19
    ResidencyStored = 20
    ResidencyRemoved = 21
    RequestArrived = 30
    RequestScheduled = 31
    TokensGenerated = 32
    RequestPreempted = 33
    RequestResumed = 34
    RequestFinished = 35
    RequestAborted = 36
    RequestFailed = 37
    LeaseChanged = 40


class Cause(IntEnum):
    """Why it happened."""

    none = 0
    hit = 1
    fork = 2
    pin = 3
    lease = 4
    finish = 5
    abort = 6
    error = 7
    preempt = 8
    window = 9
    release = 10
    allocation = 11
    explicit = 12
    capacity = 13
    store = 14
    reuse_report = 15
    placeholder = 16
    remove = 17


class BlockState(IntEnum):
    """States of a block, exclusive. `unknown` comes first so that zeroed memory claims nothing."""

    unknown = 0
    empty = 1
    free = 2
    cached = 3
    active = 4
    shared = 5


class QueueEnd(IntEnum):
    """The end of the free queue that a freed block went to (a0 of BlockFreed)."""

    front = 0
    tail = 1


class RequestStatus(IntEnum):
    """Where a request stands, as the fold has it from the events."""

    unknown = 0
    waiting = 1
    running = 2
    preempted = 3
    finished = 4
    aborted = 5
    failed = 6


ENDED_STATUSES = frozenset({RequestStatus.finished, RequestStatus.aborted, RequestStatus.failed})

ROW_KINDS = frozenset(
    {
        Kind.BlockAllocated,
        Kind.BlockReferenced,
        Kind.BlockDereferenced,
        Kind.BlockFreed,
        Kind.BlockCached,
        Kind.BlockEvicted,
        Kind.BlockFilled,
        Kind.BlockCopied,
        Kind.BlockMoved,
        Kind.ResidencyStored,
        Kind.ResidencyRemoved,
    }
)
"""Kinds whose operations own rows; all others have n = 0."""

VALUE_KINDS = frozenset(
    {
        Kind.BlockReferenced,
        Kind.BlockDereferenced,
        Kind.BlockCached,
        Kind.BlockFilled,
        Kind.BlockCopied,
        Kind.BlockMoved,
        Kind.ResidencyStored,
        Kind.ResidencyRemoved,
    }
)
"""Kinds whose rows also have a value (`val`): ref after, parent's hash ordinal, slots, source block."""

RESIDENCY_KINDS = frozenset({Kind.ResidencyStored, Kind.ResidencyRemoved})
"""Foreign streams speak of hashes: their rows are hash ordinals, not block ids."""


class Name(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What an ordinal of a holder means. Ordinals are given in order, one a name. It refers to nothing that could refer
    to it, and there are thousands: the garbage collector need not look at them.

    kind: request, sequence, pin, lease or transfer. parent: ordinal of the request of a sequence (-1 none).
    deadline: wall ns until which a lease may hold (0 = none).
    """

    id: str
    kind: str = "request"
    parent: int = -1
    deadline: int = 0
    tenant: str = ""
    session: str = ""
    lora: str = ""
    salt: str = ""


class Group(msgspec.Struct, frozen=True):
    """One KV cache group: layers that share block tables. `block_size` 0 = that of the descriptor. `kind`: empty where
    an engine that tells of hashes only has not said it.
    """

    kind: str = "full"
    window: int = 0
    block_size: int = 0


class Pool(msgspec.Struct, frozen=True):
    """A range of block ids that lives on one medium (GPU, CPU, DISK, REMOTE)."""

    medium: str
    name: str
    first_block_id: int
    num_blocks: int


class Descriptor(msgspec.Struct, frozen=True):
    """What a source is: constant within an epoch's chunks, one JSON object.

    null_block: -1 = none. bytes_per_block: with the scales of a quantised cache; bytes_per_block_fp16: what the same
    block would take unquantised, in 16 bits. Both 0 = not told. block_sizes: those that the events of an engine point
    at that tells of hashes only, 0 = not told; empty for one that has a pool of blocks.
    """

    num_blocks: int
    block_size: int
    null_block: int = -1
    bytes_per_block: int = 0
    kv_cache_dtype: str = ""
    groups: tuple[Group, ...] = (Group(),)
    pools: tuple[Pool, ...] = ()
    model: str = ""
    labels: dict[str, str] = {}
    bytes_per_block_fp16: int = 0
    block_sizes: tuple[int, ...] = ()

    @property
    def usable_blocks(self) -> int:
        """Blocks that can hold tokens: all but the null block."""
        return self.num_blocks - (1 if self.null_block >= 0 else 0)


class Totals(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The engine's own counts after the step that `wire_seq` closed, for auditing the fold."""

    wire_seq: int = -1
    step: int = 0
    num_free: int = 0
    num_hashed: int = 0
    ref_sum: int = 0
    running: int = 0
    waiting: int = 0


class Header(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Everything about a message but its columns.

    type: events, heartbeat or descriptor. wire_seq: contiguous message number, taken before the queue is tried, so that
    a drop shows as a gap; a heartbeat repeats the last one taken. seq0, n: the events' numbers. t0_*: ns when the
    message was opened. lost: messages dropped at the recorder so far. req0, hash0: first ordinals used here. sizes:
    bytes of each column.
    """

    version: int
    type: str
    source: str
    incarnation: str
    wire_seq: int
    seq0: int
    n: int
    step: int
    t0_wall_ns: int
    t0_mono_ns: int
    lost: int
    req0: int
    hash0: int
    hash_width: int
    names: tuple[Name, ...]
    sizes: tuple[int, ...]
    descriptor: bytes = b""
    totals: Totals | None = None
