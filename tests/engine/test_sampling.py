"""Sampling: the right distribution, cut where top_p says, and the same numbers whoever else is in the batch."""

import math
from collections import Counter

import pytest
import torch
from kvxray_engine.sampling import LIKELY_TOKENS, logprobs_of, sample, uniform
from kvxray_engine.step_batch import SamplingParams

LOGITS = torch.tensor([2.0, -1.0, 0.5, 3.0, 1.0, -30.0])


def draws(logits: torch.Tensor, params: SamplingParams, count: int) -> Counter[int]:
    """The tokens of one request with these scores at each of its first `count` steps."""
    return Counter(sample(logits[None], [params], [step])[0] for step in range(count))


def test_temperature_zero_takes_the_most_likely_token():
    logits = torch.randn(5, 50, generator=torch.Generator().manual_seed(0))
    assert sample(logits, [SamplingParams()] * 5, [0] * 5) == logits.argmax(-1).tolist()


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.5])
def test_tokens_come_as_often_as_their_probability(temperature):
    count = 4000
    seen = draws(LOGITS, SamplingParams(temperature=temperature), count)
    for token, p in enumerate(torch.softmax(LOGITS.double() / temperature, 0).tolist()):
        deviation = math.sqrt(count * p * (1 - p))
        assert abs(seen[token] - count * p) <= 4 * deviation + 1


def test_top_p_keeps_the_smallest_set_that_reaches_it_and_its_proportions():
    p = torch.tensor([0.5, 0.3, 0.15, 0.05])
    seen = draws(p.log(), SamplingParams(temperature=1.0, top_p=0.75), 4000)
    assert set(seen) == {0, 1}
    assert seen[0] / 4000 == pytest.approx(0.5 / 0.8, abs=0.03)


def test_a_tiny_top_p_and_a_tiny_temperature_are_greedy():
    assert set(draws(LOGITS, SamplingParams(temperature=2.0, top_p=1e-6), 50)) == {3}
    assert set(draws(LOGITS, SamplingParams(temperature=1e-300), 50)) == {3}


def test_top_p_of_a_flat_distribution_reaches_beyond_the_likely_tokens():
    vocab = 4 * LIKELY_TOKENS
    flat = torch.linspace(0.001, 0, vocab)
    seen = draws(flat, SamplingParams(temperature=1.0, top_p=0.5), 300)
    assert max(seen) > LIKELY_TOKENS
    assert max(seen) < vocab * 0.51


def test_extreme_scores_do_no_harm():
    logits = torch.tensor([1e30, -1e30, -math.inf, 0.0])
    assert set(draws(logits, SamplingParams(temperature=1.0), 20)) == {0}


def test_company_in_the_batch_changes_nothing():
    logits = torch.randn(6, 300, generator=torch.Generator().manual_seed(1))
    params = [SamplingParams(temperature=t, top_p=p, seed=s) for t, p, s in
              [(1.0, 1.0, 1), (0.0, 1.0, 0), (0.8, 0.9, 5), (1.0, 0.5, 1), (0.0, 0.9, 3), (2.0, 1.0, 9)]]  # fmt: skip
    steps = [0, 3, 7, 100, 2, 5]
    alone = [sample(logits[i : i + 1], [params[i]], [steps[i]])[0] for i in range(6)]
    assert sample(logits, params, steps) == alone
    assert sample(logits.flip(0), params[::-1], steps[::-1]) == alone[::-1]


def test_another_seed_or_step_draws_another_number_and_the_same_ones_the_same():
    numbers = [uniform(seed, step) for seed in range(40) for step in range(40)]
    assert len(set(numbers)) == len(numbers)
    assert numbers == [uniform(seed, step) for seed in range(40) for step in range(40)]
    assert uniform(-1, 0) != uniform(1, 0)
    assert uniform(2**70 + 1, 0) < 1


def test_random_numbers_are_even_and_do_not_follow_from_step_to_step():
    u = torch.tensor([uniform(11, step) for step in range(20_000)], dtype=torch.float64)
    assert 0 <= u.min() < 0.001
    assert 0.999 < u.max() < 1
    assert u.mean().item() == pytest.approx(0.5, abs=0.01)
    assert torch.histc(u, 10).min() > 1800
    neighbours = torch.corrcoef(torch.stack([u[:-1], u[1:]]))[0, 1]
    assert abs(neighbours) < 0.03


def test_logprobs_are_those_of_the_scores_themselves_and_the_most_likely_come_first():
    logits = torch.tensor([2.0, -1.0, 0.5, 3.0])
    found = logprobs_of(logits, token_id=2, num_top=3)
    expected = torch.log_softmax(logits.double(), 0)
    assert found.chosen == pytest.approx(expected[2].item())
    assert [token for token, _ in found.top] == [3, 0, 2]
    assert [value for _, value in found.top] == pytest.approx(expected[[3, 0, 2]].tolist())


def test_no_more_logprobs_than_tokens_and_none_is_a_number_too_many():
    assert len(logprobs_of(LOGITS, 0, 50).top) == LOGITS.numel()
    assert logprobs_of(LOGITS, 0, 0).top == ()
