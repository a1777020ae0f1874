"""A test's stand-in for the scheduler: gives each prompt its blocks, in random order, and steps until all are done."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from kvxray_engine.model_runner import ModelRunner
from kvxray_engine.step_batch import SamplingParams, ScheduledSequence


@dataclass
class Running:
    tokens: list[int]
    prompt_len: int
    sampling: SamplingParams
    block_table: list[int]
    computed: int = 0
    scheduled: int = 0

    @property
    def output(self) -> list[int]:
        return self.tokens[self.prompt_len :]

    def next_chunk(self, request_id: str, chunk: int) -> ScheduledSequence:
        new = self.tokens[self.computed : self.computed + chunk]
        self.scheduled = len(new)
        samples = self.computed + len(new) == len(self.tokens)
        return ScheduledSequence(
            request_id, new, self.computed, self.block_table, self.sampling, samples, len(self.output)
        )


@dataclass
class Driver:
    """Runs requests together: `chunk` tokens of each a step, so that prefill and decode meet in one batch."""

    runner: ModelRunner
    chunk: int = 512
    running: list[Running] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free = list(range(1, self.runner.num_blocks))
        random.Random(0).shuffle(self.free)

    def add(self, prompt: Sequence[int], sampling: SamplingParams, block_table: Sequence[int] = (), computed: int = 0):
        """A request; blocks named in `block_table` are used as they are, `computed` tokens of it are there already."""
        blocks = -(-(len(prompt) + sampling.max_tokens) // self.runner.block_size)
        table = [*block_table, *(self.free.pop() for _ in range(blocks - len(block_table)))]
        self.running.append(Running(list(prompt), len(prompt), sampling, table, computed))
        return self.running[-1]

    def step(self) -> None:
        live = [r for r in self.running if len(r.output) < r.sampling.max_tokens]
        batch = [r.next_chunk(str(i), self.chunk) for i, r in enumerate(live)]
        for running, scheduled, token in zip(live, batch, self.runner.execute(batch), strict=True):
            running.computed += running.scheduled
            assert (token >= 0) == scheduled.samples
            if scheduled.samples:
                running.tokens.append(token)
        self.runner.check_integrity()

    def run(self) -> list[list[int]]:
        while any(len(r.output) < r.sampling.max_tokens for r in self.running):
            self.step()
        return [r.output for r in self.running]


def generate(runner: ModelRunner, prompts: Sequence[Sequence[int]], sampling: SamplingParams, chunk: int = 512):
    """The output tokens of prompts that run together."""
    driver = Driver(runner, chunk)
    for prompt in prompts:
        driver.add(prompt, sampling)
    return driver.run()


def generate_alone(runner: ModelRunner, prompts: Sequence[Sequence[int]], sampling: SamplingParams, chunk: int = 512):
    """The output tokens of prompts that run one after the other."""
    return [generate(runner, [prompt], sampling, chunk)[0] for prompt in prompts]
