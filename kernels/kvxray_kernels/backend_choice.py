"""Which attention backend serves a device: Triton on CUDA, torch on any CPU.

Each is imported when it is chosen: the engine runs on a CPU without triton installed.
"""

from __future__ import annotations

import torch

from kvxray_kernels.backend import AttentionBackend, CacheShape
from kvxray_kernels.cache_format import CacheFormat


def make_backend(
    shape: CacheShape,
    cache_format: CacheFormat,
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
) -> AttentionBackend:
    if torch.device(device).type == "cuda":
        from kvxray_kernels.triton_backend import TritonBackend

        return TritonBackend(shape, cache_format, dtype, device)
    from kvxray_kernels.torch_backend import TorchBackend

    return TorchBackend(shape, cache_format, dtype, device)
