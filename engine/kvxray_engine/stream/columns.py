"""The body of a message as columns: operations, their rows, and the bytes of the hashes first used.

Pure data: knows no header, no socket and no state. One `Columns` may be one message or several joined (`concat`), which
is what the fold coalesces and what a stored chunk holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from kvxray_engine.stream.schema import ROW_KINDS, VALUE_KINDS, Kind

U1 = NDArray[np.uint8]
U4 = NDArray[np.uint32]
I4 = NDArray[np.int32]
I8 = NDArray[np.int64]
Number = TypeVar("Number", np.uint32, np.int64, np.uint64)

COLUMN_TYPES: Final = (
    ("kind", "u1"),
    ("cause", "u1"),
    ("req", "<u4"),
    ("n", "<u4"),
    ("a0", "<u4"),
    ("a1", "<u4"),
    ("blk", "<u4"),
    ("val", "<i4"),
)
"""Order and type of the columns on the wire and in chunks; the hash bytes follow them."""

NUM_KINDS: Final = 64
_STEP_STARTED: Final = int(Kind.StepStarted)
NUM_CAUSES: Final = 32

_arrays: Final = attrgetter(*(name for name, _ in COLUMN_TYPES))


def kind_table(kinds: frozenset[Kind]) -> NDArray[np.bool_]:
    """A look-up by kind: True for the given ones."""
    table = np.zeros(256, bool)
    table[[int(kind) for kind in kinds]] = True
    return table


IS_KNOWN: Final = kind_table(frozenset(Kind))
HAS_ROWS: Final = kind_table(ROW_KINDS)
HAS_VALUE: Final = kind_table(VALUE_KINDS)


def distinct(numbers: NDArray[Number]) -> NDArray[Number]:
    """Each once, in order; for many numbers far faster than `np.unique`, which hashes them."""
    in_order = np.sort(numbers)
    is_first = np.ones(len(in_order), bool)
    np.not_equal(in_order[1:], in_order[:-1], out=is_first[1:])
    return in_order[is_first]


@dataclass(slots=True, eq=False)
class Columns:
    """`kind, cause, req, n, a0, a1`: one entry an operation. `blk`: one a row. `val`: one a row of a kind that has
    values.

    `hashes` holds `hash_width` bytes for each ordinal from `hash0` on (both stand in the header). Arrays may be
    read-only views.
    """

    kind: U1
    cause: U1
    req: U4
    n: U4
    a0: U4
    a1: U4
    blk: U4
    val: I4
    hashes: bytes | memoryview = b""

    @staticmethod
    def empty() -> Columns:
        arrays: list[Any] = [np.zeros(0, dtype) for _, dtype in COLUMN_TYPES]
        return Columns(*arrays)

    @property
    def num_operations(self) -> int:
        return len(self.kind)

    @property
    def num_rows(self) -> int:
        return len(self.blk)

    @property
    def num_events(self) -> int:
        """How many `seq` numbers these columns take: a row is one, an operation without rows is one."""
        # At the size of a step cheaper than any sum of numpy's.
        return len(self.blk) + bytes(self.n == 0).count(1)

    def events_by_operation(self) -> I8:
        """Events of each operation: its rows, or 1."""
        return np.maximum(self.n, 1).astype(np.int64)

    def kind_counts(self) -> I8:
        """Events of each kind, indexed by kind."""
        counts = np.bincount(self.kind, weights=self.events_by_operation(), minlength=NUM_KINDS)
        return counts.astype(np.int64)

    def cause_counts(self, kind: Kind) -> I8:
        """Events of one kind by cause, indexed by cause."""
        at = self.kind == kind
        counts = np.bincount(self.cause[at], weights=self.events_by_operation()[at], minlength=NUM_CAUSES)
        return counts.astype(np.int64)

    def with_time_shifted(self, microseconds: int | I8) -> Columns:
        """The same events told from a header whose t0 lies `microseconds` earlier: StepStarted's a0 grows by that.

        `microseconds`: one number, or one for each operation. Raises OverflowError when a time no longer fits u4 (71
        minutes): cut instead of joining.
        """
        starts = np.flatnonzero(self.kind == _STEP_STARTED)
        moved = self.a0[starts].astype(np.int64) + np.broadcast_to(microseconds, len(self.kind))[starts]
        if len(moved) and not 0 <= int(moved.min()) <= int(moved.max()) < 2**32:
            raise OverflowError("the joined time does not fit 32 bits of microseconds")
        a0 = self.a0.copy()
        a0[starts] = moved
        return Columns(self.kind, self.cause, self.req, self.n, a0, self.a1, self.blk, self.val, self.hashes)

    @staticmethod
    def concat(parts: Sequence[Columns]) -> Columns:
        """Joins columns whose hash ordinals follow each other; times are left as they are."""
        if len(parts) == 1:
            return parts[0]
        fields: list[Any] = [np.concatenate(column) for column in zip(*map(_arrays, parts), strict=True)]
        fields.append(b"".join(part.hashes for part in parts))
        return Columns(*fields)
