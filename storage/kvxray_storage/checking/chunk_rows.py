"""What a chunk's row says beside its data, against what the data say."""

from __future__ import annotations

from typing import Any, Final

import zstandard

from kvxray_storage.block_filter import encode_filter, touched_blocks
from kvxray_storage.chunk_reader import ChunkPlace, StoredChunk
from kvxray_storage.event_rows import ChunkEvents
from kvxray_storage.hash_filter import is_of_hashes
from kvxray_storage.kind_counts import encode_counts

PLACE: Final = "the place"


def misfit(row: Any, chunk: StoredChunk) -> str:
    """What of the row the data do not say; empty: all fits."""
    header, columns = chunk.message.header, chunk.message.columns
    hashes = len(columns.hashes) // header.hash_width
    first_wire_seq = header.wire_seq - chunk.num_messages + 1
    last_seq = chunk.message.end_seq - 1
    expected = {
        PLACE: (
            (row.wire_seq0, row.wire_seq1, row.seq0, row.seq1),
            (first_wire_seq, header.wire_seq, header.seq0, last_seq),
        ),
        "the number of events": (row.num_events, columns.num_events),
        "the begin": (row.t0_ns, header.t0_wall_ns),
        "the end": (row.t1_ns, _last_time(chunk)),
        "the range of requests": ((row.req0, row.num_req), (header.req0, len(header.names))),
        "the range of hashes": ((row.hash0, row.num_hash), (header.hash0, hashes)),
        "the count by kind": (row.counts, encode_counts(columns)),
    }
    for name, (stored, told) in expected.items():
        if stored != told:
            return name
    if not _same_filter(row.bits, encode_filter(touched_blocks(columns))):
        return "the filter of blocks"
    if row.hash_bits is not None and not is_of_hashes(row.hash_bits, columns.hashes, header.hash_width):
        return "the filter of hashes"
    sizes = (len(one) for one in (row.counts, row.bits, row.hash_bits or b"", row.data))
    return "" if row.num_bytes == sum(sizes) else "the size"


def told_range(place: ChunkPlace) -> str:
    events = f"events {place.seq0} to {place.seq1}" if place.seq1 >= place.seq0 else "no events"
    return f"messages {place.wire_seq0} to {place.wire_seq1} ({events})"


def _last_time(chunk: StoredChunk) -> int:
    """Wall ns of the last operation of the last message, as that message told it."""
    messages = chunk.chunk.messages
    times = ChunkEvents(chunk.chunk).by_operation()[1]
    return int(times[-1]) if messages["operations"][-1] else int(messages["t0_ns"][-1])


def _same_filter(stored: bytes, expected: bytes) -> bool:
    """Another version of zstd may pack the same otherwise."""
    if stored == expected:
        return True
    if stored[:1] != expected[:1] or not expected:
        return False
    unpack = zstandard.ZstdDecompressor()
    try:
        return bool(unpack.decompress(stored[1:]) == unpack.decompress(expected[1:]))
    except zstandard.ZstdError:
        return False
