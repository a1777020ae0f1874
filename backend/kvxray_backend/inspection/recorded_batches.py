"""What was recorded, batch by batch, whichever format its lines have.

A file has one format: that of its first line. Lines that are none cost one count; one of another format is refused,
since batches of two recordings have no order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import msgspec
from kvxray_engine.errors import UserError
from kvxray_engine.stream.residency_state import StoreSemantics

from kvxray_backend.inspection.dialect import Encoding, encodings_of
from kvxray_backend.inspection.recorded_formats import NAMES, Format, format_of
from kvxray_backend.inspection.recorded_lines import RecordedLines
from kvxray_backend.sources.foreign.caps import MAX_SEQ, BadBatch
from kvxray_backend.sources.foreign.dynamo_jsonl import DynamoEvents
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.json_events import MAX_LIST_BYTES
from kvxray_backend.sources.foreign.recording import frame_of
from kvxray_backend.sources.foreign.told import Batch, Oddities
from kvxray_backend.sources.foreign.trtllm_json import TrtllmEvents

_LATEST_S: Final = float(1 << 33)


@dataclass(frozen=True, slots=True)
class Recorded:
    """One batch. `stream`: topic, worker or source, as people know it. `case`: name of the case it belongs to, else
    empty; `case_line`: the line of that case, since names may repeat. `encodings`: how its events were written, of
    msgpack. `received_ns`: Unix time, None where it was not recorded.
    """

    stream: str
    seq: int
    batch: Batch
    num_bytes: int
    received_ns: int | None = None
    encodings: frozenset[Encoding] = frozenset()
    case: str = ""
    case_line: int = 0
    holds_for_replay: bool = True
    store_semantics: StoreSemantics | None = None


Read = Callable[[bytes], list[Recorded] | None]
"""What a line tells; None: it is no line of that format."""


class RecordedBatches:
    """`format`: None until the first line was read. `num_bad`: lines that were none; `num_left_out`: steps of cases
    that are no batches of events.
    """

    def __init__(self, lines: RecordedLines) -> None:
        self.format: Format | None = None
        self.num_bad = 0
        self.num_left_out = 0
        self._lines = lines

    def __iter__(self) -> Iterator[Recorded]:
        """Raises `UserError` where the file is no recording, or more than one."""
        read: Read | None = None
        for text in self._lines:
            if read is None:
                read = self._reader(text)
                text = self._whole_list(text)
            told = read(text)
            if told is None:
                self._note_bad(text)
            yield from told or ()
        if read is None:
            raise UserError(f"There is nothing in {self._lines.path}.")

    def _reader(self, text: bytes) -> Read:
        told = format_of(text)
        if told is None:
            raise UserError(
                f"{self._lines.path} is no recording that kvxray reads: its first line is neither a frame of a ZeroMQ "
                "stream, nor an event of Dynamo or TensorRT-LLM, nor a case."
            )
        if told == "replay":
            raise UserError(f"{self._lines.path} holds what a replay socket answered; name its .frames.jsonl.gz file.")
        self.format = told
        readers: dict[Format, Read] = {
            "frames": _frame, "dynamo": _Dynamo(), "trtllm": _Trtllm(), "cases": self._case,
        }  # fmt: skip
        return readers[told]

    def _whole_list(self, text: bytes) -> bytes:
        """A list that goes on beyond its first line, as people print it."""
        if text.lstrip()[:1] != b"[" or text.rstrip()[-1:] == b"]":
            return text
        return self._lines.rest(text, MAX_LIST_BYTES)

    def _note_bad(self, text: bytes) -> None:
        self.num_bad += 1
        other = format_of(text)
        if self.format is not None and other not in (None, self.format):
            assert other is not None
            raise UserError(
                f"{self._lines.path} mixes recordings: it begins with {NAMES[self.format]}, and line "
                f"{self._lines.number} is of {NAMES[other]}."
            )

    def _case(self, text: bytes) -> list[Recorded] | None:
        try:
            case = _CASE.decode(text)
        except (msgspec.MsgspecError, RecursionError):
            return None
        steps = [_step(case, self._lines.number, step) for step in case.steps]
        self.num_left_out += steps.count(None)
        return [step for step in steps if step is not None]


class _Case(msgspec.Struct):
    id: str
    steps: list[dict[str, Any]]
    hold_for_replay: bool = True
    store_semantics: StoreSemantics | None = None


class _Batch(msgspec.Struct):
    src: str
    seq: int
    ev: list[dict[str, Any]]
    ts: float | None = None
    rank: int | None = None


_CASE: Final = msgspec.json.Decoder(_Case)


def _frame(text: bytes) -> list[Recorded] | None:
    frame = frame_of(text)
    if frame is None:
        return None
    topic = frame.topic.decode(errors="backslashreplace")[:200]
    stream = (f"topic {topic!r}" if topic else "no topic") + (f", line {frame.line}" if frame.line else "")
    is_told = frame.received_s is not None and 0 <= frame.received_s < _LATEST_S
    received_ns = round(frame.received_s * 1e9) if is_told and frame.received_s is not None else None
    batch, encodings = _decoded(frame.payload)
    return [Recorded(stream, frame.seq, batch, len(frame.payload), received_ns, encodings)]


def _step(case: _Case, line: int, step: dict[str, Any]) -> Recorded | None:
    """A step through the decoder, as its engine would have sent it."""
    try:
        told = msgspec.convert(step, _Batch)
        payload = msgspec.msgpack.encode([told.ts, told.ev, told.rank])
    except (msgspec.MsgspecError, RecursionError, OverflowError):
        return None
    if not 0 <= told.seq < MAX_SEQ:
        return None
    batch, encodings = _decoded(payload)
    return Recorded(
        f"source {told.src[:200]!r}", told.seq, batch, len(payload), None, encodings,
        case.id[:64], line, case.hold_for_replay, case.store_semantics,
    )  # fmt: skip


def _decoded(payload: bytes) -> tuple[Batch, frozenset[Encoding]]:
    """A payload that is no batch counts as one that tells nothing: its number came, so that it is not missing."""
    try:
        return decode_batch(payload), encodings_of(payload)
    except BadBatch:
        return Batch(None, None, (), Oddities(bad_events=1), blake2b(payload, digest_size=16).digest()), frozenset()


class _Dynamo:
    def __init__(self) -> None:
        self._events = DynamoEvents()

    def __call__(self, text: bytes) -> list[Recorded] | None:
        batch = self._events.line(text)
        if batch.event_id is None or batch.event_id < 0:
            return None
        return [Recorded(f"worker {batch.worker}", batch.event_id, batch, len(text))]


class _Trtllm:
    def __init__(self) -> None:
        self._events = TrtllmEvents()

    def __call__(self, text: bytes) -> list[Recorded] | None:
        try:
            batches = self._events.decode(text)
        except BadBatch:
            return None
        size = len(text) // max(1, len(batches))
        return [
            Recorded("engine", batch.event_id, batch, size)
            for batch in batches
            if batch.event_id is not None and batch.event_id >= 0
        ]
