"""A whole `BlockMap` as bytes and back: what the snapshot socket answers and the event log keeps as a keyframe.

Columns are byte-shuffled and compressed; hash bytes stay outside the compressed part, being random. Everything is
checked when read, and the states are made anew from the columns, so a snapshot cannot claim what its columns do not
say.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import MAX_BLOCKS, MAX_PAYLOAD_BYTES, BadMessage, decode_descriptor, encode_descriptor
from kvxray_engine.stream.request_table import ROW
from kvxray_engine.stream.schema import NO_ORDINAL, UNKNOWN_U4, Name

SNAPSHOT_VERSION: Final = 1
MAX_SNAPSHOT_BYTES: Final = 16 * MAX_PAYLOAD_BYTES

_MAGIC: Final = b"KVXS"
_PREFIX: Final = struct.Struct("<4sB3xII")
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


class _Head(msgspec.Struct, array_like=True):
    """What a snapshot says beside its columns."""

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
    hash_runs: list[tuple[int, int]]
    num_holds: int
    num_requests: int
    names: list[tuple[int, Name]]


_HEAD: Final = msgspec.msgpack.Decoder(_Head)


def dump(block_map: BlockMap, *, with_hashes: bool = True) -> bytes:
    """The state as bytes. Without hashes (periodic keyframes) ordinals resolve through the event log."""
    block_map.hashes.keep(np.concatenate([block_map.ordinals_carried(), block_map.parents_told()]))
    runs = block_map.hashes.runs() if with_hashes else []
    blocks, holders = block_map.holds()
    parts = [_shuffle(getattr(block_map, name), dtype) for name, dtype in _BLOCK_COLUMNS]
    parts += [_shuffle(np.diff(blocks, prepend=np.uint32(0)), "<u4"), _shuffle(holders, "<u4")]
    parts.append(block_map.requests.rows.tobytes())
    head = msgspec.msgpack.encode(_head_of(block_map, runs, len(blocks)))
    columns = zstandard.ZstdCompressor(level=1).compress(b"".join(parts))
    return b"".join(
        (_PREFIX.pack(_MAGIC, SNAPSHOT_VERSION, len(head), len(columns)), head, columns, *(r for _, r in runs))
    )


def load(data: bytes | memoryview) -> BlockMap:
    """The state that `dump` wrote. Raises `BadMessage` with one sentence for anything else."""
    view = memoryview(data)
    head, columns, hashes = _cut(view)
    descriptor = decode_descriptor(head.descriptor)
    sizes = _sizes(head, descriptor.num_blocks)
    raw = _decompress(columns, sum(sizes))
    block_map = BlockMap(descriptor, source=head.source, incarnation=head.incarnation)
    offset = 0
    for (name, dtype), size in zip(_BLOCK_COLUMNS, sizes, strict=False):
        setattr(block_map, name, _unshuffle(raw[offset : offset + size], dtype))
        offset += size
    if block_map.written.max(initial=0) > 1:
        raise BadMessage("A block of the snapshot is neither written nor not.")
    _load_holders(block_map, raw[offset : offset + sizes[-3]], raw[offset + sizes[-3] : offset + sizes[-3] + sizes[-2]])
    _load_requests(block_map, head, raw[len(raw) - sizes[-1] :])
    _load_head(block_map, head)
    _load_hashes(block_map, head, hashes)
    block_map.reclassify()
    return block_map


def _head_of(block_map: BlockMap, runs: list[tuple[int, bytes]], num_holds: int) -> _Head:
    width = block_map.hashes.width
    return _Head(
        block_map.source, block_map.incarnation, encode_descriptor(block_map.descriptor), block_map.step,
        block_map.t_ns, block_map.next_seq, block_map.next_wire_seq, block_map.lost, block_map.holders_known,
        (block_map.queried_tokens, block_map.hit_tokens, block_map.generated_tokens, block_map.computed_tokens),
        block_map.kind_totals.tolist(), width, [(first, len(run) // width) for first, run in runs], num_holds,
        len(block_map.requests), sorted(block_map.requests.names.items()),
    )  # fmt: skip


def _cut(view: memoryview) -> tuple[_Head, memoryview, memoryview]:
    if not _PREFIX.size <= len(view) <= MAX_SNAPSHOT_BYTES:
        raise BadMessage(f"A snapshot of {len(view)} bytes is too short or too long.")
    magic, version, head_size, columns_size = _PREFIX.unpack_from(view)
    if magic != _MAGIC or version != SNAPSHOT_VERSION:
        raise BadMessage("The snapshot does not begin like one that this kvxray reads.")
    start = _PREFIX.size + head_size
    if start + columns_size > len(view):
        raise BadMessage("The snapshot ends early.")
    try:
        head = _HEAD.decode(view[_PREFIX.size : start])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadMessage(f"The head of the snapshot cannot be read: {error}.") from error
    return head, view[start : start + columns_size], view[start + columns_size :]


def _sizes(head: _Head, num_blocks: int) -> list[int]:
    if num_blocks > MAX_BLOCKS or not 0 <= head.num_holds <= 4 * MAX_BLOCKS or not 0 <= head.num_requests <= MAX_BLOCKS:
        raise BadMessage("The snapshot claims more blocks, holds or requests than kvxray follows.")
    if len(head.names) > 4 * MAX_BLOCKS or head.hash_width not in (8, 16, 32) or len(head.kind_totals) > 256:
        raise BadMessage("The head of the snapshot is out of range.")
    if min(head.step, head.t_ns, head.next_seq, head.next_wire_seq, head.lost, *head.tokens, *head.kind_totals) < 0:
        raise BadMessage("A number in the head of the snapshot is negative.")
    blocks = [num_blocks * np.dtype(dtype).itemsize for _, dtype in _BLOCK_COLUMNS]
    return [*blocks, head.num_holds * 4, head.num_holds * 4, head.num_requests * ROW.itemsize]


def _decompress(columns: memoryview, size: int) -> memoryview:
    try:
        raw = zstandard.ZstdDecompressor().decompress(columns, max_output_size=size)
        told = zstandard.frame_content_size(columns)
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


def _load_hashes(block_map: BlockMap, head: _Head, data: memoryview) -> None:
    width = head.hash_width
    block_map.hashes.set_width(width)
    if len(data) != sum(count for _, count in head.hash_runs) * width:
        raise BadMessage("The hash bytes of the snapshot have another size than its head says.")
    offset = 0
    for first, count in head.hash_runs:
        if not 0 <= first < UNKNOWN_U4 or not 0 <= count <= NO_ORDINAL:
            raise BadMessage("A run of hashes in the snapshot is out of range.")
        block_map.hashes.add(first, data[offset : offset + count * width])
        offset += count * width


def _shuffle(array: NDArray[Any], dtype: str) -> bytes:
    typed = np.ascontiguousarray(array, dtype)
    return typed.view(np.uint8).reshape(-1, typed.itemsize).T.tobytes()


def _unshuffle(data: memoryview, dtype: str) -> NDArray[Any]:
    item = np.dtype(dtype).itemsize
    planes = np.frombuffer(data, np.uint8).reshape(item, -1)
    return planes.T.copy().reshape(-1).view(dtype)
