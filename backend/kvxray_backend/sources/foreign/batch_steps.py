"""What is to be done with the batches of one publisher, in order: the words of `BatchSequencer`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Dated(Protocol):
    """What is asked of a batch: when it was made (Unix seconds, by the engine), and a digest of its payload."""

    @property
    def ts(self) -> float | None: ...

    @property
    def digest(self) -> bytes: ...


T = TypeVar("T", bound=Dated)
T_co = TypeVar("T_co", bound=Dated, covariant=True)


@dataclass(frozen=True, slots=True)
class Apply(Generic[T_co]):
    """`is_late`: its place is before batches that were applied already."""

    seq: int
    batch: T_co
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class GapOpened:
    """Batches first..last are missing; later ones are applied without them."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class GapRepaired:
    """Batches first..last, missing until now, are applied, late."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Restarted:
    """A new life of the publisher begins, first heard with `seq`; whether the earlier one went on beyond `last_seq`
    cannot be known.
    """

    seq: int
    last_seq: int | None


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A batch was heard twice and applied once. What comes doubled because we asked for it is not told."""

    seq: int


@dataclass(frozen=True, slots=True)
class Late:
    """A batch came when its turn was over. `is_placed`: it was missing, and is applied now; else it belongs to an
    earlier life, or nothing is known any more of its place.
    """

    seq: int
    is_placed: bool


@dataclass(frozen=True, slots=True)
class JoinedMidstream:
    """The first batch of this life that could be had; what was told before it is not known."""

    seq: int


@dataclass(frozen=True, slots=True)
class AskReplay:
    """Everything from `start` on is wanted again."""

    start: int


Step = Apply[T] | GapOpened | GapRepaired | Restarted | Duplicate | Late | JoinedMidstream | AskReplay
