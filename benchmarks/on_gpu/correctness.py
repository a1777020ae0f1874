"""Every operation of the Triton backend on the device, against the float64 reference and torch's own rounding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from kvxray_kernels.backend import CacheShape
from kvxray_kernels.cache_format import BFLOAT16, CACHE_FORMATS, FP8_E4M3, CacheFormat
from kvxray_kernels.quantisation import quantise
from kvxray_kernels.reference import reference_attention
from kvxray_kernels.reference_quantisation import reference_dequantise
from kvxray_kernels.triton_backend import TritonBackend

from benchmarks.on_gpu.cases import Model, Step, variants

# Largest error of a result, over the largest result. Results and weights are rounded to the dtype: 8, 11 and (three
# tf32 products for one of float32) about 21 bits.
TOLERANCES: Final = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 2e-2}


@dataclass(frozen=True, slots=True)
class Check:
    """One operation on one input."""

    name: str
    error: float
    allowed: float

    @property
    def passed(self) -> bool:
        return self.error <= self.allowed  # of NaN too: no

    def __str__(self) -> str:
        return f"{'ok  ' if self.passed else 'MISS'} {self.name}: {self.error:.2e}, {self.allowed:.0e} allowed"


def all_checks(device: torch.device, models: Sequence[Model], steps: Sequence[Step]) -> Iterator[Check]:
    knows_fp8 = device.type != "cuda" or torch.cuda.get_device_capability(device) >= (8, 9)
    for cache_format in CACHE_FORMATS.values():
        if cache_format != FP8_E4M3 or knows_fp8:
            for model in models:
                yield from _cache_checks(device, model, cache_format)
                for step in steps:
                    yield from _attention_checks(device, model, cache_format, step)


def _cache_checks(device: torch.device, model: Model, cache_format: CacheFormat) -> Iterator[Check]:
    """Writing and copying: every byte as torch would have it, and nothing else touched."""
    backend = _backend(device, model, cache_format, num_blocks=5)
    name = f"{cache_format.name}, {model}"
    before = [tensor.clone() for tensor in _memory(backend)]
    slots = torch.randperm(4 * model.block_size, generator=_generator(1))[: 2 * model.block_size + 1]
    slots[3] = -1
    k, v = (_rows(len(slots), model.num_kv_heads, model, backend.dtype, seed) for seed in (2, 3))
    backend.write_kv(0, k.to(device), v.to(device), slots.to(device))
    _write(before, (k, v), slots, cache_format)
    yield Check(f"write, {name}", _different(before, _memory(backend)), 0)
    pairs = [(1, 2), (2, 1), (3, 4)]
    for tensor in before:
        tensor[:, [d for _, d in pairs]] = tensor[:, [s for s, _ in pairs]]
    backend.copy_blocks(pairs)
    yield Check(f"copy, {name}", _different(before, _memory(backend)), 0)


def _attention_checks(device: torch.device, model: Model, cache_format: CacheFormat, step: Step) -> Iterator[Check]:
    backend = _backend(device, model, cache_format, step.num_blocks(model.block_size))
    tables = step.block_tables(model.block_size)
    _poison(backend)  # what nobody writes must reach no result
    for length, table in zip(step.context_lens, tables, strict=True):
        slots = torch.tensor(
            [table[p // model.block_size] * model.block_size + p % model.block_size for p in range(length)]
        )
        k, v = (_rows(length, model.num_kv_heads, model, backend.dtype, seed) for seed in (4, 5))
        backend.write_kv(0, k.to(device), v.to(device), slots.to(device))
    metadata = backend.build_metadata(step.query_lens, step.context_lens, tables)
    q = _rows(sum(step.query_lens), model.num_heads, model, backend.dtype, 6)
    keys, values = _stored(backend)
    for kind, variant in variants(model.num_heads, torch.device("cpu")).items():
        on_device = variants(model.num_heads, device)[kind]
        out = backend.attend(0, q.to(device), metadata, on_device).double().cpu()
        expected = reference_attention(q, keys, values, step.query_lens, step.context_lens, tables, variant)
        error = ((out - expected).abs().max() / expected.abs().max()).item()
        yield Check(f"{step.name}, {kind}, {cache_format.name}, {model}", error, TOLERANCES[backend.dtype])


def _backend(device: torch.device, model: Model, cache_format: CacheFormat, num_blocks: int) -> TritonBackend:
    shape = CacheShape(1, num_blocks, model.block_size, model.num_kv_heads, model.head_dim)
    return TritonBackend(shape, cache_format, BFLOAT16.storage_dtype if cache_format.is_quantised else None, device)


def _memory(backend: TritonBackend) -> list[torch.Tensor]:
    """Keys, values and their scales as bytes, on the CPU."""
    tensors = (backend.key_cache, backend.value_cache, backend.key_scales, backend.value_scales)
    return [tensor.cpu().view(torch.uint8) for tensor in tensors if tensor is not None]


def _poison(backend: TritonBackend) -> None:
    """Every byte 0xff: NaN in every format that has one, scales included."""
    for tensor in (backend.key_cache, backend.value_cache, backend.key_scales, backend.value_scales):
        if tensor is not None:
            tensor.view(torch.uint8).fill_(0xFF)


def _write(
    memory: list[torch.Tensor], rows: tuple[torch.Tensor, torch.Tensor], slots: torch.Tensor, kind: CacheFormat
) -> None:
    """What `write_kv` must do to these bytes, by torch's rounding on the CPU."""
    kept = slots >= 0
    stored = [quantise(row[kept], kind) for row in rows]
    parts = [items for items, _ in stored] + [scales for _, scales in stored if scales is not None]
    for tensor, part in zip(memory, parts, strict=True):
        tensor[0].view(-1, *tensor.shape[3:])[slots[kept]] = part.contiguous().view(torch.uint8)


def _stored(backend: TritonBackend) -> tuple[torch.Tensor, torch.Tensor]:
    """What the cache holds, as the numbers that it stands for: rounding of the format is not attention's error."""
    keys, values = (cache[0].cpu() for cache in (backend.key_cache, backend.value_cache))
    scales = [None if s is None else s[0].cpu() for s in (backend.key_scales, backend.value_scales)]
    kind = backend.cache_format
    return reference_dequantise(keys, scales[0], kind), reference_dequantise(values, scales[1], kind)


def _different(expected: Sequence[torch.Tensor], found: Sequence[torch.Tensor]) -> float:
    """The share of bytes that differ."""
    differing = sum(int((one != other).sum()) for one, other in zip(expected, found, strict=True))
    return differing / sum(tensor.numel() for tensor in expected)


def _rows(tokens: int, heads: int, model: Model, dtype: torch.dtype, seed: int) -> torch.Tensor:
    return torch.randn((tokens, heads, model.head_dim), generator=_generator(seed)).to(dtype)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
