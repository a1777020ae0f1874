"""What a foreign engine told, whatever its dialect: batches of stores, removals and clears of blocks known by hash.

Pure data, between the dialects that make it and everything behind them. A hash is opaque bytes: 8 big-endian ones where
the engine sends integers (two's complement where they are signed), else the bytes it sent. Token ids are gone by here:
what is left of them is how many there were, and keyed digests. Structs of msgspec, since one is made for each event.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct, field

Hash = bytes
Why = Literal["store", "reuse_report", "placeholder"]


class Place(Struct, frozen=True, gc=False):
    """Where a block is kept. `medium`: as told, empty when it was not; `group`: KV cache group, 0 when not told."""

    medium: str = ""
    group: int = 0


class Spec(Struct, frozen=True, gc=False):
    """What a group's layers are, as told: full_attention, sliding_window, mamba …; empty when not told. `window`:
    tokens, 0 = none.
    """

    kind: str = ""
    window: int = 0


class Stored(Struct, frozen=True, gc=False):
    """Blocks of one chain, each the child of the one before it. `parent`: that of the first; None: it is a root, or
    (why placeholder) nothing is told of it.

    num_tokens: token ids that came along, for all blocks together; None: the dialect sends none. block_size: tokens a
    block, as told; 0 for a placeholder. token_digests: of the tokens of each block, empty when there are none.
    salt, session, lora: as told, still readable; whoever keeps them digests salt and session first.
    """

    hashes: tuple[Hash, ...]
    parent: Hash | None
    block_size: int
    num_tokens: int | None
    place: Place = Place()
    spec: Spec = Spec()
    why: Why = "store"
    lora: str = ""
    salt: str = ""
    session: str = ""
    locality: str = ""
    ownership: str = ""
    token_digests: tuple[bytes, ...] = ()


class Removed(Struct, frozen=True, gc=False):
    """One copy of each. `is_any_group`: no group was told, so that the hashes are looked for in all groups.
    `is_any_medium`: the dialect never tells the medium of a removal (TensorRT-LLM's JSON), so that they are looked for
    in all media; elsewhere a medium that is not told is the GPU's.
    """

    hashes: tuple[Hash, ...]
    place: Place = Place()
    is_any_group: bool = False
    locality: str = ""
    ownership: str = ""
    is_any_medium: bool = False


class Moved(Struct, frozen=True, gc=False):
    """Blocks that went from one medium to another (TensorRT-LLM's `updated`)."""

    hashes: tuple[Hash, ...]
    source: Place
    target: Place


class Cleared(Struct, frozen=True, gc=False):
    """Everything on a medium is forgotten; empty: on that of the GPU, as all engines mean it."""

    medium: str = ""


class Created(Struct, frozen=True, gc=False):
    """How large the caches are: blocks by medium (TensorRT-LLM tells it first)."""

    num_blocks: tuple[tuple[str, int], ...]
    window: int = 0


Told = Stored | Removed | Moved | Cleared | Created


class Oddities(Struct, frozen=True, gc=False):
    """What was not understood, counted: nothing of it stops the rest of its batch."""

    unknown_events: dict[str, int] = field(default_factory=dict)
    unknown_fields: dict[str, int] = field(default_factory=dict)
    bad_events: int = 0

    def __bool__(self) -> bool:
        return bool(self.unknown_events or self.unknown_fields or self.bad_events)


NO_ODDITIES: Final = Oddities()


class Batch(Struct, frozen=True, gc=False):
    """One message. `ts`: Unix seconds by the engine's wall clock, None when not told. `rank`: data-parallel rank, None
    when not told. `digest`: 16 bytes over the payload, by which a duplicate is told from a restart.

    event_id: where each event has a number of its own (TensorRT-LLM's JSON, Dynamo): one left out is an event lost.
    elapsed_s: seconds since a recording began (Dynamo), which is no wall clock. worker: whose event it is (Dynamo).
    """

    ts: float | None
    rank: int | None
    events: tuple[Told, ...]
    oddities: Oddities = NO_ODDITIES
    digest: bytes = b""
    event_id: int | None = None
    elapsed_s: float | None = None
    worker: int | None = None
