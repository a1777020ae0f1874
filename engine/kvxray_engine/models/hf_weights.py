"""Reads the weights of a Hugging Face folder: one safetensors file or several with an index, fused into our tensors.

Files are mapped; beside the result only the parts of one fused tensor are held. A tensor that the model does not need
is as much an error as one that is missing.
"""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open

from kvxray_engine.models.config import ModelConfig
from kvxray_engine.models.hf_config import CannotRun
from kvxray_engine.models.weights import HEAD, LlamaWeights, tensor_shapes

INDEX: Final = "model.safetensors.index.json"
SINGLE: Final = "model.safetensors"

# Our fused matrices, and the parts that Hugging Face keeps, in the order of their rows.
FUSED: Final = {
    "self_attn.qkv_proj": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "mlp.gate_up_proj": ("mlp.gate_proj", "mlp.up_proj"),
}
# Kept in some folders although it follows from the config.
_DERIVED: Final = re.compile(r"\.rotary_emb\.inv_freq$")


def read_hf_weights(folder: Path, config: ModelConfig, dtype: torch.dtype) -> LlamaWeights:
    """All tensors of the model in this dtype. Raises CannotRun where they are not those that the config speaks of."""
    shapes = tensor_shapes(config)
    try:
        with _Shards(folder) as shards:
            _check_names(config, shards)
            tensors = {name: _tensor(shards, name, dtype) for name in shapes}
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise CannotRun(f"its weights cannot be read: {str(error).rstrip('.')}") from error
    for name, shape in shapes.items():
        if tuple(tensors[name].shape) != shape:
            raise CannotRun(f"{name} has the shape {tuple(tensors[name].shape)}, and its config asks for {shape}")
    return LlamaWeights.from_tensors(config, tensors)


class _Shards:
    """The files of a folder, opened when first needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._open: dict[str, Any] = {}
        self.file_of = self._index() if (folder / INDEX).exists() else self._single()

    def __enter__(self) -> _Shards:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def get(self, name: str) -> torch.Tensor:
        tensor: torch.Tensor = self._file(self.file_of[name]).get_tensor(name)
        return tensor

    def _index(self) -> dict[str, str]:
        files: dict[str, str] = json.loads((self._folder / INDEX).read_text())["weight_map"]
        for file in sorted(set(files.values())):
            if Path(file).name != file:
                raise CannotRun(f"its index names a file outside the folder ({file})")
            if not (self._folder / file).exists():
                raise CannotRun(f"its index names {file}, which is not there")
        return files

    def _single(self) -> dict[str, str]:
        if not (self._folder / SINGLE).exists():
            raise CannotRun(f"it has neither {SINGLE} nor {INDEX}")
        return dict.fromkeys(self._file(SINGLE).keys(), SINGLE)

    def _file(self, name: str) -> Any:
        if name not in self._open:
            self._open[name] = self._stack.enter_context(safe_open(self._folder / name, framework="pt", device="cpu"))
        return self._open[name]


def _check_names(config: ModelConfig, shards: _Shards) -> None:
    needed = {part for name in tensor_shapes(config) for part in _parts(name)}
    there = {name for name in shards.file_of if not _DERIVED.search(name)}
    if config.tie_word_embeddings:
        there.discard(HEAD)  # a copy of the embedding, in some folders
    for name in sorted(needed - there):
        raise CannotRun(f"the tensor {name} is missing")
    for name in sorted(there - needed):
        raise CannotRun(f"it has a tensor {name}, which nothing would use")


def _tensor(shards: _Shards, name: str, dtype: torch.dtype) -> torch.Tensor:
    parts = [shards.get(part).to(dtype) for part in _parts(name)]
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def _parts(name: str) -> list[str]:
    """The tensors of the folder that make up one of ours."""
    for fused, parts in FUSED.items():
        if f".{fused}." in name:
            return [name.replace(fused, part) for part in parts]
    return [name]
