"""Which device a model runs on, and how much memory that has."""

from __future__ import annotations

import importlib.util
import os
from typing import Final

import torch
from kvxray_kernels.cache_format import FP8_E4M3, CacheFormat

from kvxray_engine.errors import UserError

DEVICES: Final = ("auto", "cpu", "cuda")
CPU: Final = torch.device("cpu")
MAX_GPU_HEAD_DIM: Final = 256
FIRST_CAPABILITY_WITH_FP8: Final = (8, 9)


def choose_device(name: str) -> torch.device:
    """`auto`: the GPU where there is one that can be used, else the CPU. UserError: that one cannot be had."""
    if name not in DEVICES:
        raise UserError(f"There is no device called {name}: choose {', '.join(DEVICES[:-1])} or {DEVICES[-1]}.")
    if name == "cpu":
        return CPU
    reason = _why_no_gpu()
    if reason is None:
        return torch.device("cuda", torch.cuda.current_device())
    if name == "auto":
        return CPU
    raise UserError(f"{reason}, or choose --device cpu.")


def default_dtype(device: torch.device) -> str:
    """What a model computes in when nobody says: float32 on a CPU, which every CPU computes alike."""
    if device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False):
        return "bfloat16"
    return "float32"


def total_memory(device: torch.device) -> int:
    """Bytes of memory that the device has."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def free_memory(device: torch.device) -> int:
    """Bytes that a cache may take at most. A system's memory may be full of what it gives up: all of it counts."""
    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else total_memory(device)


def why_no_cache(device: torch.device, cache_format: CacheFormat, head_dim: int) -> str | None:
    """Why the device's kernels cannot keep such a cache, as a sentence; None where they can. The CPU keeps any."""
    if device.type != "cuda":
        return None
    if head_dim > MAX_GPU_HEAD_DIM:
        return (
            f"This model's heads have {head_dim} numbers, and the GPU's kernels take {MAX_GPU_HEAD_DIM} at most: "
            "choose --device cpu."
        )
    if cache_format is FP8_E4M3 and torch.cuda.get_device_capability(device) < FIRST_CAPABILITY_WITH_FP8:
        return "This GPU does not know fp8_e4m3: choose int8, which takes little more memory."
    return None


def owner_of_memory(device: torch.device) -> str:
    """Whose memory it is, in words for the middle of a sentence."""
    return "this GPU" if device.type == "cuda" else "this machine"


def _why_no_gpu() -> str | None:
    """The first half of a sentence; None where there is a GPU to use."""
    if not torch.cuda.is_available():
        return "There is no GPU here that torch can use: run `kvxray doctor` to see what it finds"
    if importlib.util.find_spec("triton") is None:
        return "The GPU's kernels need triton, which is not installed: run pip install 'kvxray[gpu]'"
    return None
