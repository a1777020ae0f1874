"""What `kvxray inspect` says of recordings, as data: the same for people and for `--json`; null: not known."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kvxray_backend.inspection.prefix_tree import Chains

NOT_OBSERVABLE: Final = ("block ids", "reference counts", "holders", "free blocks", "internal fragmentation")
"""What events about hashes never tell, of whatever engine."""


class EventCount(Struct, frozen=True):
    """Events of a kind, and the hashes that they name."""

    events: int = 0
    hashes: int = 0


class GroupReport(Struct, frozen=True):
    """kind: null where it was not told. window: tokens, null where there is none. block_size: the first that was told,
    in tokens.
    """

    group: int
    kind: str | None
    window: int | None
    block_size: int | None


class MediumReport(Struct, frozen=True):
    """What is on one medium, of one group. certain: hashes that are there in any case; maybe: those that are there
    unless repeated stores only reported hits. copies: blocks that hold them, at most. tokens: of those hashes, null
    where a block size was not told.
    """

    medium: str
    tier: str | None
    group: int
    certain: int
    maybe: int
    copies: int
    tokens_certain: int | None
    tokens_maybe: int | None


class CapacityReport(Struct, frozen=True):
    """Blocks of a medium, as the stream tells them; null: it does not."""

    medium: str
    num_blocks: int | None


class FindingReport(Struct, frozen=True):
    """Findings of a kind: how many, and what the first of them say."""

    kind: str
    severity: str
    count: int
    sentences: tuple[str, ...]


class StreamReport(Struct, frozen=True):
    """One stream, as of its last batch. name: topic, worker or source. first_seq, last_seq: batches of the last life.
    began, ended: ISO-8601 by the engine's clock, null where the dialect tells no time; lasted_s: between them.
    num_lives: restarts and one. num_removed, num_returned: hashes that removals name, and stores of one where it had
    been removed. events, num_batches, num_removed and num_returned are over all lives, the rest is of the last.
    """

    name: str
    rank: int | None
    dialect: str
    num_batches: int
    first_seq: int | None
    last_seq: int | None
    num_lives: int
    began: str | None
    ended: str | None
    lasted_s: float | None
    events: dict[str, EventCount]
    groups: tuple[GroupReport, ...]
    media: tuple[MediumReport, ...]
    capacity: tuple[CapacityReport, ...]
    chains: tuple[Chains, ...]
    num_removed: int
    num_returned: int
    store_semantics: str
    findings: tuple[FindingReport, ...]
    not_observable: tuple[str, ...] = NOT_OBSERVABLE


class FileReport(Struct, frozen=True):
    """One file. num_bad: lines that could not be read. is_cut: it ends where it should not. notes: what else was left
    out, a sentence each.
    """

    file: str
    format: str
    num_lines: int
    num_bad: int
    is_cut: bool
    notes: tuple[str, ...]
    streams: tuple[StreamReport, ...]


class Inspection(Struct, frozen=True):
    files: tuple[FileReport, ...]
