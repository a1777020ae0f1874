"""What the recorder handed over, turned into bytes: done by the publisher's thread, so that the engine's pays nothing.

The two threads share one interpreter, so this is lists and arrays: at the size of a step they cost less than numpy.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from kvxray_engine.stream.codec import Message, assemble, decode_body
from kvxray_engine.stream.handover import RecordedMessage
from kvxray_engine.stream.schema import SCHEMA_VERSION, Header

assert array("I").itemsize == 4, "kvxray needs a platform whose C int has 32 bits"

NUMBERS = 6
"""Of an operation: kind, cause, req, n, a0, a1."""


def encode_recorded(recorded: RecordedMessage, source: str, incarnation: str, hash_width: int) -> bytes:
    """The message to send. Raises OverflowError or ValueError when a number does not fit its column."""
    body = _body(recorded)
    return assemble(_header(recorded, source, incarnation, hash_width, body), body)


def to_message(recorded: RecordedMessage, source: str, incarnation: str, hash_width: int) -> Message:
    """The same, decoded."""
    body = _body(recorded)
    header = _header(recorded, source, incarnation, hash_width, body)
    return Message(header, decode_body(b"".join(body), header.sizes))


def _header(recorded: RecordedMessage, source: str, incarnation: str, hash_width: int, body: list[bytes]) -> Header:
    return Header(
        version=SCHEMA_VERSION, type="events", source=source, incarnation=incarnation, wire_seq=recorded.wire_seq,
        seq0=recorded.seq0, n=recorded.n, step=recorded.step, t0_wall_ns=recorded.t0_wall_ns,
        t0_mono_ns=recorded.t0_mono_ns, lost=recorded.lost, req0=recorded.req0, hash0=recorded.hash0,
        hash_width=hash_width, names=tuple(recorded.names), sizes=tuple(map(len, body)), totals=recorded.totals,
    )  # fmt: skip


def _body(recorded: RecordedMessage) -> list[bytes]:
    """The columns in their order on the wire, then the hash bytes."""
    numbers = array("I", recorded.operations)
    columns = [numbers[number::NUMBERS] for number in range(NUMBERS)]
    for many in reversed(recorded.many):
        at, nothing = many.entry // NUMBERS, array("I", bytes(4 * len(many.reqs)))
        kinds = array("I", [many.kind]) * len(many.reqs)
        for column, values in zip(columns, (kinds, nothing, many.reqs, nothing, many.a0s, many.a1s), strict=True):
            column[at:at] = values
    kind, cause, *others = columns
    blk = _with_inserted(array("I", recorded.blk), recorded.blk_inserted)
    val = _with_inserted(array("i", recorded.val), recorded.val_inserted)
    body = [bytes(kind.tolist()), bytes(cause.tolist())]
    body += [column.tobytes() for column in (*others, blk, val)]
    return [*body, b"".join(recorded.hashes)]


def _with_inserted(told: array[int], inserted: Sequence[tuple[int, array[int] | range]]) -> array[int]:
    """`told` with each of `inserted` before the entry it belongs to."""
    if not inserted:
        return told
    whole, copied = told[:0], 0
    for entry, more in inserted:
        whole += told[copied:entry]
        whole.extend(more)
        copied = entry
    return whole + told[copied:]
