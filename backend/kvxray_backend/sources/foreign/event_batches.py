"""The batches that vLLM, SGLang and TensorRT-LLM publish, as one kind: msgpack payload in, `told.Batch` out.

By shape, never by version. A batch is an array: time, events, and since some release the data-parallel rank. An event
is a map with `type`, or an array that begins with it; arrays stop early or go on longer, and both kinds occur in one
batch. A batch that is all of one kind and holds nothing unknown is decoded in one go; any other event by event.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

from msgspec import Raw
from msgspec.msgpack import Decoder

from kvxray_backend.sources.foreign.caps import (
    MAX_EVENTS,
    MAX_FIELDS,
    MAX_PAYLOAD_BYTES,
    MAX_STRICT_BYTES,
    BadBatch,
    BadEvent,
)
from kvxray_backend.sources.foreign.event_reader import EventReader
from kvxray_backend.sources.foreign.msgpack_parts import UNREADABLE, array_size, elements, entries, is_nil, map_size
from kvxray_backend.sources.foreign.nesting import check_msgpack
from kvxray_backend.sources.foreign.odd_events import read_odd_event
from kvxray_backend.sources.foreign.oddity_count import OddityCount
from kvxray_backend.sources.foreign.token_chains import TokenChains
from kvxray_backend.sources.foreign.told import Batch, Told
from kvxray_backend.sources.foreign.wire_events import (
    ARRAY_BATCH,
    ARRAY_EVENT,
    MAP_BATCH,
    MAP_EVENT,
    ArrayBatch,
    MapBatch,
    Rank,
    WireEvent,
)

DIGEST_SIZE: Final = 16
MAX_TS: Final = float(1 << 33)
"""Seconds: some 270 years after 1970. What is beyond is no wall clock."""
_ORDER: Final = ("ts", "events", "rank")
_NAMES: Final = {
    "ts": "ts",
    "events": "events",
    "dp_rank": "rank",
    "data_parallel_rank": "rank",
    "attn_dp_rank": "rank",
}
_NUMBER: Final = Decoder(float)
_RANK: Final = Decoder(Rank)


def decode_batch(payload: bytes, chains: TokenChains | None = None) -> Batch:
    """Decodes one payload. Raises `BadBatch` with one sentence for what is no batch, or one above what is taken.

    `chains`: digests tokens where it is given; token ids themselves are gone when this returns. A bad event costs one
    in `oddities.bad_events`, and the rest of its batch is kept.
    """
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise BadBatch(f"A payload of {len(payload):,} bytes is larger than the {MAX_PAYLOAD_BYTES:,} that are taken.")
    try:
        check_msgpack(payload)
    except BadEvent as error:
        raise BadBatch(f"The payload is not a batch of events: {error}") from error
    odd = OddityCount()
    reader = EventReader(odd, chains)
    batch = _known_batch(payload)
    if batch is not None:
        ts, rank = _sane(batch.ts, odd), batch.rank
        told = tuple([event for event in map(reader.read, batch.events) if event is not None])
    else:
        ts, rank, events = _outline(payload, odd)
        told = tuple(_one_by_one(events, reader, odd))
    return Batch(ts, rank, told, odd.total(), blake2b(payload, digest_size=DIGEST_SIZE).digest())


def _known_batch(payload: bytes) -> MapBatch | ArrayBatch | None:
    """The whole batch at once, None where that does not do. Large ones are measured before anything is made of them."""
    if len(payload) > MAX_STRICT_BYTES:
        return None
    try:
        return MAP_BATCH.decode(payload)
    except UNREADABLE:
        pass
    try:
        return ARRAY_BATCH.decode(payload)
    except UNREADABLE:
        return None


def _outline(payload: bytes, odd: OddityCount) -> tuple[float | None, int | None, list[Raw]]:
    """Time, rank and events of a batch, the events still bytes. Raises `BadBatch`."""
    try:
        parts = _parts(payload, odd)
        if "events" not in parts:
            raise BadEvent("It has no list of events.")
        size = array_size(parts["events"])
        if size is not None and size > MAX_EVENTS:
            raise BadBatch(f"The batch has {size:,} events, more than the {MAX_EVENTS:,} that are taken of one.")
        ts = parts.get("ts")
        rank = _RANK.decode(parts["rank"]) if "rank" in parts else None
        told_ts = None if ts is None or is_nil(ts) else _sane(_NUMBER.decode(ts), odd)
        return told_ts, rank, elements(parts["events"], MAX_EVENTS)
    except UNREADABLE as error:
        raise BadBatch(f"The payload is not a batch of events: {_sentence(error)}") from error


def _parts(payload: bytes, odd: OddityCount) -> dict[str, Raw]:
    if map_size(payload) is not None:
        fields = entries(payload)
        for name in fields.keys() - _NAMES.keys():
            odd.unknown_field("batch", name)
        return {_NAMES[name]: value for name, value in fields.items() if name in _NAMES}
    values = elements(payload, MAX_FIELDS)
    for position in range(len(_ORDER), len(values)):
        odd.unknown_field("batch", str(position))
    return dict(zip(_ORDER, values, strict=False))


def _one_by_one(events: list[Raw], reader: EventReader, odd: OddityCount) -> Iterator[Told]:
    for raw in events:
        try:
            event = _known_event(raw) or read_odd_event(raw, odd, reader.room)
        except UNREADABLE:
            odd.bad_event()
            continue
        told = reader.read(event) if event is not None else None
        if told is not None:
            yield told


def _known_event(raw: Raw) -> WireEvent | None:
    if len(memoryview(raw)) > MAX_STRICT_BYTES:
        return None
    try:
        return (ARRAY_EVENT if map_size(raw) is None else MAP_EVENT).decode(raw)
    except UNREADABLE:
        return None


def _sane(ts: float | None, odd: OddityCount) -> float | None:
    if ts is None or 0.0 <= ts <= MAX_TS:
        return ts
    odd.unknown_field("batch", "ts")
    return None


def _sentence(error: BaseException) -> str:
    text = (str(error).strip() or type(error).__name__)[:200]
    return text if text.endswith(".") else f"{text}."
