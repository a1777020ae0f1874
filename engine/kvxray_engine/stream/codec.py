"""Messages to bytes and back, with every size checked: nothing that comes from outside is believed.

Layout: magic, version, header length, header (msgpack array), then the raw little-endian columns, then the hash bytes.
The event log stores the same body, compressed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import accumulate, repeat
from operator import floordiv, itemgetter, mod
from typing import Any, Final

import msgspec
import numpy as np

from kvxray_engine.stream.columns import COLUMN_TYPES, HAS_ROWS, HAS_VALUE, I8, IS_KNOWN, NUM_KINDS, Columns
from kvxray_engine.stream.schema import MAX_ORDINAL, SCHEMA_VERSION, Cause, Descriptor, Header, Kind

MAX_PAYLOAD_BYTES: Final = 64 << 20
MAX_TEXT: Final = 512
# More than any accelerator has room for; the state keeps some 50 bytes for each.
MAX_BLOCKS: Final = 1 << 24
HASH_WIDTHS: Final = (8, 16, 32)
MESSAGE_TYPES: Final = ("events", "heartbeat", "descriptor")

_MAGIC: Final = b"KVXM"
_PREFIX: Final = struct.Struct("<4sB3xI")
_DTYPES: Final = tuple(np.dtype(dtype) for _, dtype in COLUMN_TYPES)
_ITEM_SIZES: Final = tuple(dtype.itemsize for dtype in _DTYPES)
_BLOCK_CACHED: Final = int(Kind.BlockCached)
_ONE: Final = np.uint32(1)
_KNOWN: Final = bytes(np.flatnonzero(IS_KNOWN).tolist())
_CAUSES: Final = bytes(int(cause) for cause in Cause)
_without_rows: Final = itemgetter(*np.flatnonzero(IS_KNOWN & ~HAS_ROWS).tolist())
_with_value: Final = itemgetter(*np.flatnonzero(HAS_VALUE).tolist())
_TRUE: Final = b"\1"
_ENCODER: Final = msgspec.msgpack.Encoder()
_HEADER: Final = msgspec.msgpack.Decoder(Header)
_DESCRIPTOR: Final = msgspec.json.Decoder(Descriptor)


class BadMessage(ValueError):
    """A payload that is not a message; the text says in one sentence what is wrong with it."""


@dataclass(frozen=True, slots=True, eq=False)
class Timing:
    """Wall ns and the engine's step of each operation, and when that step began: where arrivals count from."""

    times: I8
    steps: I8
    begun: I8


@dataclass(slots=True, eq=False)
class Message:
    """One decoded message. `columns` are views into the payload. `timing`: a part's, which cannot tell it by itself.
    `next_seq`: the number after its last event, where numbers jump between the messages that were joined to it.
    """

    header: Header
    columns: Columns
    timing: Timing | None = None
    next_seq: int | None = None

    @property
    def end_seq(self) -> int:
        """The number after its last event."""
        return self.header.seq0 + self.header.n if self.next_seq is None else self.next_seq


def encode(header: Header, columns: Columns) -> bytes:
    """One message as bytes; `header.sizes` is filled in here."""
    sizes, body = encode_body(columns)
    return assemble(msgspec.structs.replace(header, sizes=sizes), body)


def assemble(header: Header, body: list[bytes]) -> bytes:
    """One message out of columns that are bytes already; `header.sizes` tells their sizes."""
    head = _ENCODER.encode(header)
    return b"".join((_PREFIX.pack(_MAGIC, SCHEMA_VERSION, len(head)), head, *body))


def encode_body(columns: Columns) -> tuple[tuple[int, ...], list[bytes]]:
    """The columns as bytes, in order, with the hash bytes last, and the size of each."""
    body = [np.ascontiguousarray(getattr(columns, name), dtype).tobytes() for name, dtype in COLUMN_TYPES]
    body.append(bytes(columns.hashes))
    return tuple(len(part) for part in body), body


def decode(payload: bytes | memoryview) -> Message:
    """Reads one message. Raises `BadMessage` with one sentence for anything that is not one."""
    header, start = _decode_header(memoryview(payload))
    columns = decode_body(payload, header.sizes, start)
    _check_columns(header, columns)
    return Message(header, columns)


def decode_own(payload: bytes) -> Message:
    """Reads a message that this process has made itself: nothing is checked."""
    _, _, length = _PREFIX.unpack_from(payload)
    start = _PREFIX.size + length
    header = _HEADER.decode(memoryview(payload)[_PREFIX.size : start])
    return Message(header, decode_body(payload, header.sizes, start))


def decode_body(data: bytes | memoryview, sizes: tuple[int, ...], start: int = 0) -> Columns:
    """Cuts a body of known column sizes, from `start` on, into views. Raises `BadMessage` when the sizes do not fit.

    Arrays are made straight from `data`, since at the size of a step every object on the way counts.
    """
    if len(sizes) != len(COLUMN_TYPES) + 1 or min(sizes) < 0 or sum(sizes) != len(data) - start:
        raise BadMessage("The sizes of the columns do not add up to the length of the message.")
    if any(map(mod, sizes, _ITEM_SIZES)):
        raise BadMessage("The size of a column is not a multiple of its items.")
    counts, offsets = map(floordiv, sizes, _ITEM_SIZES), accumulate(sizes, initial=start)
    fields: list[Any] = list(map(np.frombuffer, repeat(data), _DTYPES, counts, offsets))
    fields.append(memoryview(data)[len(data) - sizes[-1] :])
    return Columns(*fields)


