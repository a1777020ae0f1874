"""An engine with faults under load, its stream followed message by message; a step computes tokens but no text."""

from __future__ import annotations

import random

from kvxray_engine.clock import VirtualClock
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.faults.fault import Fault
from kvxray_engine.null_model import NullModel
from kvxray_engine.request import NewRequest
from kvxray_engine.step_batch import SamplingParams
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.block_map import Fault as BrokenLaw
from kvxray_engine.stream.codec import Message, decode, encode
from kvxray_engine.stream.recorded import to_message
from kvxray_engine.stream.recorder import Recorder

SYSTEM_PROMPT = [*range(11)]


class FaultyWorld:
    """Requests share a prompt, some are cancelled, and a pool of 21 usable blocks is short of room."""

    def __init__(self, *faults: Fault, seed: int = 0) -> None:
        clock = VirtualClock()
        self.recorder = Recorder(clock)
        model = NullModel(22, 4, vocab_size=60, max_model_len=40, clock=clock)
        limits = EngineConfig(max_num_seqs=6, max_num_batched_tokens=24, faults=faults)
        self.engine = LLMEngine(model, limits, self.recorder, clock)
        self.fold = BlockMap(self.engine.descriptor(), source="test", incarnation="once")
        self.messages: list[Message] = []
        self.broken: list[BrokenLaw] = []
        self.answers: dict[str, list[int]] = {}
        self._rng = random.Random(seed)
        self._num_requests = 0

    def run(self, steps: int) -> FaultyWorld:
        for _ in range(steps):
            self._come_and_go()
            for output in self.engine.step():
                self.answers.setdefault(output.request_id, []).extend(output.new_token_ids)
            self.follow()
        return self

    def follow(self) -> None:
        """Every message through its bytes into the fold."""
        recorded, _ = self.recorder.handover.take()
        for one in recorded:
            made = to_message(one, "test", "once", hash_width=32)
            message = decode(encode(made.header, made.columns))
            self.messages.append(message)
            self.fold.apply(message)
            self.broken += self.fold.take_faults()

    def payloads(self) -> list[bytes]:
        return [encode(message.header, message.columns) for message in self.messages]

    def _come_and_go(self) -> None:
        living = [*self.engine.scheduler.requests()]
        if len(living) < 6:
            self._num_requests += 1
            prompt = SYSTEM_PROMPT[: self._rng.choice((0, 11))] + self._rng.choices(
                range(60), k=self._rng.randint(1, 9)
            )
            sampling = SamplingParams(max_tokens=self._rng.randint(2, 12))
            self.engine.add_request(NewRequest(f"r{self._num_requests}", prompt, sampling))
        if living and self._rng.random() < 0.05:
            self.engine.abort_request(self._rng.choice(living).request_id)
