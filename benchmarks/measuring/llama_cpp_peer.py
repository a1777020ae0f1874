"""llama.cpp on one prompt, through llama_cpp. Imported only where that is installed."""

from __future__ import annotations

import time
from collections.abc import Sequence

import llama_cpp


class LlamaCppDecode:
    """A prompt that is continued from anew in every round; only the steps after it are timed."""

    def __init__(self, path: str, prompt: Sequence[int], most_steps: int, threads: int) -> None:
        self._llama = llama_cpp.Llama(
            model_path=path, n_ctx=len(prompt) + most_steps + 1, n_threads=threads, n_threads_batch=threads,
            verbose=False,
        )  # fmt: skip
        self._prompt = list(prompt)
        self.tokens: list[list[int]] = []

    def run(self, steps: int) -> list[float]:
        """Seconds of each step."""
        self._llama.reset()
        self._llama.eval(self._prompt)
        tokens = [int(self._llama.sample(temp=0.0))]
        seconds = []
        for _ in range(steps):
            begin = time.perf_counter()
            self._llama.eval([tokens[-1]])
            tokens.append(int(self._llama.sample(temp=0.0)))
            seconds.append(time.perf_counter() - begin)
        self.tokens = [tokens]
        return seconds
