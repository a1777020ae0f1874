"""A model as Hugging Face keeps it: a folder with config.json, safetensors and tokenizer.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from kvxray_engine.models.config import ModelConfig
from kvxray_engine.models.hf_config import CannotRun, config_from_hf
from kvxray_engine.models.hf_tokenizer import read_hf_tokenizer
from kvxray_engine.models.hf_weights import read_hf_weights
from kvxray_engine.models.weights import LlamaWeights
from kvxray_engine.tokenizer import BpeTokenizer


class HfFolder:
    """An opened folder. Everything raises CannotRun, in words for the middle of a sentence."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config: ModelConfig = self._read_config()

    def weights(self, dtype: torch.dtype) -> LlamaWeights:
        return read_hf_weights(self.path, self.config, dtype)

    def tokenizer(self) -> BpeTokenizer:
        return read_hf_tokenizer(self.path, frozenset(self.config.eos_token_ids))

    def _read_config(self) -> ModelConfig:
        try:
            generation = self._json("generation_config.json") if self._has("generation_config.json") else {}
            return config_from_hf(self._json("config.json"), generation, self.path.resolve().name)
        except KeyError as error:
            raise CannotRun(f"its config.json lacks {error}") from error
        except (OSError, ValueError, TypeError, AssertionError) as error:
            raise CannotRun(f"its config.json cannot be read: {str(error).rstrip('.')}") from error

    def _has(self, file: str) -> bool:
        return (self.path / file).exists()

    def _json(self, file: str) -> dict[str, Any]:
        content = json.loads((self.path / file).read_text())
        if not isinstance(content, dict):
            raise TypeError(f"{file} is not a JSON object")
        return content
