"""A chunk as bytes: the columns of several messages under one header, as the fold takes them.

    u1 version | u4 CRC-32 of the rest | u4 header size | u4 messages | u4 packed size | header | packed | hash bytes

The header is the joined one of `kvxray_engine.stream.joining` (msgpack). `packed` is zstd over the table of messages
and the columns; hash bytes are random, so they stay outside. The table tells where each message began, so that times
and numbers are exact, nothing assumes that `seq` has no holes, and a resend with other boundaries can be trimmed.

The first byte is the version: a reader keeps every older one, so that what is stored stays readable.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import zstandard
from kvxray_engine.errors import UserError
from kvxray_engine.stream.codec import BadMessage, Message, decode_body, encode_body
from kvxray_engine.stream.columns import Columns
from kvxray_engine.stream.joining import join
from kvxray_engine.stream.schema import Header
from numpy.typing import NDArray

CHUNK_VERSION: Final = 1
ZSTD_LEVEL: Final = 1
MESSAGE_ROW: Final = np.dtype(
    [
        ("seq0", "<i8"),
        ("t0_ns", "<i8"),
        ("step", "<i8"),
        ("operations", "<u4"),
        ("names", "<u4"),
        ("hashes", "<u4"),
    ]
)
"""One message of a chunk: its first event, its t0, its step, and how much of the chunk is its own."""

_PREFIX: Final = struct.Struct("<BIIII")
_MAX_UNPACKED: Final = 1 << 30
_HEADER: Final = msgspec.msgpack.Decoder(Header)


class DamagedChunk(UserError, ValueError):
    """Stored bytes that are not what was written, of a chunk or of another row; the text says what is wrong."""


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """`message` folds as it is (`BlockMap.apply`); `messages` has one MESSAGE_ROW for each message joined in it.

    In `message` times count from the chunk's t0, to the microsecond below; `messages` gives each its own back.
    """

    message: Message
    messages: NDArray[np.void]


class Draft(NamedTuple):
    """A chunk that is not compressed yet. `message`: what its messages joined to."""

    message: Message
    num_messages: int
    header: bytes
    columns: bytes
    hashes: bytes | memoryview

    def pack(self) -> bytes:
        """The bytes of the chunk; for any thread."""
        packed = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(self.columns)
        sizes = struct.pack("<III", len(self.header), self.num_messages, len(packed))
        rest = b"".join((sizes, self.header, packed, self.hashes))
        return struct.pack("<BI", CHUNK_VERSION, zlib.crc32(rest)) + rest


def draft(messages: Sequence[Message]) -> Draft:
    """Of messages that follow each other as `can_join` says."""
    joined = join(messages)
    sizes, body = encode_body(joined.columns)
    header = msgspec.msgpack.encode(msgspec.structs.replace(joined.header, sizes=sizes))
    table = np.array([_message_row(message) for message in messages], MESSAGE_ROW)
    return Draft(joined, len(messages), header, b"".join((table.tobytes(), *body[:-1])), body[-1])


def _message_row(message: Message) -> tuple[int, int, int, int, int, int]:
    header = message.header
    hashes = len(message.columns.hashes) // header.hash_width
    return (
        header.seq0,
        header.t0_wall_ns,
        header.step,
        message.columns.num_operations,
        len(header.names),
        hashes,
    )


def decode_chunk(data: bytes) -> Chunk:
    """Reads a chunk of this or an older version. Raises DamagedChunk."""
    if not data or data[0] != CHUNK_VERSION:
        raise DamagedChunk(f"A chunk of version {data[0] if data else 'none'} is none that this kvxray reads.")
    if len(data) < _PREFIX.size:
        raise DamagedChunk("A chunk ends before its header.")
    _, crc, header_size, num_messages, packed_size = _PREFIX.unpack_from(data)
    view = memoryview(data)
    if zlib.crc32(view[5:]) != crc:
        raise DamagedChunk("The bytes of a chunk are not those that were stored.")
    # The sum is right, so the sizes are what was written: what follows can only fail on a writer's mistake.
    packed_at = _PREFIX.size + header_size
    try:
        header = _HEADER.decode(view[_PREFIX.size : packed_at])
        raw = _unpack(view[packed_at : packed_at + packed_size])
        table, columns = raw[: num_messages * MESSAGE_ROW.itemsize], raw[num_messages * MESSAGE_ROW.itemsize :]
        body = decode_body(columns, (*header.sizes[:-1], 0))
    except (msgspec.MsgspecError, zstandard.ZstdError, BadMessage, IndexError) as error:
        raise DamagedChunk(f"A chunk cannot be read: {error}.") from error
    body.hashes = view[packed_at + packed_size :]
    rows: NDArray[Any] = np.frombuffer(table, MESSAGE_ROW)
    return Chunk(Message(header, body, next_seq=_next_seq(header, body, rows)), rows)


def _next_seq(header: Header, columns: Columns, rows: NDArray[Any]) -> int | None:
    """The number after its last event, where numbers jump between its messages."""
    if len(rows) < 2:
        return None
    last = columns.n[len(columns.n) - int(rows["operations"][-1]) :]
    end_seq = int(rows["seq0"][-1]) + int(np.maximum(last, 1).sum(dtype=np.int64))
    return None if end_seq == header.seq0 + header.n else end_seq


def _unpack(packed: memoryview) -> memoryview:
    size = zstandard.frame_content_size(packed)
    if not 0 <= size <= _MAX_UNPACKED:
        raise zstandard.ZstdError(f"it claims {size} bytes")
    return memoryview(zstandard.ZstdDecompressor().decompress(packed))
