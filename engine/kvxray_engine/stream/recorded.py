"""What the recorder handed over, turned into columns: done by the publisher's thread, so that the engine's pays
nothing.
"""

from __future__ import annotations

from array import array

import numpy as np

from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.columns import I4, U4, Columns
from kvxray_engine.stream.handover import RecordedMessage
from kvxray_engine.stream.schema import SCHEMA_VERSION, Header

assert array("I").itemsize == 4, "kvxray needs a platform whose C int has 32 bits"


def to_message(recorded: RecordedMessage, source: str, incarnation: str, hash_width: int) -> Message:
    """The message to send. Raises OverflowError when the engine handed on a number that does not fit its column."""
    kind, cause, req, n, a0, a1 = _operations(recorded).T
    columns = Columns(
        kind=kind.astype(np.uint8),
        cause=cause.astype(np.uint8),
        req=req,
        n=n,
        a0=a0,
        a1=a1,
        blk=_u4(recorded.blk),
        val=_values(recorded),
        hashes=b"".join(recorded.hashes),
    )
    header = Header(
        version=SCHEMA_VERSION, type="events", source=source, incarnation=incarnation, wire_seq=recorded.wire_seq,
        seq0=recorded.seq0, n=recorded.n, step=recorded.step, t0_wall_ns=recorded.t0_wall_ns,
        t0_mono_ns=recorded.t0_mono_ns, lost=recorded.lost, req0=recorded.req0, hash0=recorded.hash0,
        hash_width=hash_width, names=tuple(recorded.names), sizes=(), totals=recorded.totals,
    )  # fmt: skip
    return Message(header, columns)


def _operations(recorded: RecordedMessage) -> U4:
    """A row of six numbers for each operation."""
    table = _u4(recorded.operations).reshape(-1, 6)
    if not recorded.many:
        return table
    parts, copied = [], 0
    for entry, kind, reqs, a0s, a1s in recorded.many:
        parts.append(table[copied : entry // 6])
        copied = entry // 6
        many = np.zeros((len(reqs), 6), np.uint32)
        many[:, 0], many[:, 2], many[:, 4], many[:, 5] = kind, _u4(reqs), _u4(a0s), _u4(a1s)
        parts.append(many)
    return np.concatenate([*parts, table[copied:]])


def _values(recorded: RecordedMessage) -> I4:
    """One value a row: in a run of cached blocks, each but the first has the ordinal of the hash before it."""
    told = array("i", recorded.val)
    if not recorded.runs:
        return np.frombuffer(told, np.int32)
    values = array("i")
    copied = 0
    for at, first, count in zip(recorded.runs[::3], recorded.runs[1::3], recorded.runs[2::3], strict=True):
        values += told[copied : at + 1]
        values.extend(range(first, first + count - 1))
        copied = at + 1
    return np.frombuffer(values + told[copied:], np.int32)


def _u4(values: list[int]) -> U4:
    # From a list of ints this is three times as fast as numpy's own conversion.
    return np.frombuffer(array("I", values), np.uint32)
