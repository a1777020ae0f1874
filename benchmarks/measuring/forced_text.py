"""What a model thinks of a text that it is given: its scores after every token, against those over another cache."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from kvxray_engine.model_runner import ModelRunner


@torch.inference_mode()
def scores(runner: ModelRunner, token_ids: Sequence[int], chunk: int) -> Iterator[torch.Tensor]:
    """Logits [tokens, vocab_size] after each token, a chunk at a time; all that is attended over was in the cache."""
    backend, device = runner.backend, runner.backend.device
    table = list(range(1, backend.num_blocks_for(len(token_ids)) + 1))
    for start in range(0, len(token_ids), chunk):
        tokens = token_ids[start : start + chunk]
        positions = torch.arange(start, start + len(tokens), device=device)
        metadata = backend.build_metadata([len(tokens)], [start + len(tokens)], [table])
        slots = positions + runner.block_size  # the table is in order, and block 0 is the null block
        hidden = runner.model.forward(torch.tensor(tokens, device=device), positions, slots, metadata, backend)
        yield runner.model.logits(hidden).float()


@dataclass(slots=True)
class Comparison:
    """Sums over the positions of a text. Scores count less their mean, since only their differences mean anything."""

    positions: int = 0
    scored: int = 0  # positions whose next token is in the text
    values: int = 0
    max_abs: float = 0.0
    sum_abs: float = 0.0
    sum_squares: float = 0.0
    sum_squares_exact: float = 0.0
    equal_choices: int = 0
    log_loss: float = 0.0

    def add(self, exact: torch.Tensor, logits: torch.Tensor, following: Sequence[int]) -> None:
        """`following`: the token after each row; one less than rows where the text ends."""
        centred = exact - exact.mean(-1, keepdim=True)
        error = logits - logits.mean(-1, keepdim=True) - centred
        self.positions += len(logits)
        self.values += logits.numel()
        self.max_abs = max(self.max_abs, float(error.abs().max()))
        self.sum_abs += float(error.abs().sum(dtype=torch.float64))
        self.sum_squares += float(error.square().sum(dtype=torch.float64))
        self.sum_squares_exact += float(centred.square().sum(dtype=torch.float64))
        self.equal_choices += int((logits.argmax(-1) == exact.argmax(-1)).sum())
        self._add_loss(logits, following)

    def figures(self) -> dict[str, float]:
        return {
            "logit_error_max": self.max_abs,
            "logit_error_mean": self.sum_abs / self.values,
            "logit_error_relative_rms": math.sqrt(self.sum_squares / self.sum_squares_exact),
            "greedy_agreement_ratio": self.equal_choices / self.positions,
            "perplexity": math.exp(self.log_loss / self.scored),
        }

    def _add_loss(self, logits: torch.Tensor, following: Sequence[int]) -> None:
        rows = logits[: len(following)]
        if following:
            target = torch.tensor(following, device=rows.device)
            self.log_loss += float(torch.nn.functional.cross_entropy(rows, target, reduction="sum"))
            self.scored += len(following)
