"""Loads a model to run it: a built-in one by name, a GGUF file, or a Hugging Face folder; and gives it a KV cache.

Loading and the cache are two steps, since how many blocks fit depends on what the weights take.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch
from kvxray_kernels.backend import AttentionBackend, CacheShape
from kvxray_kernels.backend_choice import make_backend
from kvxray_kernels.cache_format import CACHE_FORMATS, CacheFormat

from kvxray_engine.device import CPU, free_memory, owner_of_memory, total_memory, why_no_cache
from kvxray_engine.dtypes import AUTO, CACHE_DTYPE_CHOICES, CACHE_DTYPES
from kvxray_engine.errors import UserError
from kvxray_engine.model_runner import ModelRunner
from kvxray_engine.model_store import MODEL_NAMES, damaged_smollm2_folder, smollm2_folder
from kvxray_engine.models.checkpoint import read_checkpoint
from kvxray_engine.models.config import ModelConfig
from kvxray_engine.models.gguf_tokenizer import gguf_tokenizer
from kvxray_engine.models.gguf_weights import GgufFile
from kvxray_engine.models.hf_config import CannotRun
from kvxray_engine.models.hf_folder import HfFolder
from kvxray_engine.models.linear import QUANTIZATIONS, Int8Linear, packed_linear
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
    """Weights and tokenizer, without a cache yet. A cache dtype is any name of `dtypes`; auto: the model's own."""

    model: LlamaModel
    tokenizer: Tokenizer
    device: torch.device = CPU

    def cache_shape(self, num_blocks: int, block_size: int) -> CacheShape:
        config = self.model.config
        return CacheShape(config.num_layers, num_blocks, block_size, config.num_kv_heads, config.head_dim)

    def cache_format(self, kv_cache_dtype: str) -> CacheFormat:
        """UserError: no such cache dtype, or not for this model."""
        name = str(self.model.dtype).removeprefix("torch.") if kv_cache_dtype == AUTO else kv_cache_dtype
        if name not in CACHE_DTYPES:
            raise UserError(f"There is no cache dtype called {kv_cache_dtype}: choose {CACHE_DTYPE_CHOICES}.")
        cache_format, head_dim = CACHE_FORMATS[CACHE_DTYPES[name]], self.model.config.head_dim
        if head_dim % cache_format.values_per_item:
            raise UserError(
                f"The cache dtype {name} keeps {cache_format.values_per_item} numbers in a byte, and this model's "
                f"heads have {head_dim}: choose another."
            )
        if reason := why_no_cache(self.device, cache_format, head_dim):
            raise UserError(reason)
        return cache_format

    def bytes_per_block(self, block_size: int, kv_cache_dtype: str) -> int:
        return self.cache_shape(1, block_size).bytes_per_block(self.cache_format(kv_cache_dtype))

    def default_num_blocks(self, block_size: int, kv_cache_dtype: str) -> int:
        """A gibibyte's worth, within reason; the null block included."""
        fitting = DEFAULT_CACHE_BYTES // self.bytes_per_block(block_size, kv_cache_dtype)
        return max(2, min(fitting, MAX_DEFAULT_BLOCKS))

    def num_blocks_within(self, memory_share: float, block_size: int, kv_cache_dtype: str) -> int:
        """Blocks that fit this share of the device's memory beside the weights. UserError when none does."""
        present, weights = total_memory(self.device), self.model.num_bytes
        room = min(int(memory_share * present) - weights, free_memory(self.device))
        blocks = room // self.bytes_per_block(block_size, kv_cache_dtype)
        if blocks < 2:
            raise UserError(
                f"{memory_share:g} of {owner_of_memory(self.device)}'s {present / 1e9:.1f} GB has no room for a cache "
                f"beside the weights ({weights / 1e9:.1f} GB): raise --gpu-memory-utilization."
            )
        return blocks

    def with_cache(self, num_blocks: int, block_size: int, kv_cache_dtype: str) -> ModelRunner:
        """Ready to run, with an empty cache of num_blocks (the null block included). UserError when it is too large."""
        cache_format = self.cache_format(kv_cache_dtype)
        shape = self.cache_shape(num_blocks, block_size)
        # Asked before it is taken: the system promises more memory than it has, and ends the process when it is used.
        needed, present = shape.bytes_per_block(cache_format) * num_blocks, free_memory(self.device)
        if needed > present:
            raise UserError(
                f"A cache of {num_blocks} blocks needs {needed / 1e9:.1f} GB of memory and "
                f"{owner_of_memory(self.device)} has {present / 1e9:.1f} GB: ask for fewer blocks."
            )
        return ModelRunner(self.model, self._backend(shape, cache_format))

    def _backend(self, shape: CacheShape, cache_format: CacheFormat) -> AttentionBackend:
        """What is quantised comes back as what the model computes in."""
        dtype = self.model.dtype if cache_format.is_quantised else None
        return make_backend(shape, cache_format, dtype, self.device)


