"""Which launches are compiled: every kernel and cache format on every chip, the other options in a covering set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kvxray_kernels.cache_format import BFLOAT16, CACHE_FORMATS, FLOAT16, FP8_E4M3, CacheFormat

from benchmarks.kernel_builds.covering import Row, Value, all_pairs, covering_rows

ARCHS: Final = (80, 90, 100)
FP8_SINCE: Final = 89  # older chips have no such numbers

ATTENTION: Final = ("paged_decode", "paged_prefill", "cascade")
QUANTISING: Final = ("quantise", "dequantise")
MERGING: Final = "merge_splits"
OTHERS: Final = ("store_kv", "copy_blocks", *QUANTISING, MERGING)
KERNELS: Final = (*ATTENTION, *OTHERS)

# Options that a kernel does not have: sinks are weighed once, by whoever finishes a row.
NEVER: Final[Mapping[str, Sequence[str]]] = {
    "cascade": ("sinks", "shared"),
    "paged_prefill": ("split", "shared"),
    **{kernel: ("sinks", "shared") for kernel in OTHERS if kernel != MERGING},
}

ATTENTION_OPTIONS: Final[Mapping[str, Sequence[Value]]] = {
    "head_dim": (16, 64, 80, 128, 256),
    "block_size": (8, 16, 32, 128),
    "group": (1, 3, 5, 8),
    "window": (False, True),
    "softcap": (False, True),
    "sinks": (False, True),
    "split": (False, True),
    "shared": (False, True),
    "dtype": ("bfloat16", "float16", "float32"),
}
OTHER_OPTIONS: Final[Mapping[str, Sequence[Value]]] = {
    "head_dim": (16, 64, 80, 128, 256),
    "block_size": (16,),  # no code but attention's depends on it
    "sinks": (False, True),
    "shared": (False, True),
    "dtype": ("bfloat16", "float16", "float32"),
}


@dataclass(frozen=True, slots=True)
class Variant:
    """One launch of one kernel."""

    kernel: str
    arch: int
    format: str
    head_dim: int
    block_size: int
    dtype: str  # of queries, keys, values and results
    group: int = 1  # query heads of a kv head
    window: bool = False
    softcap: bool = False
    sinks: bool = False
    split: bool = False  # the context is cut over several programs
    shared: bool = False  # the context begins with a prefix that another kernel attends

    @property
    def cache_format(self) -> CacheFormat:
        return CACHE_FORMATS[self.format]

    def __str__(self) -> str:
        flags = "".join(f" {name}" for name in ("window", "softcap", "sinks", "split", "shared") if getattr(self, name))
        size = f"head_dim {self.head_dim}, block_size {self.block_size}, group {self.group}"
        return f"{self.kernel} {self.format} ({self.dtype}), {size}{flags}"


def variants_for(archs: Sequence[int]) -> list[Variant]:
    """Everything that one run compiles, the same each time."""
    return [_variant(row) for row in _attention_rows(archs) + _other_rows(archs)]


def _attention_rows(archs: Sequence[int]) -> list[Row]:
    options = {"kernel": ATTENTION, "format": tuple(CACHE_FORMATS), "arch": archs, **ATTENTION_OPTIONS}
    # Spills come from large heads: each kernel meets each size in each format, and on each chip.
    triples = [("kernel", "format", "head_dim"), ("kernel", "format", "arch"), ("kernel", "head_dim", "arch")]
    return covering_rows(options, [*triples, *all_pairs(options)], _is_possible)


def _other_rows(archs: Sequence[int]) -> list[Row]:
    options = {"kernel": OTHERS, "format": tuple(CACHE_FORMATS), "arch": archs, **OTHER_OPTIONS}
    return covering_rows(options, [("kernel", "format", "arch"), ("format", "head_dim")], _is_possible)


def kernel_formats(kernel: str) -> tuple[str, ...]:
    """The cache formats that a kernel has to do with."""
    if kernel in QUANTISING:
        return tuple(name for name, kind in CACHE_FORMATS.items() if kind.is_quantised)
    if kernel == MERGING:  # reads partial results, not the cache: what counts is what it writes
        return tuple(name for name, kind in CACHE_FORMATS.items() if not kind.is_quantised)
    return tuple(CACHE_FORMATS)


def _is_possible(row: Row) -> bool:
    """Whether a row, or a part of one, can be launched."""
    arch, name, kernel, dtype = (row.get(option) for option in ("arch", "format", "kernel", "dtype"))
    if kernel in NEVER and any(row.get(option) for option in NEVER[str(kernel)]):
        return False
    if row.get("shared") and row.get("split") is False and kernel == "paged_decode":
        return False  # what is left to another kernel makes a part, and parts are split
    if name is None:
        return True
    cache_format = CACHE_FORMATS[str(name)]
    too_old = cache_format == FP8_E4M3 and isinstance(arch, int) and arch < FP8_SINCE
    if too_old or (kernel is not None and name not in kernel_formats(str(kernel))):
        return False
    # A cache that is not quantised holds what the model computes in; a quantised one is read as 16 bits on a GPU.
    fitting = (BFLOAT16.name, FLOAT16.name) if cache_format.is_quantised else (cache_format.name,)
    return dtype is None or dtype in fitting


def _variant(row: Mapping[str, Any]) -> Variant:
    return Variant(**row)
