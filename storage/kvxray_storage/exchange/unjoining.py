"""The messages of a chunk, as they came: the inverse of joining them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import numpy as np
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.columns import HAS_VALUE, Columns
from kvxray_engine.stream.schema import Kind
from numpy.typing import NDArray

from kvxray_storage.chunk import Chunk

_OF_OPERATIONS: Final = ("kind", "cause", "req", "n", "a0", "a1")


def unjoin(chunk: Chunk) -> Iterator[Message]:
    """Each message of the chunk, oldest first. What joining does not keep of a message (its monotonic time, what was
    lost before it) is that of the chunk.
    """
    whole, table = chunk.message.columns, chunk.messages
    counts = {
        "operations": table["operations"], "names": table["names"], "hashes": table["hashes"],
        "rows": _sums(whole.n, table["operations"]),
        "values": _sums(np.where(HAS_VALUE[whole.kind], whole.n, 0), table["operations"]),
    }  # fmt: skip
    ends = {name: np.append(0, np.cumsum(count, dtype=np.int64)).tolist() for name, count in counts.items()}
    for at in range(len(table)):
        here = {name: slice(end[at], end[at + 1]) for name, end in ends.items()}
        columns = _columns(chunk, at, here)
        yield Message(_header(chunk, at, here, columns), columns)


def _sums(counts: NDArray[Any], operations: NDArray[Any]) -> NDArray[np.int64]:
    """The sum over the operations of each message."""
    before = np.append(0, np.cumsum(counts, dtype=np.int64))
    ends = np.cumsum(operations, dtype=np.int64)
    sums: NDArray[np.int64] = before[ends] - before[ends - operations]
    return sums


def _columns(chunk: Chunk, at: int, here: dict[str, slice]) -> Columns:
    whole, header = chunk.message.columns, chunk.message.header
    operations: list[Any] = [getattr(whole, name)[here["operations"]] for name in _OF_OPERATIONS]
    rows = [whole.blk[here["rows"]], whole.val[here["values"]]]
    columns = Columns(*operations, *rows)
    hashes, width = here["hashes"], header.hash_width
    columns.hashes = memoryview(whole.hashes)[hashes.start * width : hashes.stop * width]
    later = (int(chunk.messages["t0_ns"][at]) - header.t0_wall_ns) // 1000
    if later:
        columns.a0 = columns.a0.copy()
        columns.a0[columns.kind == Kind.StepStarted] -= np.uint32(later)
    return columns


def _header(chunk: Chunk, at: int, here: dict[str, slice], columns: Columns) -> Any:
    whole, row = chunk.message.header, chunk.messages[at]
    return msgspec.structs.replace(
        whole,
        seq0=int(row["seq0"]),
        n=columns.num_events,
        wire_seq=whole.wire_seq - len(chunk.messages) + 1 + at,
        step=int(row["step"]),
        t0_wall_ns=int(row["t0_ns"]),
        req0=whole.req0 + here["names"].start,
        names=whole.names[here["names"]],
        hash0=whole.hash0 + here["hashes"].start,
        descriptor=whole.descriptor if at == 0 else b"",
    )
