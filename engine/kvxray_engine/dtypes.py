"""What users may call dtypes of models and of caches, and what we call them. No torch."""

from __future__ import annotations

from typing import Final

from kvxray_engine.errors import UserError

AUTO: Final = "auto"

MODEL_DTYPES: Final = {"fp32": "float32", "float32": "float32", "bf16": "bfloat16", "bfloat16": "bfloat16"}
"""What a model computes in."""

CACHE_DTYPES: Final = MODEL_DTYPES | {
    "fp16": "float16",
    "float16": "float16",
    "fp8": "fp8_e4m3",  # as vLLM understands it
    "fp8_e4m3": "fp8_e4m3",
    "int8": "int8",
    "int4": "int4",
}
"""What keys and values are stored as; the values are names of `kvxray_kernels.cache_format`."""

CACHE_DTYPE_CHOICES: Final = "auto, fp32, fp16, bf16, fp8_e4m3, int8 or int4"


def check_dtypes(dtype: str, kv_cache_dtype: str) -> None:
    """UserError unless both are auto or known."""
    if dtype != AUTO and dtype not in MODEL_DTYPES:
        raise UserError(f"This engine has no dtype called {dtype}: choose auto, fp32 or bf16.")
    if kv_cache_dtype != AUTO and kv_cache_dtype not in CACHE_DTYPES:
        raise UserError(f"This engine has no cache dtype called {kv_cache_dtype}: choose {CACHE_DTYPE_CHOICES}.")
