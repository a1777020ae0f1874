"""Messages to bytes and back, with every size checked: nothing that comes from outside is believed.

Layout: magic, version, header length, header (msgpack array), then the raw little-endian columns, then the hash bytes.
The event log stores the same body, compressed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from kvxray_engine.stream.columns import COLUMN_TYPES, HAS_ROWS, HAS_VALUE, IS_KNOWN, Columns
from kvxray_engine.stream.schema import MAX_ORDINAL, NO_ORDINAL, SCHEMA_VERSION, Descriptor, Header, Kind

MAX_PAYLOAD_BYTES: Final = 64 << 20
MAX_TEXT: Final = 512
# More than any accelerator has room for; the state keeps some 50 bytes for each.
MAX_BLOCKS: Final = 1 << 24
HASH_WIDTHS: Final = (8, 16, 32)
MESSAGE_TYPES: Final = ("events", "heartbeat", "descriptor")

_MAGIC: Final = b"KVXM"
_PREFIX: Final = struct.Struct("<4sB3xI")
_ITEM_SIZES: Final = tuple(np.dtype(dtype).itemsize for _, dtype in COLUMN_TYPES)
_ENCODER: Final = msgspec.msgpack.Encoder()
_HEADER: Final = msgspec.msgpack.Decoder(Header)
_DESCRIPTOR: Final = msgspec.json.Decoder(Descriptor)


class BadMessage(ValueError):
    """A payload that is not a message; the text says in one sentence what is wrong with it."""


@dataclass(slots=True, eq=False)
class Message:
    """One decoded message. `columns` are views into the payload."""

    header: Header
    columns: Columns


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
    view = memoryview(payload)
    header, start = _decode_header(view)
    columns = decode_body(view[start:], header.sizes)
    _check_columns(header, columns)
    return Message(header, columns)


def decode_own(payload: bytes) -> Message:
    """Reads a message that this process has made itself: nothing is checked."""
    _, _, length = _PREFIX.unpack_from(payload)
    start = _PREFIX.size + length
    view = memoryview(payload)
    header = _HEADER.decode(view[_PREFIX.size : start])
    return Message(header, decode_body(view[start:], header.sizes))


def decode_body(body: bytes | memoryview, sizes: tuple[int, ...]) -> Columns:
    """Cuts a body of known column sizes into views. Raises `BadMessage` when the sizes do not fit."""
    view = memoryview(body)
    if len(sizes) != len(COLUMN_TYPES) + 1 or min(sizes) < 0 or sum(sizes) != len(view):
        raise BadMessage("The sizes of the columns do not add up to the length of the message.")
    if any(size % item for size, item in zip(sizes, _ITEM_SIZES, strict=False)):
        raise BadMessage("The size of a column is not a multiple of its items.")
    fields: list[Any] = []
    offset = 0
    for (_, dtype), size in zip(COLUMN_TYPES, sizes, strict=False):
        fields.append(np.frombuffer(view[offset : offset + size], dtype))
        offset += size
    fields.append(view[offset:])
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
    operations = len(columns.kind)
    if any(len(column) != operations for column in (columns.cause, columns.req, columns.n, columns.a0, columns.a1)):
        raise BadMessage("The columns of the operations differ in length.")
    if not IS_KNOWN[columns.kind].all():
        raise BadMessage("The message holds an operation of an unknown kind.")
    n = columns.n.astype(np.int64)
    if int(n.sum()) != len(columns.blk) or n[~HAS_ROWS[columns.kind]].any():
        raise BadMessage("The operations own more or fewer rows than the message has.")
    if int(n[HAS_VALUE[columns.kind]].sum()) != len(columns.val):
        raise BadMessage("The message has more or fewer values than its operations need.")
    if columns.num_events != header.n:
        raise BadMessage(f"The header counts {header.n} events, the columns hold {columns.num_events}.")
    _check_ordinals(header, columns, n)


def _check_ordinals(header: Header, columns: Columns, n: np.ndarray[Any, np.dtype[np.int64]]) -> None:
    num_hashes, rest = divmod(len(columns.hashes), header.hash_width)
    end = header.hash0 + num_hashes
    if rest or end > MAX_ORDINAL:
        raise BadMessage("The hash table does not fit the hash width or the range of ordinals.")
    cached = columns.kind == Kind.BlockCached
    if cached.any() and int((columns.a0[cached].astype(np.int64) + n[cached]).max()) > end:
        raise BadMessage("A cached block names a hash that the stream has not told.")
    named = columns.req[columns.req != NO_ORDINAL]
    if len(named) and int(named.max()) >= header.req0 + len(header.names):
        raise BadMessage("An operation names a request that the stream has not told.")
