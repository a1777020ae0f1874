"""The stream of an engine under test, followed message by message: bytes and all, and told in vLLM's words."""

from __future__ import annotations

from collections.abc import Mapping

from kvxray_engine.block_pool import BlockPool
from kvxray_engine.request import Request
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import decode, encode
from kvxray_engine.stream.recorded import to_message
from kvxray_engine.stream.recorder import Recorder
from kvxray_engine.stream.schema import Descriptor
from kvxray_engine.vllm_events import VllmEvent, to_vllm_events


class FoldedMessages:
    """A fold that follows a recorder by its messages alone."""

    def __init__(self, recorder: Recorder, descriptor: Descriptor) -> None:
        self.recorder = recorder
        self.fold = BlockMap(descriptor, source="test", incarnation="once")

    def follow(self, requests: Mapping[int, Request], int_hashes: bool = True) -> list[VllmEvent]:
        """Folds what was handed over since the last call; vLLM's events of it."""
        recorded, _ = self.recorder.handover.take()
        events: list[VllmEvent] = []
        for one in recorded:
            made = to_message(one, "test", "once", hash_width=32)
            message = decode(encode(made.header, made.columns))
            events += to_vllm_events(message, self.fold, requests, int_hashes=int_hashes)
            self.fold.apply(message)
        return events

    def check_against(self, pool: BlockPool) -> None:
        """Asserts that the fold knows of every block what the pool does."""
        self.fold.check_integrity()
        assert self.fold.take_faults() == [], "the stream breaks a law"
        assert self.fold.ref.tolist() == pool.ref_cnt, "the fold has other reference counts"
        assert self.fold.hash_ordinal.tolist() == pool.hash_ordinal, "the fold has other hashes"
