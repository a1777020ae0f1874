"""Turns float32 into fp8 e4m3 and back by bits: to nearest, ties to even, at most 448; NaN stays NaN.

Triton's own cast is not used: its interpreter truncates, sm_80 has none, and whether it saturates differs. A dozen
integer instructions a number cost nothing beside the memory traffic, and every target stores the same byte.

The format (arXiv 2209.05433): 1 sign, 4 exponent bits with bias 7, 3 mantissa bits; no infinity, 0x7f is NaN.
"""

import triton
import triton.language as tl


@triton.jit
def to_fp8_e4m3(x: tl.tensor) -> tl.tensor:
    """The bytes, uint8, of float32 numbers of any shape."""
    bits = x.to(tl.uint32, bitcast=True)
    magnitude = bits & 0x7FFFFFFF
    # Normal: keep 3 of 23 mantissa bits. Half of the last kept bit, less one unless that bit is odd, carries as it
    # must, also into the exponent; then the bias goes from 127 to 7.
    normal = ((magnitude + 0x7FFFF + ((magnitude >> 20) & 1)) >> 20) - (120 << 3)
    # Below 2**-6 numbers are multiples of 2**-9. So are float32 numbers from 2**14 on: adding 2**14 rounds to them.
    shifted = magnitude.to(tl.float32, bitcast=True) + 16384.0
    subnormal = shifted.to(tl.uint32, bitcast=True) - 0x46800000
    code = tl.where(magnitude < 0x3C800000, subnormal, normal)
    code = tl.where(magnitude >= 0x43E00000, 0x7E, code)  # 448 and beyond, infinity included
    code = tl.where(magnitude > 0x7F800000, 0x7F, code)
    return (code | ((bits >> 24) & 0x80)).to(tl.uint8)


@triton.jit
def from_fp8_e4m3(code: tl.tensor) -> tl.tensor:
    """The float32 numbers of bytes, exactly; for targets with no fp8 of their own, too."""
    wide = code.to(tl.uint32)
    # Exponent and mantissa move to float32's, whose bias is 120 more: the product makes up for it, also for subnormals.
    size = ((wide & 0x7F) << 20).to(tl.float32, bitcast=True) * 1.329227995784916e36  # 2**120
    size = tl.where((wide & 0x7F) == 0x7F, float("nan"), size)
    return tl.where((wide & 0x80) != 0, -size, size)
