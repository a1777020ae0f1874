"""JSON that others wrote: one value, a list, or lines of values, cut into events that are decoded one by one.

Nothing is made of what is not asked for: each event is decoded to a struct that skips what it does not know, and the
names of what was skipped are looked at only where the event is small.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import BinaryIO, Final

from msgspec import MsgspecError, Raw
from msgspec.json import Decoder

from kvxray_backend.sources.foreign.caps import MAX_EVENTS, MAX_KEYS_BYTES, MAX_PAYLOAD_BYTES, BadBatch, BadEvent
from kvxray_backend.sources.foreign.nesting import check_json
from kvxray_backend.sources.foreign.oddity_count import OddityCount

MAX_LIST_BYTES: Final = 4 << 20
"""A list costs 32 times its bytes while it is cut, when all its elements are as short as can be."""
UNREADABLE: Final = (BadEvent, MsgspecError, UnicodeDecodeError, RecursionError, OverflowError)
"""Whatever reading hostile JSON can raise."""

_LIST: Final = Decoder(list[Raw])
_OBJECT: Final = Decoder(dict[str, Raw])
_ANYTHING: Final = Decoder(Raw)


def cut_into_events(payload: bytes) -> Iterator[bytes | Raw]:
    """The events of a payload, unread. Raises `BadBatch` at once for one that is too large or no JSON at all."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise BadBatch(f"A payload of {len(payload):,} bytes is larger than the {MAX_PAYLOAD_BYTES:,} that are taken.")
    if payload.lstrip()[:1] == b"[":
        return iter(_elements(payload))
    try:
        check_json(payload)
        _ANYTHING.decode(payload)
    except UNREADABLE:
        return _not_too_many(lines_of(io.BytesIO(payload)))
    return iter((payload,))


def lines_of(stream: BinaryIO) -> Iterator[bytes]:
    """The lines of a file that are not empty. Raises `BadBatch` for one that is too long."""
    while line := stream.readline(MAX_PAYLOAD_BYTES + 1):
        if len(line) > MAX_PAYLOAD_BYTES:
            raise BadBatch(f"A line is longer than the {MAX_PAYLOAD_BYTES:,} bytes that are taken.")
        if line.strip():
            yield line


def object_fields(value: bytes | Raw) -> dict[str, Raw]:
    """The fields of an object by name; none of a large one, nor of what is no object."""
    if len(memoryview(value)) > MAX_KEYS_BYTES:
        return {}
    try:
        return _OBJECT.decode(value)
    except UNREADABLE:
        return {}


def count_unknown_names(event: str, value: bytes | Raw, known: frozenset[str], odd: OddityCount) -> dict[str, Raw]:
    """`object_fields`, of which those that nobody knows are counted."""
    fields = object_fields(value)
    for name in fields.keys() - known:
        odd.unknown_field(event, name)
    return fields


def _not_too_many(events: Iterator[bytes]) -> Iterator[bytes]:
    for number, event in enumerate(events):
        if number >= MAX_EVENTS:
            raise BadBatch(f"The payload has more than the {MAX_EVENTS:,} events that are taken of one.")
        yield event


def _elements(payload: bytes) -> list[Raw]:
    if len(payload) > MAX_LIST_BYTES:
        raise BadBatch(f"A list of {len(payload):,} bytes is larger than the {MAX_LIST_BYTES:,} that are taken of one.")
    try:
        check_json(payload)
        events = _LIST.decode(payload)
    except UNREADABLE as error:
        raise BadBatch("The payload begins like a JSON list and is none.") from error
    if len(events) > MAX_EVENTS:
        raise BadBatch(f"The list has {len(events):,} events, more than the {MAX_EVENTS:,} that are taken of one.")
    return events
