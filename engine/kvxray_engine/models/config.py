"""What shape a model has, and the config.json that our own folders keep of it. No weights, no torch."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from kvxray_engine.errors import UserError

_COUNTS = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "max_position_embeddings",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How the frequencies of rotary positions are changed so that a model reads further than it was trained to.

    linear: all are divided by `factor`. llama3: low ones are, high ones are kept, those between are blended; high and
    low are counted in turns over `original_max_model_len` tokens.
    """

    kind: Literal["linear", "llama3"]
    factor: float
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_model_len: int = 8192


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The shape of one model of the Llama family: Llama itself, Qwen2 (biases), Qwen3 (norms on queries and keys)."""

    name: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_model_len: int  # tokens
    rope_theta: float
    rms_norm_eps: float
    tie_word_embeddings: bool  # the embedding is also the output head
    eos_token_ids: tuple[int, ...]
    bos_token_id: int | None = None
    qkv_bias: bool = False
    attention_out_bias: bool = False
    qk_norm: bool = False  # queries and keys are normalised, head by head, before they are turned
    rope_scaling: RopeScaling | None = None

    def __post_init__(self) -> None:
        assert self.num_heads % self.num_kv_heads == 0, "each kv head serves the same number of query heads"
        assert self.head_dim % 2 == 0, "rotary positions turn pairs of numbers"

    def save(self, path: Path) -> None:
        """Write config.json as Hugging Face names things. Plain Llamas only: that is all we convert and keep."""
        plain = replace(self, qkv_bias=False, attention_out_bias=False, qk_norm=False, rope_scaling=None)
        assert self == plain, "this file has no room for what sets the model apart from a Llama"
        path.write_text(json.dumps(self._saved(), indent=2) + "\n")

    @classmethod
    def load(cls, path: Path) -> ModelConfig:
        """Read what `save` wrote. UserError when it is not there or not readable."""
        try:
            return cls._from_saved(json.loads(path.read_text()))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"The model's {path} cannot be read ({_reason(error)}): delete its folder and fetch the model again."
            ) from error

    def _saved(self) -> dict[str, Any]:
        return {
            "model_type": "llama",
            "name": self.name,
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_layers,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.num_kv_heads,
            "head_dim": self.head_dim,
            "max_position_embeddings": self.max_model_len,
            "rope_theta": self.rope_theta,
            "rms_norm_eps": self.rms_norm_eps,
            "tie_word_embeddings": self.tie_word_embeddings,
            "eos_token_id": list(self.eos_token_ids),
            "bos_token_id": self.bos_token_id,
        }

    @classmethod
    def _from_saved(cls, hf: dict[str, Any]) -> ModelConfig:
        if hf["model_type"] != "llama":
            raise ValueError(f"it describes a model of type {hf['model_type']}, not llama")
        for key in _COUNTS:
            if type(hf[key]) is not int or hf[key] < 1:
                raise ValueError(f"its {key} is {hf[key]!r}")
        if hf["num_attention_heads"] % hf["num_key_value_heads"] or hf["head_dim"] % 2:
            raise ValueError("its numbers of heads do not fit each other")
        return cls(
            name=hf["name"],
            vocab_size=hf["vocab_size"],
            hidden_size=hf["hidden_size"],
            intermediate_size=hf["intermediate_size"],
            num_layers=hf["num_hidden_layers"],
            num_heads=hf["num_attention_heads"],
            num_kv_heads=hf["num_key_value_heads"],
            head_dim=hf["head_dim"],
            max_model_len=hf["max_position_embeddings"],
            rope_theta=hf["rope_theta"],
            rms_norm_eps=hf["rms_norm_eps"],
            tie_word_embeddings=hf["tie_word_embeddings"],
            eos_token_ids=tuple(hf["eos_token_id"]),
            bos_token_id=hf["bos_token_id"],
        )


def _reason(error: Exception) -> str:
    """The error in a few words, for the middle of a sentence."""
    return f"no {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
