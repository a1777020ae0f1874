"""What crosses the line between the scheduler and a model in one step.

The scheduler decides which tokens are computed and where their keys and values live; the model computes them and
samples. This file knows neither: no torch, no block pool. `StepModel` is all the scheduler sees of a model, real or
null.

Slots: the token at position p of a sequence lives in slot `block_table[p // block_size] * block_size + p % block_size`.
Block 0 is the null block: it is never in the block table of a computed token, and slot -1 means "write nothing".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

NOT_SAMPLED = -1


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How a request's next tokens are chosen, and when it ends."""

    temperature: float = 0.0  # 0 = greedy
    top_p: float = 1.0  # keep the smallest set of most likely tokens whose probability reaches this
    seed: int = 0
    max_tokens: int = 16  # output tokens
    stop_token_ids: tuple[int, ...] = ()  # end the request, besides the model's own end-of-text tokens
    ignore_eos: bool = False
    logprobs: int | None = (
        None  # report the chosen token's, and those of so many most likely tokens; None = report none
    )


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Log-probabilities at one position, natural, of the model's scores as they are: no temperature, no top_p."""

    chosen: float
    top: tuple[tuple[int, float], ...] = ()  # (token id, log-probability), the most likely first


@dataclass(slots=True)
class ScheduledSequence:
    """The share of one step that belongs to one sequence: a chunk of prefill, or one decode token.

    Nobody changes one. It is not frozen, because making a frozen one takes four times as long, for each sequence and
    step.
    """

    request_id: str
    token_ids: list[int]  # the tokens computed in this step
    start: int  # tokens whose keys and values are in the cache already: the position of token_ids[0]
    block_table: list[int]  # block ids, enough for start + len(token_ids) tokens
    sampling: SamplingParams
    samples: bool  # the logits of the last token give the next token
    num_output_tokens: int  # output tokens so far: with sampling.seed the whole state of the request's random numbers


class StepModel(Protocol):
    """What the scheduler drives: `ModelRunner` (a real forward pass) or a null model (none)."""

    name: str
    vocab_size: int
    eos_token_ids: frozenset[int]
    max_model_len: int  # tokens, prompt and output together
    block_size: int  # tokens
    num_blocks: int  # the null block included
    bytes_per_block: int  # keys and values of all layers, with their scales
    bytes_per_block_fp16: int  # what they would take in float16
    kv_cache_dtype: str  # such as "float32"
    medium: str  # where the cache is: GPU or CPU

    @property
    def logprobs(self) -> Mapping[str, TokenLogprobs]:
        """Of the last step, by request id, for the sequences that sampled and asked for them."""
        ...

    def execute(self, batch: Sequence[ScheduledSequence]) -> list[int]:
        """Compute one step; return the sampled token of each sequence in order, `NOT_SAMPLED` where `samples` is False.

        Whom a sequence shares the batch with does not change its tokens, but for the last bits of its scores: matrix
        products round differently for other shapes, which tells only where two tokens are all but equally likely.
        """
        ...
