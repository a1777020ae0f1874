"""The demo's workload on a null model, its stream through bytes and fold, its leaks as the analysis finds them."""

from __future__ import annotations

from kvxray_backend.analysis.leak_search import find_leaks
from kvxray_backend.analysis.leaks import Leak
from kvxray_engine.clock import VirtualClock
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.faults.fault import Fault
from kvxray_engine.null_model import NullModel
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import decode, encode
from kvxray_engine.stream.holder_ends import EngineTime
from kvxray_engine.stream.recorded import to_message
from kvxray_engine.stream.recorder import Recorder
from kvxray_engine.tokenizer import ByteTokenizer
from kvxray_engine.workload import Workload, WorkloadConfig

STEPS = 20_000


class LongRun:
    """Engine and backend's fold in one thread, on a clock that only the model moves."""

    def __init__(self, *, leak: bool) -> None:
        self.clock = VirtualClock()
        model = NullModel(num_blocks=641, vocab_size=272, clock=self.clock)
        self.recorder = Recorder(self.clock)
        self.engine = LLMEngine(
            model, EngineConfig(faults=(Fault("leak-on-abort"),) if leak else ()), self.recorder, self.clock
        )
        self.workload = Workload(self.engine, ByteTokenizer(), WorkloadConfig(seed=7))
        self.fold = BlockMap(self.engine.descriptor())
        self.leaks: list[Leak] = []

    def step(self) -> None:
        self.workload.tick()
        self.workload.take(self.engine.step())
        recorded, _ = self.recorder.handover.take()
        for one in recorded:
            message = to_message(one, "demo", "life-1", 32)
            self.fold.apply(decode(encode(message.header, message.columns)))
        if not self.engine.has_work:
            self.clock.advance_ns(20_000_000)

    def look(self) -> list[Leak]:
        now = EngineTime(self.clock.wall_ns(), self.engine.step_count, not self.engine.has_work)
        return find_leaks(self.fold, now)


def test_a_healthy_run_of_20_000_steps_has_no_leak() -> None:
    run = LongRun(leak=False)
    while run.engine.step_count < STEPS:
        run.step()
        if run.engine.step_count % 25 == 0:
            assert run.look() == []
        if run.engine.step_count % 1000 == 0:
            run.fold.check_integrity()
    assert run.fold.take_faults() == []
    assert run.workload.cancelled > 100, "the run was meant to have cancelled requests in it"
    assert run.engine.scheduler.num_preemptions > 0, "the run was meant to be short of blocks"


def test_with_the_fault_every_leak_is_named_within_10_seconds_and_nothing_else_is() -> None:
    run = LongRun(leak=True)
    while len(run.engine.manager.leaking) < 3:
        run.step()
        ended = {request.ordinal: request.ended_ns for request in run.engine.manager.leaking}
        for leak in run.look():
            assert leak.holder in ended
            assert leak.why == "aborted"
    begun_ns, steps = run.clock.wall_ns(), 0
    expected = {request.ordinal for request in run.engine.manager.leaking}
    while not expected <= {leak.holder for leak in run.look()}:
        run.step()
        steps += 1
        assert run.clock.wall_ns() - begun_ns < 10 * 10**9
    for leak in run.look():
        held = {block for block, holder in run.engine.manager.leaked_holds if holder == leak.holder}
        assert set(leak.blocks.tolist()) == held
    run.fold.check_integrity()
