"""A whole `ResidencyMap` as bytes and back: what is kept as a keyframe of an engine that tells of hashes only.

Magic, version, sizes and a sum, then head and columns, each compressed, then the bytes of the hashes, which are random.
Rows are in order of key. Everything is checked when read, and copies everywhere are counted anew from the entries, so
that a snapshot cannot claim what its entries do not say. Faults are not part of it.
"""

from __future__ import annotations

import struct
import zlib
from typing import Annotated, Any, Final, get_args

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from kvxray_engine.stream.codec import HASH_WIDTHS, BadMessage, encode_descriptor
from kvxray_engine.stream.columns import NUM_KINDS
from kvxray_engine.stream.hash_table import HashTable
from kvxray_engine.stream.key_index import U8
from kvxray_engine.stream.keyed_table import KeyedTable
from kvxray_engine.stream.residency_descriptor import decode_residency_descriptor, group_of, medium_of
from kvxray_engine.stream.residency_map import ResidencyMap
from kvxray_engine.stream.residency_state import ENTRY_COLUMNS, HASH_COLUMNS, StoreSemantics
from kvxray_engine.stream.schema import NO_ORDINAL, Descriptor, Name
from kvxray_engine.stream.snapshot import MAX_SNAPSHOT_BYTES, sealed

RESIDENCY_SNAPSHOT_VERSION: Final = 1
MAX_ENTRIES: Final = 1 << 24
MAX_NAMES: Final = 1 << 20
"""Of more, the newest are kept."""

MAGIC: Final = b"KVXR"
_PREFIX: Final = struct.Struct("<4sB3xII")
_SUM: Final = struct.Struct("<I")
_MAX_HEAD_BYTES: Final = 64 << 20
_KEPT_OF_HASHES: Final = {name: told for name, told in HASH_COLUMNS.items() if name != "copies"}


class _Head(msgspec.Struct, array_like=True):
    source: str
    incarnation: str
    descriptor: bytes
    store_semantics: str
    step: int
    t_ns: int
    next_seq: int
    next_wire_seq: int
    known_media: bytes
    group_sizes: Annotated[list[int], msgspec.Meta(max_length=256)]
    kind_totals: Annotated[list[int], msgspec.Meta(max_length=NUM_KINDS)]
    generation_size: int
    generation: int
    num_entries: int
    num_hashes: int
    next_name: int
    names: Annotated[list[tuple[int, Name]], msgspec.Meta(max_length=MAX_NAMES)]
    hash_width: int
    hash_runs: Annotated[list[tuple[int, int]], msgspec.Meta(max_length=1 << 22)]


_HEAD: Final = msgspec.msgpack.Decoder(_Head)


def dump(state: ResidencyMap, *, with_gone: bool = True) -> bytes:
    """The state as bytes. with_gone False: without the bytes of hashes that are nowhere, which are most of it where
    much comes and goes; `state` has them no more either.
    """
    mentioned = state.hashes.index.keys_by_row().astype(np.uint32)
    state.hash_table.keep(mentioned if with_gone else state.ordinals_in_use())
    runs = state.hash_table.runs()
    columns = _packed(state.entries, ENTRY_COLUMNS) + _packed(state.hashes, _KEPT_OF_HASHES)
    compressor = zstandard.ZstdCompressor(level=1)
    head, body = compressor.compress(msgspec.msgpack.encode(_head_of(state, runs))), compressor.compress(columns)
    prefix = _PREFIX.pack(MAGIC, RESIDENCY_SNAPSHOT_VERSION, len(head), len(body))
    return sealed(prefix, b"".join((head, body, *(run for _, run in runs))))


def load(data: bytes | memoryview) -> ResidencyMap:
    """The state that `dump` wrote. Raises `BadMessage` with one sentence for anything else."""
    head, columns, hashes = _cut(memoryview(data))
    descriptor = decode_residency_descriptor(head.descriptor)
    _check_head(head, descriptor)
    state = ResidencyMap(descriptor, source=head.source, incarnation=head.incarnation)
    _load_head(state, head)
    size = _row_bytes(ENTRY_COLUMNS) * head.num_entries
    raw = memoryview(_decompress(columns, size + _row_bytes(_KEPT_OF_HASHES) * head.num_hashes))
    _unpack(state.entries, ENTRY_COLUMNS, raw[:size], head.num_entries)
    _unpack(state.hashes, _KEPT_OF_HASHES, raw[size:], head.num_hashes)
    _check_entries(state)
    _count_everywhere(state)
    state.hash_table = _hash_table(head, hashes)
    return state


