"""What models change about attention: how far it sees, how its scores are bent, and what else takes part."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class AttentionVariant:
    """Of one layer. The default is plain causal attention."""

    scale: float | None = None  # of scores; head_dim ** -0.5 where None
    sliding_window: int | None = None  # a query sees itself and the tokens before it, so many in all
    softcap: float | None = None  # scores become softcap * tanh(score / softcap), as in Gemma 2 (arXiv 2408.00118)
    sinks: torch.Tensor | None = None  # [num_heads]: one more score a head that weighs in with no value, as in gpt-oss

    def __post_init__(self) -> None:
        assert self.sliding_window is None or self.sliding_window > 0, "a query sees at least itself"
        assert self.softcap is None or self.softcap > 0, "a softcap bounds the size of scores"

    def scale_for(self, head_dim: int) -> float:
        return head_dim**-0.5 if self.scale is None else self.scale


PLAIN = AttentionVariant()
