"""Sequences that decode together in the model runner: their prompts are computed once, their steps as often as wanted.

The runner is given what the scheduler would give it. The scheduler itself is left out: it takes a few dozen
microseconds a step, steps take tens of milliseconds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from kvxray_engine.model_runner import ModelRunner
from kvxray_engine.step_batch import SamplingParams, ScheduledSequence

CHUNK = 512  # tokens of a prompt in one step
GREEDY = SamplingParams()


class DecodeBatch:
    """Prompts in blocks of their own, decoded greedily."""

    def __init__(
        self,
        runner: ModelRunner,
        prompts: Sequence[Sequence[int]],
        block_tables: Sequence[list[int]],
        computed: Sequence[int] | None = None,
    ) -> None:
        """Computes the prompts but for the tokens of each that are in its blocks already: `computed`."""
        self._runner = runner
        self._tables = block_tables
        self._prompt_lens = [len(prompt) for prompt in prompts]
        done = computed or [0] * len(prompts)
        self._first = [self._prefill(i, prompts[i], done[i]) for i in range(len(prompts))]
        self.tokens: list[list[int]] = []  # of each prompt in the last round

    def run(self, steps: int) -> list[float]:
        """Seconds of each step; every round begins after the prompts again."""
        self.tokens = [[token] for token in self._first]
        seconds = []
        for step in range(steps):
            batch = [
                ScheduledSequence(str(i), [tokens[-1]], self._prompt_lens[i] + step, self._tables[i], GREEDY, True, 0)
                for i, tokens in enumerate(self.tokens)
            ]
            begin = time.perf_counter()
            new = self._runner.execute(batch)
            seconds.append(time.perf_counter() - begin)
            for tokens, token in zip(self.tokens, new, strict=True):
                tokens.append(token)
        return seconds

    def _prefill(self, i: int, prompt: Sequence[int], computed: int) -> int:
        """The first token after the prompt."""
        token = -1
        for start in range(computed, len(prompt), CHUNK):
            chunk = list(prompt[start : start + CHUNK])
            last = start + len(chunk) == len(prompt)
            (token,) = self._runner.execute([ScheduledSequence(str(i), chunk, start, self._tables[i], GREEDY, last, 0)])
        return token
