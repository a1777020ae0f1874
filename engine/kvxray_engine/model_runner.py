"""Runs one step of a real model: from what the scheduler decided to tensors, and from scores to tokens.

Knows the batch, the block tables and the slots. It keeps nothing between steps but the log-probabilities of the last:
keys and values live in the attention backend, everything about a request in its `ScheduledSequence`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from kvxray_kernels.backend import NULL_BLOCK, AttentionBackend, AttentionMetadata
from kvxray_kernels.cache_format import FLOAT16

from kvxray_engine.models.llama import LlamaModel
from kvxray_engine.sampling import logprobs_of, sample
from kvxray_engine.step_batch import NOT_SAMPLED, ScheduledSequence, TokenLogprobs


@dataclass(frozen=True, slots=True)
class StepTensors:
    """A batch as the model reads it: the tokens of all sequences side by side."""

    token_ids: torch.Tensor  # int64 [tokens]
    positions: torch.Tensor  # int64 [tokens]
    slot_mapping: torch.Tensor  # int64 [tokens]
    metadata: AttentionMetadata
    last_tokens: torch.Tensor  # int64: the row of the last token of each sequence that samples


class ModelRunner:
    """A `StepModel` with a forward pass."""

    def __init__(self, model: LlamaModel, backend: AttentionBackend) -> None:
        config, shape = model.config, backend.shape
        self.model = model
        self.backend = backend
        self.name = config.name
        self.vocab_size = config.vocab_size
        self.eos_token_ids = frozenset(config.eos_token_ids)
        self.max_model_len = config.max_model_len
        self.block_size = shape.block_size
        self.num_blocks = shape.num_blocks
        self.bytes_per_block = shape.bytes_per_block(backend.cache_format)
        self.bytes_per_block_fp16 = shape.bytes_per_block(FLOAT16)
        self.kv_cache_dtype = backend.cache_format.name
        self.medium = "CPU" if backend.key_cache.device.type == "cpu" else "GPU"
        self.logprobs: dict[str, TokenLogprobs] = {}

    @torch.inference_mode()
    def execute(self, batch: Sequence[ScheduledSequence]) -> list[int]:
        """Compute one step; the sampled token of each sequence in order, `NOT_SAMPLED` where it does not sample."""
        self.logprobs = {}
        if not batch:
            return []
        # Decodes first and by length, which is how a backend serves them best; results go back to their places.
        order = sorted(range(len(batch)), key=lambda i: (len(batch[i].token_ids) > 1, batch[i].start))
        ordered = [batch[i] for i in order]
        tokens = [NOT_SAMPLED] * len(batch)
        for i, token in zip((i for i in order if batch[i].samples), self._step(ordered), strict=True):
            tokens[i] = token
        return tokens

    def check_integrity(self) -> None:
        """Assert that the cache is still the one that was made."""
        self.backend.check_integrity()

    def _step(self, batch: list[ScheduledSequence]) -> list[int]:
        """The tokens of those that sample, in order."""
        step = self._tensors(batch)
        hidden = self.model.forward(step.token_ids, step.positions, step.slot_mapping, step.metadata, self.backend)
        sampling = [s for s in batch if s.samples]
        if not sampling:
            return []
        logits = self.model.logits(hidden[step.last_tokens])
        tokens = sample(logits, [s.sampling for s in sampling], [s.num_output_tokens for s in sampling])
        for row, (sequence, token) in enumerate(zip(sampling, tokens, strict=True)):
            if sequence.sampling.logprobs is not None:
                self.logprobs[sequence.request_id] = logprobs_of(logits[row], token, sequence.sampling.logprobs)
        return tokens

    def _tensors(self, batch: list[ScheduledSequence]) -> StepTensors:
        token_ids: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        last_tokens: list[int] = []
        for sequence in batch:
            token_ids += sequence.token_ids
            positions += range(sequence.start, sequence.start + len(sequence.token_ids))
            slots += self._slots(sequence)
            if sequence.samples:
                last_tokens.append(len(token_ids) - 1)
        metadata = self.backend.build_metadata(
            [len(s.token_ids) for s in batch],
            [s.start + len(s.token_ids) for s in batch],
            [s.block_table for s in batch],
        )
        device = self.backend.device
        return StepTensors(
            torch.tensor(token_ids, device=device),
            torch.tensor(positions, device=device),
            torch.tensor(slots, device=device),
            metadata,
            torch.tensor(last_tokens, dtype=torch.int64, device=device),
        )

    def _slots(self, sequence: ScheduledSequence) -> list[int]:
        """Where the keys and values of this step's tokens go."""
        size, table = self.block_size, sequence.block_table
        end = sequence.start + len(sequence.token_ids)
        assert end <= self.max_model_len, f"{sequence.request_id} is longer than the model can be"
        slots = [table[p // size] * size + p % size for p in range(sequence.start, end)]
        assert min(slots) >= (NULL_BLOCK + 1) * size, f"{sequence.request_id} would write to the null block"
        return slots
