"""Recordings of foreign streams: gzipped JSON lines, one message each, read and written as streams.

    NAME.frames.jsonl.gz   what was published:    {"topic", "seq", "payload_b64"}, perhaps {"nframes", "rx", "line"}
    NAME.replay.jsonl.gz   what replay answered:  {"frames_b64": […]}, as a DEALER receives them

`rx`: when it was received, Unix seconds. `line`: which of several sockets it came over. `topic_b64`: a topic that is no
text. A line is whole or not there: a recording that was cut off, in its middle too, is read up to the last whole line.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

import msgspec
from kvxray_engine.errors import UserError

from kvxray_backend.sources.foreign.caps import MAX_PAYLOAD_BYTES
from kvxray_backend.sources.foreign.zmq_frames import MAX_FRAMES, MAX_TOPIC_BYTES

MAX_LINE_BYTES: Final = 2 * MAX_PAYLOAD_BYTES
MAX_SEQ: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Frame:
    """One published message. `received_s`: Unix seconds, None when not recorded."""

    topic: bytes
    seq: int
    payload: bytes
    received_s: float | None = None
    line: int = 0


class _FrameLine(msgspec.Struct, omit_defaults=True):
    topic: str
    seq: int
    payload_b64: str
    nframes: int | None = None
    rx: float | None = None
    line: int = 0
    topic_b64: str | None = None


class _ReplyLine(msgspec.Struct):
    frames_b64: list[str]


_FRAME: Final = msgspec.json.Decoder(_FrameLine)
_REPLY: Final = msgspec.json.Decoder(_ReplyLine)
_ENCODER: Final = msgspec.json.Encoder()


class Recording:
    """What is left to read of a recording. `num_bad`: lines that were none; `is_cut`: the file ends where it should
    not.
    """

    def __init__(self, path: Path) -> None:
        self.num_bad = 0
        self.is_cut = False
        self._path = path

    def frames(self) -> Iterator[Frame]:
        """Of a `.frames.jsonl.gz`. Raises `UserError` for a file that cannot be read at all."""
        for text in self._texts():
            frame = frame_of(text)
            if frame is None:
                self.num_bad += 1
            else:
                yield frame

    def replies(self) -> Iterator[list[bytes]]:
        """Of a `.replay.jsonl.gz`: the frames of each answer. Raises `UserError`."""
        for text in self._texts():
            reply = _reply_of(text)
            if reply is None:
                self.num_bad += 1
            else:
                yield reply

    def _texts(self) -> Iterator[bytes]:
        has_read = False
        try:
            with gzip.open(self._path) as file:
                while text := file.readline(MAX_LINE_BYTES + 1):
                    has_read = True
                    if text.endswith(b"\n"):
                        yield text
                        continue
                    if len(text) <= MAX_LINE_BYTES:
                        self.is_cut = True
                        return
                    self.num_bad += 1
                    while text and not text.endswith(b"\n"):
                        text = file.readline(MAX_LINE_BYTES)
        except gzip.BadGzipFile as error:
            if not has_read:
                raise UserError(f"{self._path} is no recording: it is not gzipped.") from error
            self.is_cut = True
        except (EOFError, zlib.error):
            self.is_cut = True
        except OSError as error:
            raise UserError(f"{self._path} cannot be read: {error.strerror or error}.") from error


class Recorder:
    """Writes a recording that must not be there yet; whoever is killed leaves all lines but those of the last second.
    `num_lines`: written so far.
    """

    def __init__(self, path: Path) -> None:
        """Raises `UserError` where the file cannot be made."""
        self.num_lines = 0
        self._has_failed = False
        self.path = path
        try:
            self._raw = path.open("xb")
        except FileExistsError as error:
            raise UserError(f"{path} is there already; name a new file.") from error
        except OSError as error:
            raise UserError(f"{path} cannot be written: {error.strerror or error}.") from error
        self._file = gzip.GzipFile(filename="", mode="wb", fileobj=self._raw, compresslevel=6, mtime=0)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, frame: Frame) -> None:
        """Raises `UserError` when the disk is full."""
        try:
            topic, topic_b64 = frame.topic.decode(), None
        except UnicodeDecodeError:
            topic, topic_b64 = frame.topic.decode(errors="replace"), _text(frame.topic)
        self._write(_FrameLine(topic, frame.seq, _text(frame.payload), 3, frame.received_s, frame.line, topic_b64))

    def write_reply(self, frames: list[bytes]) -> None:
        """Raises `UserError` when the disk is full."""
        self._write(_ReplyLine([_text(frame) for frame in frames]))

    def flush(self) -> None:
        """What was written survives whatever happens to this process. Raises `UserError`."""
        self._guard(self._file.flush)
        self._guard(self._raw.flush)

    def close(self) -> None:
        """A recording without a line is taken away again. Raises `UserError`."""
        try:
            if not self._has_failed:
                self._guard(self._file.close)
        finally:
            self._raw.close()
            if not self.num_lines:
                os.unlink(self.path)

    def _write(self, line: _FrameLine | _ReplyLine) -> None:
        text = _ENCODER.encode(line) + b"\n"
        self._guard(lambda: self._file.write(text))
        self.num_lines += 1

    def _guard(self, work: Callable[[], object]) -> None:
        try:
            work()
        except OSError as error:
            self._has_failed = True
            raise UserError(f"{self.path} cannot be written: {error.strerror or error}.") from error


def frame_of(text: bytes) -> Frame | None:
    """One line of a `.frames.jsonl`; None: it is none."""
    try:
        line = _FRAME.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    payload = _bytes(line.payload_b64)
    topic = line.topic.encode() if line.topic_b64 is None else _bytes(line.topic_b64)
    if payload is None or topic is None or not 0 <= line.seq < MAX_SEQ or len(topic) > MAX_TOPIC_BYTES:
        return None
    return Frame(topic, line.seq, payload, line.rx, line.line)


def _reply_of(text: bytes) -> list[bytes] | None:
    try:
        line = _REPLY.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    frames = [_bytes(one) for one in line.frames_b64[: MAX_FRAMES + 1]]
    whole = [frame for frame in frames if frame is not None]
    return whole if len(whole) == len(frames) else None


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes | None:
    """None: it is not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
