"""Messages as an engine sends them, in a file: made beforehand, so that whoever takes them in is measured alone.

    u4 length | a heartbeat, which tells what the source is | u4 length | the first message | …

`python -m benchmarks.measuring.message_file FILE ADDRESS` sends all but the heartbeat to a PULL socket, no faster than
that takes them, and stays until its standard input ends.
"""

from __future__ import annotations

import struct
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import zmq
from kvxray_engine.stream.codec import Message, decode, encode, encode_descriptor
from kvxray_engine.stream.columns import Columns
from kvxray_engine.stream.schema import SCHEMA_VERSION, Header

from benchmarks.measuring.generated_log import messages
from benchmarks.measuring.model_engine import HASH_WIDTH, ModelEngine

HIGH_WATER = 64
"""Messages on their way between two processes: few, or a good part would be received before the clock runs."""

_LENGTH = struct.Struct("<I")
_PROBES = 3
_PROBE_MESSAGES = 2000


@dataclass(frozen=True, slots=True)
class MessageFile:
    """`rows`: events in it. `incarnation`: no other file has the same."""

    path: Path
    incarnation: str
    num_blocks: int
    rows: int
    num_messages: int

    @property
    def rows_per_message(self) -> float:
        return self.rows / self.num_messages

    def payloads(self) -> Iterator[bytes]:
        """The heartbeat and the messages."""
        return read_payloads(self.path)

    def began(self) -> Message:
        """The heartbeat."""
        return decode(next(self.payloads()))


def write(
    path: Path, rows: int, per_message: int, num_blocks: int, progress: Callable[[int], None] = lambda _: None
) -> MessageFile:
    """A life of a made-up engine of so many events or a few more, about `per_message` in each message."""
    engine = _engine(per_message, num_blocks, rows)
    told = count = 0
    with path.open("wb") as file:
        _put(file.write, encode(_heartbeat(engine), Columns.empty()))
        for message in messages(engine, rows):
            _put(file.write, encode(message.header, message.columns))
            told, count = told + message.header.n, count + 1
            progress(told)
    return MessageFile(path, engine.incarnation, num_blocks, told, count)


def read_payloads(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while length := file.read(_LENGTH.size):
            yield file.read(_LENGTH.unpack(length)[0])


def send(path: Path, address: str) -> None:
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.setsockopt(zmq.SNDHWM, HIGH_WATER)
        socket.connect(address)
        payloads = read_payloads(path)
        next(payloads)
        for payload in payloads:
            socket.send(payload)
        sys.stdin.read()  # what was sent and not taken yet would be lost with the socket


def _put(write: Callable[[bytes], object], payload: bytes) -> None:
    write(_LENGTH.pack(len(payload)))
    write(payload)


def _engine(per_message: int, num_blocks: int, rows: int) -> ModelEngine:
    """One whose messages are as large as wanted. What it is told is only about what comes of it, so others are tried
    first, each for as long as this one lives, or long enough.
    """
    asked = per_message
    for _ in range(_PROBES):
        probe = ModelEngine(num_blocks, asked)
        sizes = [probe.step().header.n for _ in range(min(_PROBE_MESSAGES, max(8, rows // per_message)))]
        settled = sizes[len(sizes) // 2 :]
        asked = max(1, round(asked * per_message * len(settled) / sum(settled)))
    return ModelEngine(num_blocks, asked, incarnation=uuid.uuid4().hex)


def _heartbeat(engine: ModelEngine) -> Header:
    return Header(
        version=SCHEMA_VERSION, type="heartbeat", source="engine", incarnation=engine.incarnation, wire_seq=-1, seq0=0,
        n=0, step=0, t0_wall_ns=engine.clock.wall_ns(), t0_mono_ns=0, lost=0, req0=0, hash0=0, hash_width=HASH_WIDTH,
        names=(), sizes=(), descriptor=encode_descriptor(engine.descriptor()),
    )  # fmt: skip


if __name__ == "__main__":
    send(Path(sys.argv[1]), sys.argv[2])
