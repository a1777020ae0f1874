"""Chooses the next token of each sequence from the model's scores.

A request's random numbers depend on its seed and on how many tokens it has put out, on nothing else: no generator is
kept, so that a preempted request, or one in other company, goes on as it would have.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kvxray_engine.step_batch import SamplingParams, TokenLogprobs

# Most of the probability is nearly always in this many tokens: sorting them alone is 20 times faster.
LIKELY_TOKENS = 1024


def sample(logits: torch.Tensor, params: Sequence[SamplingParams], num_output_tokens: Sequence[int]) -> list[int]:
    """The next token of each row of logits [rows, vocab_size]. Greedy where the temperature is 0; ties go to any."""
    assert logits.shape[0] == len(params) == len(num_output_tokens), "one row of logits for each sequence"
    chosen: list[int] = logits.argmax(dim=-1).tolist()
    for row, (request, step) in enumerate(zip(params, num_output_tokens, strict=True)):
        if request.temperature > 0:
            chosen[row] = _draw(logits[row], request, uniform(request.seed, step))
    return chosen


def logprobs_of(logits: torch.Tensor, token_id: int, num_top: int) -> TokenLogprobs:
    """Log-probabilities of a token and of the `num_top` most likely ones, from one row of logits [vocab_size]."""
    logprobs = torch.log_softmax(logits.double(), dim=-1)
    values, tokens = logprobs.topk(min(num_top, logprobs.numel()))
    return TokenLogprobs(float(logprobs[token_id]), tuple(zip(tokens.tolist(), values.tolist(), strict=True)))


def uniform(seed: int, step: int) -> float:
    """A number in [0, 1), the step-th of this seed (SplitMix64: Steele, Lea and Flood, OOPSLA 2014)."""
    state = (_mix(seed & _MASK) + (step + 1) * 0x9E3779B97F4A7C15) & _MASK
    return (_mix(state) >> 11) / 2**53  # the 53 bits that a float holds, so that it never rounds up to 1


def _draw(logits: torch.Tensor, request: SamplingParams, u: float) -> int:
    """Inverse of the cumulative distribution at u; float64, so that many small probabilities still add up."""
    assert 0 < request.top_p <= 1, "top_p is a share of the probability"
    scaled = logits.double()
    probabilities = torch.softmax((scaled - scaled.max()) / request.temperature, dim=-1)
    if request.top_p == 1:
        return _invert(probabilities.cumsum(0), u)
    likely, tokens = probabilities.topk(min(LIKELY_TOKENS, probabilities.numel()))
    cumulative = likely.cumsum(0)
    if cumulative[-1] < request.top_p:
        likely, tokens = probabilities.sort(descending=True)
        cumulative = likely.cumsum(0)
    kept = int((cumulative < request.top_p).sum()) + 1  # the token that reaches top_p is the last
    return int(tokens[_invert(cumulative[:kept], u)])


def _invert(cumulative: torch.Tensor, u: float) -> int:
    """The index whose share of the total contains u."""
    index = int(torch.searchsorted(cumulative, u * float(cumulative[-1]), right=True))
    return min(index, cumulative.numel() - 1)


_MASK = 2**64 - 1


def _mix(z: int) -> int:
    """The finaliser of SplitMix64: every bit of the input moves half the bits of the output."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)