def open_model(
    name: str,
    dtype: str = "float32",
    max_model_len: int | None = None,
    device: torch.device = CPU,
    quantization: str | None = None,
) -> OpenModel:
    """A built-in model by name, else the GGUF file or the Hugging Face folder at that path.

    `quantization`: of the layers' matrices; None = as they are, or one of `linear.QUANTIZATIONS`.
    `max_model_len`: read no longer texts than this; a model that claims more than anybody needs is then cheaper.
    UserError: no such model, SmolLM2 not fetched, a damaged or foreign file, a model that cannot be run.
    """
    _check_quantization(quantization)
    config, weights, tokenizer = _load(name, _dtype(dtype))
    if max_model_len is not None and max_model_len < config.max_model_len:
        config = replace(config, max_model_len=max_model_len)
    model = LlamaModel(config, weights.to(device), Int8Linear if quantization == "int8" else packed_linear)
    if name == "smollm2" and weights.embedding.dtype == torch.float32 and device == CPU:
        # To pack them, all weights were read into memory: a new mapping of their file begins with nothing of it there.
        model.weights = _smollm2_weights(config, torch.float32)
    if quantization is not None:
        model.release_matrices()
    return OpenModel(model, tokenizer, device)


def load_model(
    name: str, num_blocks: int, block_size: int = 16, dtype: str = "float32"
) -> tuple[ModelRunner, Tokenizer]:
    """A model with an empty KV cache of num_blocks (the null block included) in its own dtype. UserError as above."""
    opened = open_model(name, dtype)
    return opened.with_cache(num_blocks, block_size, dtype), opened.tokenizer


def _dtype(name: str) -> torch.dtype:
    if name not in DTYPES:
        raise UserError(f"There is no dtype called {name}: choose {' or '.join(DTYPES)}.")
    return DTYPES[name]


def _check_quantization(name: str | None) -> None:
    if name is not None and name not in QUANTIZATIONS:
        raise UserError(f"There is no quantisation of weights called {name}: choose {' or '.join(QUANTIZATIONS)}.")


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
    folder = _smollm2_folder()
    config = ModelConfig.load(folder / "config.json")
    tokenizer = BpeTokenizer.load(folder, frozenset(config.eos_token_ids))
    return config, _smollm2_weights(config, dtype), tokenizer


def _smollm2_weights(config: ModelConfig, dtype: torch.dtype) -> LlamaWeights:
    return read_checkpoint(_smollm2_folder() / "model.safetensors", config, dtype)


def _smollm2_folder() -> Path:
    """Where it is. UserError when it is not, or not whole."""
    if folder := smollm2_folder():
        return folder
    if damaged := damaged_smollm2_folder():
        raise UserError(f"The model in {damaged} is damaged: remove that folder and run `kvxray model fetch` again.")
    raise UserError("SmolLM2 is not on this machine yet: run `kvxray model fetch`, or choose the model tiny.")


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
