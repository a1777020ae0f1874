"""Replays a trace through scheduler, prefix cache and block pool, with a null model and a virtual clock: hours pass in
seconds, and every block moves as it would.

Requests arrive when the trace says; steps take what the null model says they do. This file drives an engine as a client
would and keeps figures; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kvxray_engine.clock import VirtualClock
from kvxray_engine.engine import EngineConfig, LLMEngine, RequestOutput
from kvxray_engine.errors import UserError
from kvxray_engine.null_model import NullModel
from kvxray_engine.request import NewRequest
from kvxray_engine.step_batch import SamplingParams
from kvxray_engine.stream.recorder import NullRecorder
from kvxray_engine.traces import TraceRequest

STEP_NS = 20_000_000
TOKEN_NS = 10_000
"""100,000 tokens a second in prefill, 50 a second for each that decodes: a strong engine of several GPUs."""


@dataclass(slots=True)
class ReplayFigures:
    """Times are virtual. `refused`: longer than any sequence may be."""

    requests: int = 0
    refused: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    queried_tokens: int = 0
    hit_tokens: int = 0
    preemptions: int = 0
    steps: int = 0
    duration_s: float = 0.0
    max_running: int = 0
    waste_ratio: float | None = None
    ttft_s: list[float] = field(default_factory=list)  # of each request, in the order of their ends

    @property
    def hit_ratio(self) -> float | None:
        return self.hit_tokens / self.queried_tokens if self.queried_tokens else None


class TraceRunner:
    """One engine and one trace. Sequences may be as long as the longest of the trace, unless `config` says less."""

    def __init__(
        self,
        trace: Sequence[TraceRequest],
        num_blocks: int,
        block_size: int = 16,
        config: EngineConfig | None = None,
        recorder: NullRecorder | None = None,
        clock: VirtualClock | None = None,
        step_ns: int = STEP_NS,
        token_ns: int = TOKEN_NS,
    ) -> None:
        self.trace = trace
        self.clock = clock or VirtualClock()
        numbers = [number for request in trace for number, _ in request.segments]
        longest = max((request.prompt_tokens + request.output_tokens for request in trace), default=1)
        model = NullModel(
            num_blocks, block_size, max(numbers, default=0) + 1, longest, clock=self.clock, step_ns=step_ns,
            token_ns=token_ns,
        )  # fmt: skip
        self.engine = LLMEngine(model, config, recorder, self.clock)
        self.figures = ReplayFigures()
        self._begun_ns = self.clock.wall_ns()
        self._next = 0
        self._arrivals: dict[str, int] = {}  # wall ns, of those that have not ended

    def run(self) -> ReplayFigures:
        """Replays the whole trace; returns when the last request has ended."""
        while self.step():
            pass
        return self.figures

    def step(self) -> bool:
        """One step of the engine, or the wait for the next arrival; False when there is nothing left."""
        self._arrive()
        if not self.engine.has_work:
            if self._next == len(self.trace):
                self._finish()
                return False
            due_ns = self._begun_ns + self.trace[self._next].arrival_ns
            self.clock.advance_ns(due_ns - self.clock.wall_ns())
            return True
        ended = [output for output in self.engine.step() if output.finish_reason is not None]
        running = len(self.engine.scheduler.running) + len(ended)
        self.figures.max_running = max(self.figures.max_running, running)
        for output in ended:
            self._end(output)
        return True

    def _arrive(self) -> None:
        now_ns = self.clock.wall_ns() - self._begun_ns
        while self._next < len(self.trace) and self.trace[self._next].arrival_ns <= now_ns:
            request, name = self.trace[self._next], str(self._next)
            sampling = SamplingParams(max_tokens=request.output_tokens, ignore_eos=True)
            self._next += 1
            try:
                self.engine.add_request(NewRequest(name, request.prompt_token_ids(), sampling))
                self._arrivals[name] = self._begun_ns + request.arrival_ns
            except UserError:
                self.figures.refused += 1

    def _end(self, output: RequestOutput) -> None:
        request, figures = output.request, self.figures
        assert request is not None, "an output carries its request"
        figures.requests += 1
        figures.prompt_tokens += request.num_prompt_tokens
        figures.output_tokens += request.num_output_tokens
        figures.ttft_s.append((request.first_token_ns - self._arrivals.pop(output.request_id)) / 1e9)

    def _finish(self) -> None:
        engine, figures, stats = self.engine, self.figures, self.engine.prefix_cache.stats
        figures.queried_tokens, figures.hit_tokens = stats.queried_tokens, stats.hit_tokens
        figures.preemptions, figures.steps = engine.scheduler.num_preemptions, engine.step_count
        figures.duration_s = (self.clock.wall_ns() - self._begun_ns) / 1e9
        figures.waste_ratio = engine.manager.slot_use.waste_ratio
