"""A model's weights in one safetensors file: written tensor by tensor, read by mapping the file into memory.

Writing holds one tensor at a time, so that converting a model needs little more than its largest matrix. Reading copies
nothing: pages come from the file when they are first used, and processes that run the same model share them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from kvxray_engine.errors import UserError
from kvxray_engine.models.config import ModelConfig
from kvxray_engine.models.weights import LlamaWeights, tensor_shapes

# Tensors begin on a cache line: sizes of all our tensors are multiples of it, and so is the padded header.
ALIGNMENT = 64


def checkpoint_bytes(config: ModelConfig) -> int:
    """Bytes of the file that `write_checkpoint` makes, the header left out."""
    return sum(4 * torch.Size(shape).numel() for shape in tensor_shapes(config).values())


def write_checkpoint(path: Path, config: ModelConfig, tensors: Iterator[tuple[str, torch.Tensor]]) -> Iterator[int]:
    """Write float32 tensors in the order of `tensor_shapes`; yields the bytes written so far after each.

    The format is that of safetensors: length of the header u8, header in JSON, then the tensors.
    """
    offset = 0
    with path.open("wb") as file:
        file.write(_header(config))
        for (expected, shape), (name, tensor) in zip(tensor_shapes(config).items(), tensors, strict=True):
            assert name == expected, f"{name} came where {expected} belongs"
            assert tuple(tensor.shape) == shape, f"{name} is {tuple(tensor.shape)}, expected {shape}"
            assert tensor.dtype == torch.float32, f"{name} is {tensor.dtype}, the file holds float32"
            file.write(tensor.contiguous().numpy().data)
            offset += tensor.nbytes
            yield offset


def read_checkpoint(path: Path, config: ModelConfig, dtype: torch.dtype) -> LlamaWeights:
    """The weights in this dtype; float32 stays in the file's memory map. UserError when the file is damaged."""
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            tensors = {name: file.get_tensor(name).to(dtype) for name in tensor_shapes(config)}
    except (OSError, SafetensorError) as error:
        raise UserError(
            f"The model's {path} is damaged ({error}): delete its folder and fetch the model again."
        ) from error
    return LlamaWeights.from_tensors(config, tensors)


def checkpoint_is_whole(path: Path, config: ModelConfig) -> bool:
    """Whether the file has the header and the length that this model's has; what the tensors hold is not read."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            size = path.stat().st_size
            if 8 + length + checkpoint_bytes(config) != size:
                return False
            return bool(json.loads(file.read(length)) == _entries(config))
    except (OSError, ValueError, struct.error):
        return False


def _entries(config: ModelConfig) -> dict[str, dict[str, object]]:
    """The header: where each tensor is in the bytes that follow it."""
    entries: dict[str, dict[str, object]] = {}
    offset = 0
    for name, shape in tensor_shapes(config).items():
        end = offset + 4 * torch.Size(shape).numel()
        entries[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    return entries


def _header(config: ModelConfig) -> bytes:
    text = json.dumps(_entries(config)).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return struct.pack("<Q", len(text)) + text
