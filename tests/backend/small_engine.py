"""A real engine without a model, stepped by hand, published over real sockets: the world that backend tests watch."""

from __future__ import annotations

import random
from types import TracebackType

import numpy as np
from kvxray_engine.clock import Clock, SystemClock
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.faults.fault import Fault
from kvxray_engine.faults.placing import make_publisher
from kvxray_engine.null_model import NullModel
from kvxray_engine.request import NewRequest
from kvxray_engine.step_batch import SamplingParams
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.handover import Handover, RecordedMessage
from kvxray_engine.stream.recorder import Recorder
from kvxray_engine.stream.replay_buffer import ReplayBuffer
from kvxray_engine.stream.schema import UNKNOWN_U4, BlockState

LEAK = Fault("leak-on-abort")


class LossyHandover(Handover):
    """Refuses a share of the messages, as if the publisher could not keep up."""

    def __init__(self, loss: float, seed: int = 0) -> None:
        super().__init__()
        self.loss = loss
        self.num_refused = 0
        self._random = random.Random(seed)

    def offer(self, message: RecordedMessage) -> bool:
        if self._random.random() < self.loss:
            self.num_refused += 1
            return False
        return super().offer(message)


class SmallEngine:
    """Requests share a prefix, grow, end and evict each other. Use as a context; `step` as often as wanted."""

    def __init__(
        self,
        *,
        num_blocks: int = 65,
        leak: bool = False,
        faults: tuple[Fault, ...] = (),
        recorder_loss: float = 0.0,
        replay_messages: int = 10_000,
        events: str = "tcp://127.0.0.1:*",
        replay: str = "tcp://127.0.0.1:*",
        clock: Clock | None = None,
        seed: int = 0,
    ) -> None:
        faults = (*faults, *([LEAK] if leak else ()))
        self.handover = LossyHandover(recorder_loss, seed)
        self.clock = clock or SystemClock()
        self.recorder = Recorder(self.clock, self.handover)
        model = NullModel(num_blocks=num_blocks, block_size=16)
        self.engine = LLMEngine(
            model,
            EngineConfig(max_num_seqs=8, max_num_batched_tokens=128, faults=faults),
            self.recorder,
            self.clock,
        )
        self.publisher = make_publisher(
            faults,
            self.recorder,
            self.engine.descriptor({"model": "null", "node": "here"}),
            "engine",
            events,
            replay,
            heartbeat_s=0.05,
        )
        self.publisher.replay = ReplayBuffer(max_messages=replay_messages)
        self._random = random.Random(seed)
        self._num_requests = 0

    def __enter__(self) -> SmallEngine:
        self.publisher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.publisher.close()
        self.handover.close()

    def add(
        self, request_id: str | None = None, *, prompt: int = 60, output: int = 20, session: str = "", salt: str = ""
    ) -> str:
        """A request whose prompt begins like all others."""
        self._num_requests += 1
        request_id = request_id or f"request-{self._num_requests}"
        own = [self._random.randrange(1000, 9000) for _ in range(max(0, prompt - 40))]
        tokens = [*range(1, min(prompt, 40) + 1), *own]
        sampling = SamplingParams(max_tokens=output, ignore_eos=True)
        self.engine.add_request(NewRequest(request_id, tokens, sampling, session=session, cache_salt=salt))
        return request_id

    def abort(self, request_id: str) -> None:
        self.engine.abort_request(request_id)

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            self.engine.step()
            self.engine.check_integrity()

    def work(self, steps: int) -> None:
        """Steps with requests coming and some cancelled."""
        for _ in range(steps):
            if self._random.random() < 0.3 or not self.engine.has_work:
                self.add(prompt=self._random.randrange(20, 120), output=self._random.randrange(2, 40))
            if self._random.random() < 0.05 and self._num_requests:
                self.abort(f"request-{self._num_requests}")
            self.step()

    def finish(self) -> None:
        """Steps until nothing is left to do."""
        while self.engine.has_work:
            self.step()

    def assert_folded(self, block_map: BlockMap, *, outside_unknown: bool = False) -> None:
        """The folded state is the engine's own, block by block; `outside_unknown`: only where it claims to know."""
        dump = self.engine.dump_state()
        usable = np.arange(block_map.num_blocks) != block_map.descriptor.null_block
        known = usable & (block_map.state != BlockState.unknown)
        if not outside_unknown:
            assert (known == usable).all(), f"{np.count_nonzero(usable & ~known)} blocks are unknown"
        assert (block_map.ref[known] == np.array(dump.ref_cnt, np.uint32)[known]).all(), "references differ"
        for block in np.flatnonzero(known):
            ordinal = int(block_map.hash_ordinal[block])
            assert ordinal != UNKNOWN_U4
            told = block_map.hash_bytes(ordinal) if ordinal < UNKNOWN_U4 else None
            assert told == dump.block_hash[block], f"the hash of block {block} differs"
        if block_map.holders_known:
            blocks, holders = block_map.holds()
            assert sorted(zip(blocks.tolist(), holders.tolist(), strict=True)) == sorted(dump.holds), "holds differ"
