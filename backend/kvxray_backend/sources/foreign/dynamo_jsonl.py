"""Dynamo's recordings, a JSON line for each event of its router: each line becomes a batch with its event's number.

`timestamp` counts milliseconds since the recording began and is no wall clock. Hashes are 64 bits, signed or not. The
tier is told beside the event, in Dynamo's words, and is the medium of all it tells. No tokens come along, only a hash
of each block's: it is keyed like tokens before it goes any further, since tokens can be guessed and hashed.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Annotated, BinaryIO, Final, Literal

from msgspec import Meta, Raw, Struct
from msgspec.json import Decoder

from kvxray_backend.sources.foreign.block_hashes import hash_of_number
from kvxray_backend.sources.foreign.caps import MAX_HASHES, MAX_TEXT, BadBatch, BadEvent
from kvxray_backend.sources.foreign.json_events import (
    UNREADABLE,
    count_unknown_names,
    cut_into_events,
    lines_of,
    object_fields,
)
from kvxray_backend.sources.foreign.nesting import check_json
from kvxray_backend.sources.foreign.oddity_count import OddityCount
from kvxray_backend.sources.foreign.token_chains import TokenChains
from kvxray_backend.sources.foreign.told import Batch, Cleared, Place, Removed, Stored, Told

Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Rank = Annotated[int, Meta(ge=0, le=(1 << 32) - 1)]


class _Block(Struct, gc=False):
    block_hash: int
    tokens_hash: int | None = None


class _Stored(Struct, gc=False):
    blocks: list[_Block]
    parent_hash: int | None = None


class _Removed(Struct, gc=False):
    block_hashes: list[int]


class _Data(Struct, gc=False):
    """Tagged by its only field."""

    stored: _Stored | None = None
    removed: _Removed | None = None


class _Event(Struct, gc=False):
    event_id: int
    data: _Data | Literal["cleared"]
    dp_rank: Rank = 0


class _RouterEvent(Struct, gc=False):
    worker_id: int
    event: _Event
    storage_tier: Text = "device"


class _Line(Struct, gc=False):
    timestamp: float
    event: _RouterEvent


_LINE: Final = Decoder(_Line)
_OF_LINE: Final = frozenset(("timestamp", "event"))
_OF_ROUTER: Final = frozenset(("worker_id", "storage_tier", "residency_domain", "event"))
_OF_EVENT: Final = frozenset(("event_id", "dp_rank", "data"))
_OF_DATA: Final = frozenset(("stored", "removed"))
_OF_STORED: Final = frozenset(("parent_hash", "start_position", "blocks"))


class DynamoEvents:
    """Decodes the lines of one recording."""

    def __init__(self, chains: TokenChains | None = None) -> None:
        self._chains = chains

    def decode(self, payload: bytes) -> list[Batch]:
        """Lines in memory. Raises `BadBatch` when nothing of it is a line of a recording."""
        batches = [self.line(line) for line in cut_into_events(payload)]
        if batches and all(batch.oddities.bad_events for batch in batches):
            raise BadBatch("Nothing of the payload is a line as Dynamo records it.")
        return batches

    def read(self, stream: BinaryIO) -> Iterator[Batch]:
        """A file, line by line. Raises `BadBatch` for a line that is too long."""
        return map(self.line, lines_of(stream))

    def line(self, line: bytes | Raw) -> Batch:
        """One line; a bad one is a batch that tells nothing and counts it."""
        odd = OddityCount()
        digest = blake2b(line, digest_size=16).digest()
        try:
            check_json(bytes(line))
            read = _LINE.decode(line)
            told = self._told(read.event)
        except UNREADABLE:
            odd.bad_event()
            return Batch(None, None, (), odd.total(), digest)
        _count_unknown(line, odd)
        router, event = read.event, read.event.event
        return Batch(
            None, event.dp_rank, told, odd.total(), digest, event.event_id, read.timestamp / 1e3, router.worker_id
        )

    def _told(self, router: _RouterEvent) -> tuple[Told, ...]:
        data, medium = router.event.data, router.storage_tier
        if isinstance(data, str):
            return (Cleared(medium),)
        if data.stored is not None:
            return (self._stored(data.stored, medium),)
        if data.removed is not None:
            _check_number(len(data.removed.block_hashes))
            return (Removed(tuple(map(hash_of_number, data.removed.block_hashes)), Place(medium), is_any_group=True),)
        return ()

    def _stored(self, data: _Stored, medium: str) -> Stored:
        _check_number(len(data.blocks))
        hashes = tuple(hash_of_number(block.block_hash) for block in data.blocks)
        parent = None if data.parent_hash is None else hash_of_number(data.parent_hash)
        told = [hash_of_number(block.tokens_hash) for block in data.blocks if block.tokens_hash is not None]
        digests: tuple[bytes, ...] = ()
        if self._chains is not None and len(told) == len(hashes):
            digests = self._chains.of_told_digests(hashes, parent, told)
        return Stored(hashes, parent, 0, None, Place(medium), token_digests=digests)


def _check_number(num_hashes: int) -> None:
    if num_hashes > MAX_HASHES:
        raise BadEvent(f"An event carries more than {MAX_HASHES:,} hashes.")


def _count_unknown(line: bytes | Raw, odd: OddityCount) -> None:
    """Names of fields that nobody knows, from the outside in; an event of no known kind is an unknown event."""
    fields = count_unknown_names("line", line, _OF_LINE, odd)
    for name, known in (("router_event", _OF_ROUTER), ("event", _OF_EVENT)):
        fields = count_unknown_names(name, fields["event"], known, odd) if "event" in fields else {}
    data = object_fields(fields["data"]) if "data" in fields else {}
    for name in data.keys() - _OF_DATA:
        odd.unknown_event(name)
    if "stored" in data:
        count_unknown_names("stored", data["stored"], _OF_STORED, odd)
