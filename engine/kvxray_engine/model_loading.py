"""Loads a model to run it: a built-in one by name, a GGUF file, or a Hugging Face folder; and gives it a KV cache.

Loading and the cache are two steps, since how many blocks fit depends on what the weights take.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch
from kvxray_kernels.backend import CacheShape
from kvxray_kernels.torch_backend import TorchBackend

from kvxray_engine.errors import UserError
from kvxray_engine.model_runner import ModelRunner
from kvxray_engine.model_store import MODEL_NAMES, damaged_smollm2_folder, smollm2_folder
from kvxray_engine.models.checkpoint import read_checkpoint
from kvxray_engine.models.config import ModelConfig
from kvxray_engine.models.gguf_tokenizer import gguf_tokenizer
from kvxray_engine.models.gguf_weights import GgufFile
from kvxray_engine.models.hf_config import CannotRun
from kvxray_engine.models.hf_folder import HfFolder
from kvxray_engine.models.llama import LlamaModel
from kvxray_engine.models.tiny import tiny_config, tiny_weights
from kvxray_engine.models.weights import LlamaWeights
from kvxray_engine.tokenizer import BpeTokenizer, ByteTokenizer, Tokenizer

DTYPES: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16}
DEFAULT_CACHE_BYTES: Final = 1 << 30
MAX_DEFAULT_BLOCKS: Final = 4096
"""More than this nobody wants who did not say so: the tiny model's blocks are a few kilobytes each."""


@dataclass(frozen=True, slots=True)
class OpenModel:
    """Weights and tokenizer, without a cache yet."""

    model: LlamaModel
    tokenizer: Tokenizer

    def cache_shape(self, num_blocks: int, block_size: int) -> CacheShape:
        config = self.model.config
        return CacheShape(config.num_layers, num_blocks, block_size, config.num_kv_heads, config.head_dim)

    def bytes_per_block(self, block_size: int, kv_cache_dtype: str) -> int:
        return self.cache_shape(1, block_size).bytes_per_block(_dtype(kv_cache_dtype))

    def default_num_blocks(self, block_size: int, kv_cache_dtype: str) -> int:
        """A gibibyte's worth, within reason; the null block included."""
        fitting = DEFAULT_CACHE_BYTES // self.bytes_per_block(block_size, kv_cache_dtype)
        return max(2, min(fitting, MAX_DEFAULT_BLOCKS))

    def num_blocks_within(self, memory_share: float, block_size: int, kv_cache_dtype: str) -> int:
        """Blocks that fit this share of the machine's memory beside the weights. UserError when none does."""
        room = int(memory_share * physical_memory()) - self.model.weights.num_bytes
        blocks = room // self.bytes_per_block(block_size, kv_cache_dtype)
        if blocks < 2:
            raise UserError(
                f"{memory_share:g} of this machine's {physical_memory() / 1e9:.1f} GB has no room for a cache beside "
                f"the weights ({self.model.weights.num_bytes / 1e9:.1f} GB): raise --gpu-memory-utilization."
            )
        return blocks

    def with_cache(self, num_blocks: int, block_size: int, kv_cache_dtype: str) -> ModelRunner:
        """Ready to run, with an empty cache of num_blocks (the null block included). UserError when it is too large."""
        dtype = _dtype(kv_cache_dtype)
        shape = self.cache_shape(num_blocks, block_size)
        # Asked before it is taken: the system promises more memory than it has, and ends the process when it is used.
        needed, present = shape.bytes_per_block(dtype) * num_blocks, physical_memory()
        if needed > present:
            raise UserError(
                f"A cache of {num_blocks} blocks needs {needed / 1e9:.1f} GB of memory and this machine has "
                f"{present / 1e9:.1f} GB: ask for fewer blocks."
            )
        return ModelRunner(self.model, TorchBackend(shape, dtype))


def open_model(name: str, dtype: str = "float32", max_model_len: int | None = None) -> OpenModel:
    """A built-in model by name, else the GGUF file or the Hugging Face folder at that path.

    `max_model_len`: read no longer texts than this; a model that claims more than anybody needs is then cheaper.
    UserError: no such model, SmolLM2 not fetched, a damaged or foreign file, a model that cannot be run.
    """
    config, weights, tokenizer = _load(name, _dtype(dtype))
    if max_model_len is not None and max_model_len < config.max_model_len:
        config = replace(config, max_model_len=max_model_len)
    return OpenModel(LlamaModel(config, weights), tokenizer)


def load_model(
    name: str, num_blocks: int, block_size: int = 16, dtype: str = "float32"
) -> tuple[ModelRunner, Tokenizer]:
    """A model with an empty KV cache of num_blocks (the null block included) in its own dtype. UserError as above."""
    opened = open_model(name, dtype)
    return opened.with_cache(num_blocks, block_size, dtype), opened.tokenizer


def physical_memory() -> int:
    """Bytes of memory in this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _dtype(name: str) -> torch.dtype:
    if name not in DTYPES:
        raise UserError(f"There is no dtype called {name}: choose {' or '.join(DTYPES)}.")
    return DTYPES[name]


def _load(name: str, dtype: torch.dtype) -> tuple[ModelConfig, LlamaWeights, Tokenizer]:
    if name == "tiny":
        config = tiny_config()
        return config, tiny_weights(config, dtype), ByteTokenizer()
    if name == "smollm2":
        return _load_smollm2(dtype)
    path = Path(name).expanduser()
    if path.is_dir():
        return _load_folder(path, dtype)
    if path.is_file():
        return _load_gguf(path, dtype)
    raise UserError(
        f"There is no model called {name}: choose {' or '.join(MODEL_NAMES)}, or name a GGUF file or a Hugging Face "
        "folder that is there."
    )


def _load_smollm2(dtype: torch.dtype) -> tuple[ModelConfig, LlamaWeights, Tokenizer]:
    folder = smollm2_folder()
    if folder is None:
        if damaged := damaged_smollm2_folder():
            raise UserError(
                f"The model in {damaged} is damaged: remove that folder and run `kvxray model fetch` again."
            )
        raise UserError("SmolLM2 is not on this machine yet: run `kvxray model fetch`, or choose the model tiny.")
    config = ModelConfig.load(folder / "config.json")
    weights = read_checkpoint(folder / "model.safetensors", config, dtype)
    return config, weights, BpeTokenizer.load(folder, frozenset(config.eos_token_ids))


def _load_folder(path: Path, dtype: torch.dtype) -> tuple[ModelConfig, LlamaWeights, Tokenizer]:
    try:
        folder = HfFolder(path)
        return folder.config, folder.weights(dtype), folder.tokenizer()
    except CannotRun as error:
        raise UserError(f"The model in {path} cannot be run ({error}): name another.") from error


def _load_gguf(path: Path, dtype: torch.dtype) -> tuple[ModelConfig, LlamaWeights, Tokenizer]:
    file = GgufFile(path)
    config = file.config(path.stem)
    tensors = {name: tensor.to(dtype) for name, tensor in file.tensors(config)}
    return config, LlamaWeights.from_tensors(config, tensors), gguf_tokenizer(file)
