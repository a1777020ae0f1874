"""What the recorder handed over, turned into columns: done by the publisher's thread, so that the engine's pays
nothing.
"""

from __future__ import annotations

from array import array

import numpy as np

from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.columns import HAS_VALUE, I4, U1, U4, Columns
from kvxray_engine.stream.handover import RecordedMessage
from kvxray_engine.stream.schema import SCHEMA_VERSION, Header, Kind

assert array("I").itemsize == 4, "kvxray needs a platform whose C int has 32 bits"


def to_message(recorded: RecordedMessage, source: str, incarnation: str, hash_width: int) -> Message:
    """The message to send. Raises OverflowError when the engine handed on a number that does not fit its column."""
    kinds, cause, req, n, a0, a1 = _u4(recorded.operations).reshape(-1, 6).T
    kind = kinds.astype(np.uint8)
    columns = Columns(
        kind=kind,
        cause=cause.astype(np.uint8),
        req=req,
        n=n,
        a0=a0,
        a1=a1,
        blk=_u4(recorded.blk),
        val=_values(recorded.val, kind, n, a0),
        hashes=b"".join(recorded.hashes),
    )
    header = Header(
        version=SCHEMA_VERSION, type="events", source=source, incarnation=incarnation, wire_seq=recorded.wire_seq,
        seq0=recorded.seq0, n=recorded.n, step=recorded.step, t0_wall_ns=recorded.t0_wall_ns,
        t0_mono_ns=recorded.t0_mono_ns, lost=recorded.lost, req0=recorded.req0, hash0=recorded.hash0,
        hash_width=hash_width, names=tuple(recorded.names), sizes=(), totals=recorded.totals,
    )  # fmt: skip
    return Message(header, columns)


def _values(told: list[int], kind: U1, n: U4, a0: U4) -> I4:
    """One value a row: those of BlockCached but the first are the hash ordinals of the rows before them."""
    values = np.frombuffer(array("i", told), np.int32)
    if not (kind == Kind.BlockCached).any():
        return values
    of_cached = kind[HAS_VALUE[kind]] == Kind.BlockCached
    rows, first_hash = n[HAS_VALUE[kind]].astype(np.intp), a0[HAS_VALUE[kind]].astype(np.int64)
    given = np.where(of_cached, np.minimum(rows, 1), rows)
    operation = np.repeat(np.arange(len(rows)), rows)
    index = np.arange(len(operation)) - np.repeat(np.cumsum(rows) - rows, rows)  # of the row in its operation
    follows = of_cached[operation] & (index > 0)
    at = (np.cumsum(given) - given)[operation] + np.where(follows, 0, index)
    return np.where(follows, first_hash[operation] + index - 1, values[at]).astype(np.int32)


def _u4(values: list[int]) -> U4:
    # From a list of ints this is three times as fast as numpy's own conversion.
    return np.frombuffer(array("I", values), np.uint32)