def _head_of(state: ResidencyMap, runs: list[tuple[int, bytes]]) -> _Head:
    width = state.hash_table.width
    return _Head(
        state.source, state.incarnation, encode_descriptor(state.descriptor), state.store_semantics, state.step,
        state.t_ns, state.next_seq, state.next_wire_seq, state.known_media.tobytes(), state.group_sizes.tolist(),
        state.kind_totals.tolist(), state.generation_size, state.generation, len(state.entries), len(state.hashes),
        state.names.next_ordinal, sorted(state.names.names.items())[-MAX_NAMES:], width,
        [(first, len(run) // width) for first, run in runs],
    )  # fmt: skip


def _load_head(state: ResidencyMap, head: _Head) -> None:
    semantics: dict[str, StoreSemantics] = {one: one for one in get_args(StoreSemantics)}
    state.store_semantics = semantics[head.store_semantics]
    state.step, state.t_ns = head.step, head.t_ns
    state.next_seq, state.next_wire_seq = head.next_seq, head.next_wire_seq
    state.generation_size, state.generation = head.generation_size, head.generation
    state.known_media = np.frombuffer(head.known_media, np.uint8).copy()
    state.group_sizes = np.array(head.group_sizes, np.uint16)
    state.kind_totals = np.array(head.kind_totals, np.int64)
    state.names.names, state.names.next_ordinal = dict(head.names), head.next_name


def _row_bytes(columns: dict[str, tuple[str, int]]) -> int:
    return 8 + sum(np.dtype(dtype).itemsize for dtype, _ in columns.values())


def _packed(table: KeyedTable, columns: dict[str, tuple[str, int]]) -> bytes:
    keys = table.index.keys_by_row()
    order = np.argsort(keys)
    parts = [np.diff(keys[order], prepend=np.uint64(0)).astype("<u8").tobytes()]
    parts += [np.ascontiguousarray(table[name][order], dtype).tobytes() for name, (dtype, _) in columns.items()]
    return b"".join(parts)


def _unpack(table: KeyedTable, columns: dict[str, tuple[str, int]], raw: memoryview, size: int) -> None:
    steps = np.frombuffer(raw[: 8 * size], "<u8")
    keys: U8 = np.cumsum(steps, dtype=np.uint64)
    if (keys[1:] <= keys[:-1]).any():
        raise BadMessage("The rows of the snapshot are out of order.")
    offset, told = 8 * size, {}
    for name, (dtype, _) in columns.items():
        end = offset + size * np.dtype(dtype).itemsize
        told[name] = np.frombuffer(raw[offset:end], dtype)
        offset = end
    table.replace(keys, told)


def _check_entries(state: ResidencyMap) -> None:
    entries, keys = state.entries, state.entries.index.keys_by_row()
    if len(keys) and int(keys[-1]) >> 16 >= NO_ORDINAL or len(state.hashes) and _last(state.hashes) >= NO_ORDINAL:
        raise BadMessage("The snapshot names a hash ordinal that there is not.")
    for place in np.unique(keys & np.uint64(0xFFFF)).tolist():
        if group_of(place) >= len(state.descriptor.groups) or medium_of(place) >= len(state.descriptor.pools):
            raise BadMessage("The snapshot names a group or medium that the source has not described.")
    if int(entries["block_size"].max(initial=0)) >= len(state.descriptor.block_sizes):
        raise BadMessage("The snapshot names a block size that the source has not described.")
    is_odd = (entries["sure"] > np.minimum(entries["copies"], 1)) | (entries["copies"] > entries["stores"])
    if is_odd.any() or min(entries["t_first"].min(initial=0), entries["t_last"].min(initial=0)) < 0:
        raise BadMessage("The counts or times of the snapshot contradict each other.")


def _last(table: KeyedTable) -> int:
    return int(table.index.keys_by_row()[-1])


def _count_everywhere(state: ResidencyMap) -> None:
    rows = state.hashes.index.find(state.entries.index.keys_by_row() >> np.uint64(16))
    if (rows < 0).any():
        raise BadMessage("The snapshot has an entry of a hash that it does not mention.")
    totals: NDArray[Any] = np.bincount(rows, state.entries["copies"], len(state.hashes))
    seen = state.hashes["seen"]
    if totals.max(initial=0) >= 2**32 or (seen > 1).any() or not seen[totals > 0].all():
        raise BadMessage("The snapshot counts more copies than there can be, or some of a hash never stored.")
    state.hashes["copies"][:] = totals


def _cut(view: memoryview) -> tuple[_Head, memoryview, memoryview]:
    start = _PREFIX.size + _SUM.size
    if not start <= len(view) <= MAX_SNAPSHOT_BYTES:
        raise BadMessage(f"A snapshot of {len(view)} bytes is too short or too long.")
    magic, version, head_size, columns_size = _PREFIX.unpack_from(view)
    if magic != MAGIC or version != RESIDENCY_SNAPSHOT_VERSION:
        raise BadMessage("The snapshot does not begin like one that this kvxray reads.")
    if start + head_size + columns_size > len(view):
        raise BadMessage("The snapshot ends early.")
    if _SUM.unpack_from(view, _PREFIX.size) != (zlib.crc32(view[start:], zlib.crc32(view[: _PREFIX.size])),):
        raise BadMessage("The bytes of the snapshot are not those that were written.")
    rest = view[start + head_size :]
    return _read_head(view[start : start + head_size]), rest[:columns_size], rest[columns_size:]


def _read_head(packed: memoryview) -> _Head:
    try:
        if not 0 <= zstandard.frame_content_size(packed) <= _MAX_HEAD_BYTES:
            raise BadMessage("The head of the snapshot is out of range.")
        return _HEAD.decode(zstandard.ZstdDecompressor().decompress(packed))
    except (msgspec.MsgspecError, zstandard.ZstdError, UnicodeDecodeError, RecursionError) as error:
        raise BadMessage(f"The head of the snapshot cannot be read: {error}.") from error


def _check_head(head: _Head, descriptor: Descriptor) -> None:
    numbers = (head.step, head.t_ns, head.next_seq, head.next_wire_seq, head.generation, head.next_name)
    if min(*numbers, *head.kind_totals, 0) < 0 or max(*numbers, *head.kind_totals, 0) >= 2**63:
        raise BadMessage("A number in the head of the snapshot is out of range.")
    if not 0 <= head.num_entries <= MAX_ENTRIES or not 0 <= head.num_hashes <= MAX_ENTRIES:
        raise BadMessage("The snapshot claims more hashes than kvxray follows.")
    is_whole = len(head.known_media) == 256 == len(head.group_sizes) and len(head.kind_totals) == NUM_KINDS
    if not is_whole or not set(head.known_media) <= {0, 1} or head.generation_size <= 0:
        raise BadMessage("The head of the snapshot is out of range.")
    if not all(0 <= index < len(descriptor.block_sizes) for index in head.group_sizes):
        raise BadMessage("The snapshot names a block size that the source has not described.")
    if head.hash_width not in HASH_WIDTHS or head.store_semantics not in get_args(StoreSemantics):
        raise BadMessage("The snapshot has hashes of an unknown width, or counts stores in an unknown way.")


def _decompress(columns: memoryview, size: int) -> bytes:
    try:
        # Asked first: room is made for as much as the frame claims.
        told = zstandard.frame_content_size(columns)
        raw = zstandard.ZstdDecompressor().decompress(columns) if told == size and size else b""
    except zstandard.ZstdError as error:
        raise BadMessage(f"The columns of the snapshot cannot be decompressed: {error}.") from error
    if told != size or len(raw) != size:
        raise BadMessage("The columns of the snapshot have another size than its head says.")
    return raw


def _hash_table(head: _Head, data: memoryview) -> HashTable:
    width, offset = head.hash_width, 0
    if len(data) != sum(count for _, count in head.hash_runs) * width:
        raise BadMessage("The hash bytes of the snapshot have another size than its head says.")
    table = HashTable(width)
    for first, count in head.hash_runs:
        if not 0 <= first <= first + count < NO_ORDINAL:
            raise BadMessage("A run of hashes in the snapshot is out of range.")
        table.add(first, data[offset : offset + count * width])
        offset += count * width
    return table
