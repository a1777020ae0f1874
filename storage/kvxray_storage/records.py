"""What goes into the event log beside messages, and what it says of itself: plain data, no database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kvxray_engine.stream.schema import Name


@dataclass(frozen=True, slots=True, order=True)
class EpochKey:
    """One life of one source."""

    source_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Cursor:
    """Everything before these numbers is durable, or lies in a recorded gap."""

    next_wire_seq: int
    next_seq: int


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A finding as it is stored, a later state of the same `id` replacing the earlier. Times are wall ns.

    state: open or ended; `ended_ns` None while open. `subjects` and `numbers` are JSON objects.
    """

    id: str
    kind: str
    severity: str
    source: str
    epoch: int
    seq0: int
    seq1: int
    time_ns: int
    state: str
    ended_ns: int | None
    subjects: Mapping[str, Any]
    numbers: Mapping[str, Any]
    certainty: str
    sentence: str


@dataclass(frozen=True, slots=True)
class LogStats:
    """`stored_events`, `chunks`: in the database, all epochs. The rest since this log was opened: messages and events
    refused because the queue was full, messages that were stored already, and bytes that wait to be committed.
    """

    queue_bytes: int
    stored_events: int
    chunks: int
    dropped: int
    dropped_events: int
    duplicates: int


@dataclass(frozen=True, slots=True)
class OpenedEpoch:
    """An epoch that begins or goes on; the earlier ones of its source are over. is_past: a part of history that is
    stored again, which ends nothing.
    """

    key: EpochKey
    source: str
    labels: str
    incarnation: str
    descriptor: str
    wall_ns: int
    is_past: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Keyframe:
    """The state before event `seq` of message `wire_seq` (`next_seq` and `next_wire_seq` of a BlockMap).

    names: those of holders that no stored message may have told; None = those in the state, which is a pool snapshot.
    origin: `snapshot`, told by the engine, or `periodic`, folded from what is stored. rollup: the rollups that were
    open there (`RollupBook.encode`); None = not folded up to there yet.
    """

    key: EpochKey
    seq: int
    wire_seq: int
    t_ns: int
    state: bytes
    kind: str
    names: Mapping[int, Name] | None
    origin: str = "snapshot"
    rollup: bytes | None = None

    def with_rollup(self, rollup: bytes) -> Keyframe:
        return replace(self, rollup=rollup)


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages and events that are not stored, both ends included; seq1 None = not known."""

    key: EpochKey
    wire_seq0: int
    wire_seq1: int
    seq0: int
    seq1: int | None
    wall_ns: int
    reason: str


@dataclass(frozen=True, slots=True)
class Repair:
    """The messages wire_seq0..wire_seq1 were stored after all."""

    key: EpochKey
    wire_seq0: int
    wire_seq1: int
    wall_ns: int
