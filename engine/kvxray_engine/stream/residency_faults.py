"""Laws that a stream of residency events breaks, noted as they are seen: bounded, and saying whether they are sure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from kvxray_engine.stream.residency_rows import Index, ResidencyRows

MAX_FAULTS: Final = 10_000
"""Kept until somebody takes them; more are only counted."""

FaultKind = Literal[
    "orphan_parent",
    "store_on_missing_parent",
    "duplicate_store",
    "remove_unknown",
    "block_size_changed",
    "token_count_mismatch",
    "sparse_group",
    "hash_namespace_collision",
]


@dataclass(frozen=True, slots=True)
class ResidencyFault:
    """orphan_parent: a block was stored on a parent never seen; store_on_missing_parent: on one seen and gone;
    sparse_group: one hash stands for several blocks of a chain.

    ordinal: the hash it is about (the parent, where it is the parent's; NO_ORDINAL: none). is_certain False: not
    everything on that medium was told (joined midstream, a gap), so that what is missing may have been told before.
    before, after: block sizes, where one changed.
    """

    kind: FaultKind
    ordinal: int
    place: int
    seq: int
    t_ns: int
    is_certain: bool
    before: int = 0
    after: int = 0


class FaultBook:
    """Faults seen since they were last taken. `dropped`: how many of all were too many to keep."""

    def __init__(self) -> None:
        self.dropped = 0
        self._faults: list[ResidencyFault] = []

    def copy(self) -> FaultBook:
        made = FaultBook()
        made.dropped, made._faults = self.dropped, list(self._faults)
        return made

    def note(self, fault: ResidencyFault) -> None:
        if len(self._faults) < MAX_FAULTS:
            self._faults.append(fault)
        else:
            self.dropped += 1

    def note_rows(self, kind: FaultKind, rows: ResidencyRows, at: Index, known_media: bytes) -> None:
        """One fault for each of these rows, about its own hash (about its parent's where that is missing)."""
        is_parents = kind in ("orphan_parent", "store_on_missing_parent")
        about = rows.parent if is_parents else rows.ordinal
        for row in at[:MAX_FAULTS].tolist():
            place = int(rows.place[row])
            fault = ResidencyFault(
                kind, int(about[row]), place, int(rows.seq[row]), int(rows.t[row]), known_media[place >> 8] == 1
            )
            self.note(fault)
        self.dropped += max(0, len(at) - MAX_FAULTS)

    def take(self) -> list[ResidencyFault]:
        found, self._faults = self._faults, []
        return sorted(found, key=lambda fault: fault.seq)
