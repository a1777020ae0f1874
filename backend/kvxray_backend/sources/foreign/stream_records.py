"""What one foreign source leaves for whoever keeps its history: its epochs, its messages in order, what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.schema import Descriptor, Name


@dataclass(frozen=True, slots=True)
class EpochBegan:
    """`incarnation`: a name that no other epoch has. `descriptor`: before the first message."""

    epoch: int
    incarnation: str
    descriptor: Descriptor


@dataclass(frozen=True, slots=True, eq=False)
class StateBefore:
    """The fold before event `seq` of message `wire_seq`: that of an epoch that begins (0), or (where earlier messages
    were folded and are not kept) before the first one kept. `names`: by ordinal.
    """

    state: bytes
    names: Mapping[int, Name]
    seq: int
    wire_seq: int
    t_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """One message, folded. `is_late`: its place is before others."""

    message: Message
    is_late: bool


@dataclass(frozen=True, slots=True)
class Missing:
    """Batches first..last did not come, or could not be told."""

    first: int
    last: int
    reason: str


@dataclass(frozen=True, slots=True)
class Mended:
    """Batches first..last, missing until now, are kept."""

    first: int
    last: int


StreamRecord = EpochBegan | StateBefore | Kept | Missing | Mended
