"""A model without a forward pass: tokens out of a hash, time out of a formula.

It lets scheduler, pool and stream run alone, thousands of steps a second: for tests of the bookkeeping, virtual runs of
hours, and traces. What it "generates" depends on the request and the position alone, never on the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from zlib import crc32

from kvxray_engine.clock import VirtualClock
from kvxray_engine.step_batch import NOT_SAMPLED, ScheduledSequence, TokenLogprobs


class NullModel:
    """A `StepModel` of any size. With a `VirtualClock`, each step moves it by `step_ns` + `token_ns` a token."""

    name = "null"
    kv_cache_dtype = "none"
    medium = "GPU"  # of the engine it stands for
    bytes_per_block = bytes_per_block_fp16 = 0
    logprobs: Mapping[str, TokenLogprobs] = MappingProxyType({})  # it has no scores to report

    def __init__(
        self,
        num_blocks: int = 1025,
        block_size: int = 16,
        vocab_size: int = 49152,
        max_model_len: int = 8192,
        eos_token_ids: frozenset[int] = frozenset(),
        clock: VirtualClock | None = None,
        step_ns: int = 20_000_000,
        token_ns: int = 200_000,
    ) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.vocab_size = vocab_size
        self.max_model_len = max_model_len
        self.eos_token_ids = eos_token_ids
        self._clock = clock
        self._step_ns = step_ns
        self._token_ns = token_ns

    def execute(self, batch: Sequence[ScheduledSequence]) -> list[int]:
        if self._clock is not None:
            computed = sum(len(sequence.token_ids) for sequence in batch)
            self._clock.advance_ns(self._step_ns + self._token_ns * computed)
        return [self._token(sequence) if sequence.samples else NOT_SAMPLED for sequence in batch]

    def _token(self, sequence: ScheduledSequence) -> int:
        return crc32(b"%b %d" % (sequence.request_id.encode(), sequence.num_output_tokens)) % self.vocab_size
