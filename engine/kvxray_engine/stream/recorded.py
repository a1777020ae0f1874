"""What the recorder handed over, turned into bytes: done by the publisher's thread, so that the engine's pays nothing.

The two threads share one interpreter, so this is lists and arrays: at the size of a step they cost less than numpy.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from kvxray_engine.stream.codec import Message, assemble, decode_body
from kvxray_engine.stream.handover import RecordedMessage
from kvxray_engine.stream.schema import SCHEMA_VERSION, Header, Kind

assert array("I").itemsize == 4, "kvxray needs a platform whose C int has 32 bits"

NUMBERS = 6
"""Of an operation: kind, cause, req, n, a0, a1."""

_MAX_JOINED_NS = 60 * 60 * 10**9
_STEP_STARTED = int(Kind.StepStarted)


def encode_recorded(recorded: RecordedMessage, source: str, incarnation: str, hash_width: int) -> bytes:
    """The message to send. Raises OverflowError or ValueError when a number does not fit its column."""
    body = _body(recorded)
    return assemble(_header(recorded, source, incarnation, hash_width, body), body)


def to_message(recorded: RecordedMessage, source: str, incarnation: str, hash_width: int) -> Message:
    """The same, decoded."""
    body = _body(recorded)
    header = _header(recorded, source, incarnation, hash_width, body)
    return Message(header, decode_body(b"".join(body), header.sizes))


def can_join_recorded(first: RecordedMessage, last: RecordedMessage, following: RecordedMessage) -> bool:
    """Whether nothing is missing between `last` and `following`, and it may be told from `first`'s t0."""
    later_ns = following.t0_wall_ns - first.t0_wall_ns
    return last.wire_seq + 1 == following.wire_seq and 0 <= later_ns < _MAX_JOINED_NS


def join_recorded(run: Sequence[RecordedMessage]) -> RecordedMessage:
    """One message with what all tell, in order: to fold it costs less than to fold them one by one.

    They must follow each other, as `can_join_recorded` says. Times count from the first one's t0; wire_seq, step, lost
    and totals are the last one's.
    """
    first, last = run[0], run[-1]
    joined = RecordedMessage(
        last.wire_seq, first.seq0, 0, last.step, first.t0_wall_ns, first.t0_mono_ns, last.lost, first.req0, first.hash0,
        names=[], operations=[], many=[], blk=[], val=[], runs=[], hashes=[], totals=last.totals,
    )  # fmt: skip
    for one in run:
        operations, values = len(joined.operations), len(joined.val)
        joined.n += one.n
        joined.names += one.names
        joined.many += [many._replace(entry=operations + many.entry) for many in one.many]
        joined.operations += _told_later(one.operations, (one.t0_wall_ns - first.t0_wall_ns) // 1000)
        for at, ordinal, count in zip(one.runs[::3], one.runs[1::3], one.runs[2::3], strict=True):
            joined.runs += (values + at, ordinal, count)
        joined.blk += one.blk
        joined.val += one.val
        joined.hashes += one.hashes
    return joined


def _told_later(operations: list[int], microseconds: int) -> list[int]:
    """The same operations told from a t0 that lies `microseconds` earlier: StepStarted's a0 grows by that."""
    moved = operations[:]
    for entry in range(0, len(moved), NUMBERS):
        if moved[entry] == _STEP_STARTED:
            moved[entry + 4] += microseconds
    return moved


def _header(recorded: RecordedMessage, source: str, incarnation: str, hash_width: int, body: list[bytes]) -> Header:
    return Header(
        version=SCHEMA_VERSION, type="events", source=source, incarnation=incarnation, wire_seq=recorded.wire_seq,
        seq0=recorded.seq0, n=recorded.n, step=recorded.step, t0_wall_ns=recorded.t0_wall_ns,
        t0_mono_ns=recorded.t0_mono_ns, lost=recorded.lost, req0=recorded.req0, hash0=recorded.hash0,
        hash_width=hash_width, names=tuple(recorded.names), sizes=tuple(map(len, body)), totals=recorded.totals,
    )  # fmt: skip


def _body(recorded: RecordedMessage) -> list[bytes]:
    """The columns in their order on the wire, then the hash bytes."""
    columns = [recorded.operations[number::NUMBERS] for number in range(NUMBERS)]
    for many in reversed(recorded.many):
        at, count = many.entry // NUMBERS, len(many.reqs)
        numbers = ([many.kind] * count, [0] * count, many.reqs, [0] * count, many.a0s, many.a1s)
        for column, values in zip(columns, numbers, strict=True):
            column[at:at] = values
    kind, cause, *others = columns
    body = [bytes(kind), bytes(cause)]
    body += [array("I", column).tobytes() for column in (*others, recorded.blk)]
    body += [_values(recorded).tobytes(), b"".join(recorded.hashes)]
    return body


def _values(recorded: RecordedMessage) -> array[int]:
    """One value a row: in a run of cached blocks, each but the first has the ordinal of the hash before it."""
    told = array("i", recorded.val)
    if not recorded.runs:
        return told
    values = array("i")
    copied = 0
    for at, first, count in zip(recorded.runs[::3], recorded.runs[1::3], recorded.runs[2::3], strict=True):
        values += told[copied : at + 1]
        values.extend(range(first, first + count - 1))
        copied = at + 1
    return values + told[copied:]
