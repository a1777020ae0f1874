"""Rows that are hard to quantise, and the bytes by which stored rows are compared."""

import math

import torch
from kvxray_kernels.cache_format import FP8_E4M3, INT4, CacheFormat
from kvxray_kernels.reference_quantisation import FP8_NUMBERS

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def hard_rows(head_dim: int, dtype: torch.dtype) -> torch.Tensor:
    """[rows, 1, head_dim]: each row is a few numbers over and over, so that any head_dim has them all."""
    patterns = [
        [0.0],
        [-0.0],
        [0.0, -0.0, -0.0],
        [1.0],
        [-3.14159],
        [0.1, 0.1, 0.1, -0.1],
        [127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, 3.499],  # int8: the scale is 1, halves are ties
        [0.0, 15.0, 0.5, 1.5, 2.5, 7.5, 14.5, 13.5, 0.4999, 14.9],  # int4: likewise
        [-4.0, 11.0, -3.5, -2.5, 3.5, 10.5],
        [448.0, -448.0, 447.9, 432.0, 440.0, 456.0],
        [449.0, 464.0, 465.0, 480.0, 500.0, -1000.0],
        [2.0**-9, 2.0**-10, -(2.0**-10), 3 * 2.0**-10, 2.0**-11, 2.0**-6, 2.0**-6 - 2.0**-13, -(2.0**-7)],
        [1e-7, -2e-7, 3e-7],  # the scale is below float16's subnormals, or one of the first of them
        [7.6e-6, 3.8e-6, -7.6e-6],  # the scale rounds to the smallest of float16: what it divides goes out of range
        [1e-40, -3e-39, 0.0],  # float32's own subnormals
        [6e-8, -6e-5],
        [1000.0, 1000.5, 1001.0],  # far from 0: the minimum is rounded, and numbers lie below it
        [1e4, -6e4, 3.0],
        [1e7, -8.4e6, 1.0],  # the scale is beyond float16
        [3e38, -3e38, 1.0],  # the extent is beyond float32
        [math.nan, 1.0, -2.0],
        [math.inf, 1.0],
        [1.0, -math.inf, 0.5],
        [math.inf, -math.inf, math.nan],
    ]
    rows = [(pattern * head_dim)[:head_dim] for pattern in patterns]
    return torch.tensor(rows, dtype=torch.float64).to(dtype)[:, None]


def around_fp8_numbers() -> torch.Tensor:
    """float32: each fp8 number, each tie between two, and what is next to those, of either sign."""
    numbers = torch.tensor([*FP8_NUMBERS, 480.0], dtype=torch.float32)
    centres = torch.cat([numbers, (numbers[1:] + numbers[:-1]) / 2])
    infinity = torch.tensor(torch.inf)
    near = torch.cat([centres, centres.nextafter(infinity), centres.nextafter(-infinity)])
    return torch.cat([near, -near])


def random_items(cache_format: CacheFormat, shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    """What a format may store, any byte where each is a number or NaN."""
    generator = torch.Generator().manual_seed(seed)
    if not cache_format.is_quantised:
        return torch.randn(shape, generator=generator).to(cache_format.storage_dtype)
    low = 0 if cache_format in (FP8_E4M3, INT4) else 1  # int8 stores -127 to 127
    numbers = torch.randint(low, 256, shape, generator=generator, dtype=torch.uint8)
    return numbers.view(cache_format.storage_dtype) if low == 0 else (numbers.short() - 128).to(torch.int8)


def random_scales(cache_format: CacheFormat, heads: tuple[int, ...], seed: int = 1) -> torch.Tensor | None:
    if not cache_format.num_scales:
        return None
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((*heads, cache_format.num_scales), generator=generator).half()


def same_bytes(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return (
        a.dtype == b.dtype
        and a.shape == b.shape
        and torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))
    )
