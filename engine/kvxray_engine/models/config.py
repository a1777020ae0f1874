"""What shape a model has, and how config.json of Hugging Face names it. No weights, no torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvxray_engine.errors import UserError


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The shape of one model of the Llama family."""

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

    def __post_init__(self) -> None:
        assert self.num_heads % self.num_kv_heads == 0, "each kv head serves the same number of query heads"
        assert self.head_dim % 2 == 0, "rotary positions turn pairs of numbers"

    def save(self, path: Path) -> None:
        """Write config.json as Hugging Face names things."""
        path.write_text(json.dumps(self._to_hf(), indent=2) + "\n")

    @classmethod
    def load(cls, path: Path) -> ModelConfig:
        """Read what `save` wrote. UserError when it is not there or not readable."""
        try:
            return cls._from_hf(json.loads(path.read_text()))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"The model's {path} cannot be read ({_reason(error)}): delete its folder and fetch the model again."
            ) from error

    def _to_hf(self) -> dict[str, Any]:
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
    def _from_hf(cls, hf: dict[str, Any]) -> ModelConfig:
        if hf["model_type"] != "llama":
            raise ValueError(f"it describes a model of type {hf['model_type']}, not llama")
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
