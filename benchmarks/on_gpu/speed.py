"""How fast the kernels are: decode as a share of the copy bandwidth measured in the same run, prefill in TFLOP/s."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from kvxray_kernels.backend import CacheShape
from kvxray_kernels.cache_format import BFLOAT16, CACHE_FORMATS, CacheFormat
from kvxray_kernels.triton_backend import TritonBackend

from benchmarks.on_gpu.cases import Model, Step
from benchmarks.on_gpu.peers import PEERS, Peer
from benchmarks.on_gpu.timing import seconds_of
from benchmarks.on_gpu.traffic import attention_flops, decode_bytes, layers_beyond_cache

MODEL: Final = Model(head_dim=128, num_kv_heads=8, group=4)  # of Llama 3 8B
DTYPE: Final = torch.bfloat16
DECODE_FORMATS: Final = ("bfloat16", "fp8_e4m3", "int8", "int4")
# The largest first: what a deadline cuts off is what matters least.
DECODE_SIZES: Final = tuple((batch, tokens) for tokens in (32768, 16384, 8192, 4096) for batch in (64, 16, 4, 1))
PREFILL_SIZES: Final = ((8192, 8192), (2048, 32768), (2048, 2048), (512, 8192))  # query tokens, context
MAX_LAYERS: Final = 64
FREE_SHARE: Final = 0.8  # of the memory that is free, at most


class Workload:
    """One step over a cache of several layers, filled with noise."""

    def __init__(self, device: torch.device, cache_format: CacheFormat, step: Step, layers: int) -> None:
        shape = CacheShape(
            layers, step.num_blocks(MODEL.block_size), MODEL.block_size, MODEL.num_kv_heads, MODEL.head_dim
        )
        self.step, self.shape = step, shape
        self.backend = TritonBackend(shape, cache_format, DTYPE, device)
        self._fill()
        self.metadata = self.backend.build_metadata(
            step.query_lens, step.context_lens, step.block_tables(MODEL.block_size)
        )
        self.q = torch.randn((sum(step.query_lens), MODEL.num_heads, MODEL.head_dim), dtype=DTYPE, device=device)

    def attend_all_layers(self) -> None:
        for layer in range(self.shape.num_layers):
            self.backend.attend(layer, self.q, self.metadata)

    def _fill(self) -> None:
        """Any bits but NaN will do for time; small numbers keep results finite."""
        for cache in (self.backend.key_cache, self.backend.value_cache):
            if cache.dtype == DTYPE:
                cache.normal_()
            else:
                cache.view(torch.uint8).random_(0, 64)
        for scales in (self.backend.key_scales, self.backend.value_scales):
            if scales is not None:
                scales.fill_(0.02)


def decode_speed(device: torch.device, format_name: str, batch: int, tokens: int, copy_rate: float) -> dict[str, Any]:
    """One row: what one decode step of `batch` sequences with `tokens` each reaches, beside the peers."""
    cache_format = CACHE_FORMATS[format_name]
    step = Step("decode", (1,) * batch, (tokens,) * batch)
    shape = CacheShape(1, step.num_blocks(MODEL.block_size), MODEL.block_size, MODEL.num_kv_heads, MODEL.head_dim)
    moved = decode_bytes(shape, cache_format, MODEL.num_heads, step.context_lens, DTYPE.itemsize)
    row: dict[str, Any] = {"format": format_name, "batch": batch, "tokens": tokens}
    layer_bytes = shape.bytes_per_block(cache_format) * shape.num_blocks
    free = torch.cuda.mem_get_info(device)[0] * FREE_SHARE
    if layer_bytes > free:
        return row | {"skipped": f"needs {layer_bytes / 2**30:.1f} GiB"}
    l2 = torch.cuda.get_device_properties(device).L2_cache_size
    layers = min(layers_beyond_cache(layer_bytes, l2, MAX_LAYERS), int(free // layer_bytes))
    workload = Workload(device, cache_format, step, layers)

    def share(work: Callable[[], object]) -> dict[str, float]:
        rate = moved * layers / seconds_of(work)
        return {"gb_per_s": rate / 1e9, "share_of_copy": rate / copy_rate}

    row |= {"layers": layers, "bytes_per_layer": moved} | share(workload.attend_all_layers)
    return row | {"peers": dict(_of_peers(workload, share)) if cache_format == BFLOAT16 else {}}


def prefill_speed(device: torch.device, query_tokens: int, tokens: int) -> dict[str, Any]:
    """One row: one chunk of `query_tokens` at the end of a context of `tokens`."""
    step = Step("prefill", (query_tokens,), (tokens,))
    workload = Workload(device, BFLOAT16, step, layers=1)
    flops = attention_flops(MODEL.num_heads, MODEL.head_dim, step.query_lens, step.context_lens)

    def rate(work: Callable[[], object]) -> dict[str, float]:
        return {"tflop_per_s": flops / seconds_of(work) / 1e12}

    row: dict[str, Any] = {"query_tokens": query_tokens, "tokens": tokens}
    return row | rate(workload.attend_all_layers) | {"peers": dict(_of_peers(workload, rate))}


def _of_peers(
    workload: Workload, measure: Callable[[Callable[[], object]], dict[str, float]]
) -> Iterator[tuple[str, Any]]:
    """What each peer reaches on the same step, or in one sentence why it cannot say."""
    for name, make in PEERS.items():
        try:
            yield (
                name,
                measure(every_layer(make(workload.backend, workload.metadata, workload.q), workload.shape.num_layers)),
            )
        except Exception as reason:  # a peer's trouble is not ours: its API moves, its shapes are limited
            yield name, f"{type(reason).__name__}: {str(reason).splitlines()[0] if str(reason) else ''}"


def every_layer(peer: Peer, layers: int) -> Callable[[], None]:
    def work() -> None:
        for layer in range(layers):
            peer(layer)

    return work
