"""A whole `BlockMap` as bytes and back: what the snapshot socket answers and the event log keeps as a keyframe.

Head and columns are compressed; columns are byte-shuffled, and times point into a table, since most blocks share one
with many others. Hash bytes stay outside, being random. A sum over all of it finds what a disk changed. A snapshot of
an older version stays readable. Everything is checked when read, and the states are made anew from the columns, so a
snapshot cannot claim what its columns do not say.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import (
    HASH_WIDTHS,
    MAX_BLOCKS,
    MAX_PAYLOAD_BYTES,
    BadMessage,
    decode_descriptor,
    encode_descriptor,
)
from kvxray_engine.stream.columns import I8, NUM_CAUSES, U4
from kvxray_engine.stream.hash_table import HashTable
from kvxray_engine.stream.request_table import ROW
from kvxray_engine.stream.schema import NO_ORDINAL, UNKNOWN_U4, Name

SNAPSHOT_VERSION: Final = 2
MAX_SNAPSHOT_BYTES: Final = 16 * MAX_PAYLOAD_BYTES

_MAGIC: Final = b"KVXS"
_PREFIX: Final = struct.Struct("<4sB3xII")
_VERSION_AT: Final = 4
_CRC: Final = struct.Struct("<I")
"""Follows the prefix since version 2: CRC-32 of the prefix and of what comes after."""
_BLOCK_COLUMNS: Final = (
    ("ref", "<u4"),
    ("hash_ordinal", "<u4"),
    ("parent_ordinal", "<u4"),
    ("slots", "<u2"),
    ("group", "u1"),
    ("t_alloc", "<i8"),
    ("t_last", "<i8"),
    ("written", "u1"),
)
_TIMES: Final = ("t_alloc", "t_last")
_MAX_HEAD_BYTES: Final = MAX_PAYLOAD_BYTES
_MAX_RUNS: Final = 1 << 22
_MAX_NAMES: Final = 1 << 20
"""What a head may hold: read, each takes a hundred times the bytes that it can be packed into."""


class _Head(msgspec.Struct, array_like=True):
    """What a snapshot says beside its columns. `times`: the table that the columns of times point into (version 1 has
    none: they are the times). `eviction_totals`: empty from an engine that does not count them by cause yet.
    """

    source: str
    incarnation: str
    descriptor: bytes
    step: int
    t_ns: int
    next_seq: int
    next_wire_seq: int
    lost: int
    holders_known: bool
    tokens: tuple[int, int, int, int]
    kind_totals: list[int]
    hash_width: int
    hash_runs: Annotated[list[tuple[int, int]], msgspec.Meta(max_length=_MAX_RUNS)]
    num_holds: int
    num_requests: int
    names: Annotated[list[tuple[int, Name]], msgspec.Meta(max_length=_MAX_NAMES)]
    times: Annotated[list[int], msgspec.Meta(max_length=2 * MAX_BLOCKS)] = []
    eviction_totals: Annotated[list[int], msgspec.Meta(max_length=NUM_CAUSES)] = []


_HEAD: Final = msgspec.msgpack.Decoder(_Head)


class Draft(NamedTuple):
    """A state as it was, not compressed yet."""

    head: bytes
    columns: list[bytes]
    hashes: list[bytes]

    def pack(self) -> bytes:
        """The state as bytes; for any thread."""
        compressor = zstandard.ZstdCompressor(level=1)
        head, columns = compressor.compress(self.head), compressor.compress(b"".join(self.columns))
        prefix = _PREFIX.pack(_MAGIC, SNAPSHOT_VERSION, len(head), len(columns))
        return sealed(prefix, b"".join((head, columns, *self.hashes)))


def dump(block_map: BlockMap) -> bytes:
    """The state as bytes."""
    return draft(block_map, with_hashes=True).pack()


def draft(block_map: BlockMap, *, with_hashes: bool) -> Draft:
    """The state as it is now. Without hashes (periodic keyframes) ordinals resolve through the event log."""
    if with_hashes:
        block_map.hashes.keep(np.concatenate([block_map.ordinals_carried(), block_map.parents_told()]))
    runs = block_map.hashes.runs() if with_hashes else []
    blocks, holders = block_map.holds()
    times, pointers = _point_at({name: getattr(block_map, name) for name in _TIMES})
    parts = [
        _shuffle(pointers.get(name, getattr(block_map, name)), dtype) for name, dtype in _columns(SNAPSHOT_VERSION)
    ]
    parts += [_shuffle(np.diff(blocks, prepend=np.uint32(0)), "<u4"), _shuffle(holders, "<u4")]
    parts.append(block_map.requests.rows.tobytes())
    head = msgspec.msgpack.encode(_head_of(block_map, runs, len(blocks), times))
    return Draft(head, parts, [run for _, run in runs])


def _point_at(columns: dict[str, I8]) -> tuple[I8, dict[str, U4]]:
    """The times that occur, in order, and for each column which of them it has where. Neighbours mostly share theirs,
    so only where one changes it is looked for.
    """
    every = np.concatenate(list(columns.values()))
    begins = np.flatnonzero(np.concatenate(([True], every[1:] != every[:-1])))
    times, at = np.unique(every[begins], return_inverse=True)
    pointers = np.repeat(at.astype(np.uint32), np.diff(begins, append=len(every)))
    return times, dict(zip(columns, np.split(pointers, len(columns)), strict=True))


def sealed(prefix: bytes, rest: bytes) -> bytes:
    """A snapshot out of its parts, with the sum over them."""
    return b"".join((prefix, _CRC.pack(zlib.crc32(rest, zlib.crc32(prefix))), rest))


def load(data: bytes | memoryview) -> BlockMap:
    """The state that `dump` wrote. Raises `BadMessage` with one sentence for anything else."""
    view = memoryview(data)
    head, columns, hashes = _cut(view)
    descriptor = decode_descriptor(head.descriptor)
    kinds = _columns(view[_VERSION_AT])
    sizes = _sizes(head, descriptor.num_blocks, kinds)
    raw = _decompress(columns, sum(sizes))
    block_map = BlockMap(descriptor, source=head.source, incarnation=head.incarnation)
    offset = 0
    for (name, dtype), size in zip(kinds, sizes, strict=False):
        column = _unshuffle(raw[offset : offset + size], dtype)
        points = name in _TIMES and dtype == "<u4"
        setattr(block_map, name, _look_up(head.times, column) if points else column)
        offset += size
    if block_map.written.max(initial=0) > 1:
        raise BadMessage("A block of the snapshot is neither written nor not.")
    _load_holders(block_map, raw[offset : offset + sizes[-3]], raw[offset + sizes[-3] : offset + sizes[-3] + sizes[-2]])
    _load_requests(block_map, head, raw[len(raw) - sizes[-1] :])
    _load_head(block_map, head)
    _load_hashes(block_map, head, hashes)
    block_map.reclassify()
    return block_map


def load_hashes(data: bytes | memoryview) -> HashTable:
    """Only the hashes of what `dump` wrote; none where it was told to leave them out. Raises `BadMessage`."""
    head, _, hashes = _cut(memoryview(data))
    table = HashTable(head.hash_width)
    for first, run in _hash_runs(head, hashes):
        table.add(first, run)
    return table


def _columns(version: int) -> list[tuple[str, str]]:
    return [(name, "<u4" if name in _TIMES and version > 1 else dtype) for name, dtype in _BLOCK_COLUMNS]


def _look_up(times: list[int], pointers: U4) -> I8:
    if int(pointers.max(initial=0)) >= len(times) or not 0 <= min(times) <= max(times) < 2**63:
        raise BadMessage("A time in the snapshot is out of range.")
    found: I8 = np.array(times, np.int64)[pointers]
    return found


def _head_of(block_map: BlockMap, runs: list[tuple[int, bytes]], num_holds: int, times: I8) -> _Head:
    width = block_map.hashes.width
    return _Head(
        block_map.source, block_map.incarnation, encode_descriptor(block_map.descriptor), block_map.step,
        block_map.t_ns, block_map.next_seq, block_map.next_wire_seq, block_map.lost, block_map.holders_known,
        (block_map.queried_tokens, block_map.hit_tokens, block_map.generated_tokens, block_map.computed_tokens),
        block_map.kind_totals.tolist(), width, [(first, len(run) // width) for first, run in runs], num_holds,
        len(block_map.requests), sorted(block_map.requests.names.items()), times.tolist(),
        block_map.eviction_totals.tolist(),
    )  # fmt: skip


def _cut(view: memoryview) -> tuple[_Head, memoryview, memoryview]:
    if not _PREFIX.size <= len(view) <= MAX_SNAPSHOT_BYTES:
        raise BadMessage(f"A snapshot of {len(view)} bytes is too short or too long.")
    magic, version, head_size, columns_size = _PREFIX.unpack_from(view)
    if magic != _MAGIC or not 1 <= version <= SNAPSHOT_VERSION:
        raise BadMessage("The snapshot does not begin like one that this kvxray reads.")
    begin = _PREFIX.size + (_CRC.size if version > 1 else 0)
    start = begin + head_size
    if start + columns_size > len(view):
        raise BadMessage("The snapshot ends early.")
    if version > 1 and not _has_its_sum(view):
        raise BadMessage("The bytes of the snapshot are not those that were written.")
    packed = view[begin:start]
    try:
        head = _HEAD.decode(packed if version == 1 else _decompress_head(packed))
    except (msgspec.MsgspecError, zstandard.ZstdError, UnicodeDecodeError, RecursionError) as error:
        raise BadMessage(f"The head of the snapshot cannot be read: {error}.") from error
    return head, view[start : start + columns_size], view[start + columns_size :]


def _has_its_sum(view: memoryview) -> bool:
    prefix, rest = view[: _PREFIX.size], view[_PREFIX.size + _CRC.size :]
    return bool(_CRC.unpack_from(view, _PREFIX.size) == (zlib.crc32(rest, zlib.crc32(prefix)),))


def _decompress_head(packed: memoryview) -> bytes:
    if not 0 <= zstandard.frame_content_size(packed) <= _MAX_HEAD_BYTES:
        raise BadMessage("The head of the snapshot is out of range.")
    return zstandard.ZstdDecompressor().decompress(packed)


def _sizes(head: _Head, num_blocks: int, kinds: list[tuple[str, str]]) -> list[int]:
    if num_blocks > MAX_BLOCKS or not 0 <= head.num_holds <= 4 * MAX_BLOCKS or not 0 <= head.num_requests <= MAX_BLOCKS:
        raise BadMessage("The snapshot claims more blocks, holds or requests than kvxray follows.")
    if len(head.names) > 4 * MAX_BLOCKS or head.hash_width not in (8, 16, 32) or len(head.kind_totals) > 256:
        raise BadMessage("The head of the snapshot is out of range.")
    totals = (*head.tokens, *head.kind_totals, *head.eviction_totals)
    numbers = (head.step, head.t_ns, head.next_seq, head.next_wire_seq, head.lost, *totals)
    if not 0 <= min(numbers) <= max(numbers) < 2**63:
        raise BadMessage("A number in the head of the snapshot is negative, or too large.")
    blocks = [num_blocks * np.dtype(dtype).itemsize for _, dtype in kinds]
    return [*blocks, head.num_holds * 4, head.num_holds * 4, head.num_requests * ROW.itemsize]


def _decompress(columns: memoryview, size: int) -> memoryview:
    try:
        # Asked first: room is made for as much as the frame claims.
        told = zstandard.frame_content_size(columns)
        raw = zstandard.ZstdDecompressor().decompress(columns) if told == size else b""
    except zstandard.ZstdError as error:
        raise BadMessage(f"The columns of the snapshot cannot be decompressed: {error}.") from error
    if told != size or len(raw) != size:
        raise BadMessage("The columns of the snapshot have another size than its head says.")
    return memoryview(raw)


def _load_holders(block_map: BlockMap, steps: memoryview, holders: memoryview) -> None:
    blocks = np.cumsum(_unshuffle(steps, "<u4"), dtype=np.uint64)
    if len(blocks) and int(blocks.max()) >= block_map.num_blocks:
        raise BadMessage("The snapshot names a held block that the source does not have.")
    block_map.holders.replace(blocks.astype(np.uint32), _unshuffle(holders, "<u4"))


def _load_requests(block_map: BlockMap, head: _Head, raw: memoryview) -> None:
    rows: NDArray[np.void] = np.frombuffer(raw, ROW)
    if len(rows) and (int(rows["status"].max()) > 6 or (np.diff(rows["ordinal"].astype(np.int64)) <= 0).any()):
        raise BadMessage("The requests of the snapshot are out of order or of an unknown status.")
    block_map.requests.replace(rows.copy(), dict(head.names))


def _load_head(block_map: BlockMap, head: _Head) -> None:
    block_map.step, block_map.t_ns, block_map.lost = head.step, head.t_ns, head.lost
    block_map.next_seq, block_map.next_wire_seq = head.next_seq, head.next_wire_seq
    block_map.holders_known = head.holders_known
    block_map.queried_tokens, block_map.hit_tokens, block_map.generated_tokens, block_map.computed_tokens = head.tokens
    totals = block_map.kind_totals
    totals[: len(head.kind_totals)] = head.kind_totals[: len(totals)]
    block_map.eviction_totals[: len(head.eviction_totals)] = head.eviction_totals


def _load_hashes(block_map: BlockMap, head: _Head, data: memoryview) -> None:
    block_map.hashes.set_width(head.hash_width)
    for first, run in _hash_runs(head, data):
        block_map.hashes.add(first, run)


def _hash_runs(head: _Head, data: memoryview) -> Iterator[tuple[int, memoryview]]:
    width = head.hash_width
    if width not in HASH_WIDTHS or len(data) != sum(count for _, count in head.hash_runs) * width:
        raise BadMessage("The hash bytes of the snapshot have another size than its head says.")
    offset = 0
    for first, count in head.hash_runs:
        if not 0 <= first < UNKNOWN_U4 or not 0 <= count <= NO_ORDINAL:
            raise BadMessage("A run of hashes in the snapshot is out of range.")
        yield first, data[offset : offset + count * width]
        offset += count * width


def _shuffle(array: NDArray[Any], dtype: str) -> bytes:
    typed = np.ascontiguousarray(array, dtype)
    return typed.view(np.uint8).reshape(-1, typed.itemsize).T.tobytes()


def _unshuffle(data: memoryview, dtype: str) -> NDArray[Any]:
    item = np.dtype(dtype).itemsize
    planes = np.frombuffer(data, np.uint8).reshape(item, -1)
    return planes.T.copy().reshape(-1).view(dtype)