def decode_descriptor(data: bytes) -> Descriptor:
    """Reads the JSON descriptor of a source. Raises `BadMessage`."""
    try:
        descriptor = _DESCRIPTOR.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadMessage(f"The descriptor of the source cannot be read: {error}.") from error
    if descriptor.num_blocks > MAX_BLOCKS:
        raise BadMessage(f"The descriptor names {descriptor.num_blocks:,} blocks; at most {MAX_BLOCKS:,} are followed.")
    if descriptor.num_blocks <= 0 or not 0 < descriptor.block_size <= 65_535:
        raise BadMessage("The descriptor names an impossible number of blocks or block size.")
    if not -1 <= descriptor.null_block < descriptor.num_blocks:
        raise BadMessage("The descriptor names a null block outside its blocks.")
    for pool in descriptor.pools:
        if not 0 <= pool.first_block_id <= pool.first_block_id + pool.num_blocks <= descriptor.num_blocks:
            raise BadMessage("The descriptor names a pool outside its blocks.")
    return descriptor


def encode_descriptor(descriptor: Descriptor) -> bytes:
    return msgspec.json.encode(descriptor)


def _decode_header(view: memoryview) -> tuple[Header, int]:
    if not _PREFIX.size <= len(view) <= MAX_PAYLOAD_BYTES:
        raise BadMessage(f"A message of {len(view)} bytes is too short or too long.")
    magic, version, length = _PREFIX.unpack_from(view)
    if magic != _MAGIC:
        raise BadMessage("The message does not begin like one of kvxray's.")
    if version != SCHEMA_VERSION:
        raise BadMessage(f"The message has schema version {version}; this kvxray reads {SCHEMA_VERSION}.")
    start = _PREFIX.size + length
    if start > len(view):
        raise BadMessage("The message ends inside its header.")
    try:
        header = _HEADER.decode(view[_PREFIX.size : start])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadMessage(f"The header of the message cannot be read: {error}.") from error
    _check_header(header)
    return header, start


def _check_header(header: Header) -> None:
    if header.type not in MESSAGE_TYPES:
        raise BadMessage(f"The message is of an unknown type {header.type[:40]!r}.")
    if len(header.source) > MAX_TEXT or len(header.incarnation) > MAX_TEXT:
        raise BadMessage("The name of the source or its incarnation is too long.")
    if header.hash_width not in HASH_WIDTHS:
        raise BadMessage(f"A hash width of {header.hash_width} bytes is not 8, 16 or 32.")
    numbers = (header.seq0, header.n, header.req0, header.hash0, header.lost, header.step)
    if min(numbers) < 0 or max(numbers) > 2**62 or not -1 <= header.wire_seq <= 2**62:
        raise BadMessage("A number in the header is out of range.")
    if not 0 <= header.t0_wall_ns < 2**63 or not 0 <= header.t0_mono_ns < 2**63:
        raise BadMessage("A time in the header is out of range.")
    if header.req0 + len(header.names) > MAX_ORDINAL:
        raise BadMessage("The ordinals of the epoch are used up.")


def _check_columns(header: Header, columns: Columns) -> None:
    """Bytes and sums by kind, since at the size of a step every call of numpy's costs more than what it computes."""
    kinds = columns.kind.tobytes()
    if not len(kinds) == len(columns.cause) == len(columns.req) == len(columns.n) == len(columns.a0) == len(columns.a1):
        raise BadMessage("The columns of the operations differ in length.")
    if kinds.translate(None, _KNOWN):
        raise BadMessage("The message holds an operation of an unknown kind.")
    if columns.cause.tobytes().translate(None, _CAUSES):
        raise BadMessage("The message holds an operation of an unknown cause.")
    rows = np.bincount(columns.kind, columns.n, NUM_KINDS).tolist()
    if sum(rows) != len(columns.blk) or any(_without_rows(rows)):
        raise BadMessage("The operations own more or fewer rows than the message has.")
    if sum(_with_value(rows)) != len(columns.val):
        raise BadMessage("The message has more or fewer values than its operations need.")
    if columns.num_events != header.n:
        raise BadMessage(f"The header counts {header.n} events, the columns hold {columns.num_events}.")
    _check_ordinals(header, columns, has_hashes=_BLOCK_CACHED in kinds)


def _check_ordinals(header: Header, columns: Columns, *, has_hashes: bool) -> None:
    num_hashes, rest = divmod(len(columns.hashes), header.hash_width)
    end = header.hash0 + num_hashes
    if rest or end > MAX_ORDINAL:
        raise BadMessage("The hash table does not fit the hash width or the range of ordinals.")
    if has_hashes:
        ends = np.add(columns.a0, columns.n, dtype=np.int64)
        if np.maximum.reduce(ends[columns.kind == _BLOCK_CACHED]) > end:
            raise BadMessage("A cached block names a hash that the stream has not told.")
    # NO_ORDINAL is the last number there is: one more is 0, and below every limit.
    if _TRUE in (columns.req + _ONE > header.req0 + len(header.names)).tobytes():
        raise BadMessage("An operation names a request that the stream has not told.")
