"""Streams of hashes as recorded engines told them, on their way into the event log, and what a live fold has then."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.interning import Interning
from kvxray_backend.sources.foreign.told import Batch
from kvxray_backend.sources.privacy import NameFilter
from kvxray_engine.stream.codec import Message, decode, encode
from kvxray_engine.stream.joining import EVENTS_OF_BATCH
from kvxray_engine.stream.residency_map import ResidencyMap
from kvxray_engine.stream.residency_snapshot import dump
from kvxray_engine.stream.residency_state import StoreSemantics

from tests.engine.verdict import read_lines
from tests.storage.told_messages import T0_NS

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
EVENTFUL = (
    "sglang-0.5.23-page16",
    "vllm-0.32.0-eviction",
    "vllm-0.32.0-reset",
    "vllm-0.32.0-lora_salt",
    "vllm-0.32.0-mixed-1",
    "vllm-0.16.0-eviction",
    "vllm-0.32.0-mixed-priority-11",
)
"""In the order in which they were recorded."""


@cache
def batches_of(name: str) -> tuple[Batch, ...]:
    """A recording's, in order."""
    frames = sorted(read_lines(CAPTURES / f"{name}.frames.jsonl.gz"), key=lambda frame: frame["seq"])
    return tuple(decode_batch(b64decode(frame["payload_b64"])) for frame in frames)


@dataclass(eq=False)
class Life:
    """One epoch as it was followed live: messages in the order they came, and the fold after each."""

    semantics: StoreSemantics = "copies"
    told: list[Message] = field(default_factory=list)
    folds: list[ResidencyMap] = field(default_factory=list)
    gaps: list[tuple[int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.fold: ResidencyMap | None = None
        self._interning = Interning("engine", NameFilter(b"told"), self._are_gone)
        self.descriptor = self._interning.descriptor
        self.fold = ResidencyMap(self.descriptor, store_semantics=self.semantics)
        self.begin = dump(self.fold)
        self.next = 0

    def hear(self, batch: Batch, wire_seq: int | None = None) -> Message:
        """A batch, the next one unless told otherwise; what was passed over is a gap."""
        at = self.next if wire_seq is None else wire_seq
        if at > self.next:
            self.gaps.append((len(self.told), self.next, at - 1))
            self.fold.note_gap()
        self.next = max(self.next, at + 1)
        message = self._interning.intern(batch, at, T0_NS + at * 50_000_000).message
        self.told.append(decode(encode(message.header, message.columns)))
        self.fold.apply(self.told[-1])
        self.folds.append(self.fold.copy())
        return self.told[-1]

    def hear_all(self, *names: str, lost: frozenset[int] = frozenset()) -> Life:
        """Of recordings, one after the other; `lost`: numbers that never come."""
        at = self.next
        for batch in (one for name in names for one in batches_of(name)):
            if at not in lost:
                self.hear(batch, at)
            at += 1
        return self

    def store(self, log: Any, incarnation: str = "life-1", begin: int = 0, end: int | None = None) -> Any:
        """Into the log, as a follower does: the state before the first message, then messages and gaps."""
        key = log.open_epoch("engine", {"team": "a"}, incarnation, self.descriptor, T0_NS)
        if begin == 0:
            self.begin_in(log, key)
        for at in range(begin, len(self.told) if end is None else end):
            self.tell(log, key, at)
        assert log.flush(20)
        return key

    def begin_in(self, log: Any, key: Any) -> None:
        """The state before the first message."""
        assert log.keyframe(key, 0, 0, T0_NS, self.begin, "residency", {})

    def tell(self, log: Any, key: Any, at: int) -> None:
        """One message, after the gap before it."""
        for before, first, last in self.gaps:
            if before == at:
                assert log.gap(key, first, last, *numbers_of(first, last), T0_NS, "lost on the wire")
        while not log.append(key, self.told[at]):
            assert log.flush(10)

    def _are_gone(self, ordinals: Any) -> Any:
        return self.fold.are_gone(ordinals)


def numbers_of(first: int, last: int) -> tuple[int, int]:
    """Numbers of the events that batches first..last may have."""
    return first * EVENTS_OF_BATCH, (last + 1) * EVENTS_OF_BATCH - 1


def last_seq(message: Message) -> int:
    return message.header.seq0 + message.header.n - 1
