"""An engine that does again what a real vLLM 0.32 server was recorded doing: events over ZMQ, its metrics over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvxray_backend.sources.foreign.recording import Recording

from tests.backend.foreign.engine_rig import EngineRig
from tests.backend.metrics.pages import recorded_body
from tests.backend.metrics.web import serving, text

FRAMES = Path(__file__).parents[1] / "data" / "captures" / "server-vllm-0.32.0.frames.jsonl.gz"
BEFORE_RESET = 46
"""Batches until its prefix cache was reset; the last one tells of the reset and of one prompt more."""


class RecordedEngine:
    """`go_on` publishes so many more of its batches. `events`, `replay`, `metrics`: where it is."""

    def __init__(self, rig: EngineRig, metrics: str) -> None:
        self.rig = rig
        self.events, self.replay, self.metrics = rig.events, rig.replay, metrics
        self._left = [frame.payload for frame in Recording(FRAMES).frames()]

    def go_on(self, number: int) -> None:
        assert number <= len(self._left), "the recording ends before"
        self.rig.publish(payloads=self._left[:number])
        del self._left[:number]


@contextmanager
def recorded_engine() -> Iterator[RecordedEngine]:
    with serving(text(recorded_body())) as web, EngineRig(topic=b"kv@tiny") as rig:
        yield RecordedEngine(rig, f"{web.url}/metrics")
