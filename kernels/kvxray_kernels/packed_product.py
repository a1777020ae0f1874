"""oneDNN's product over a matrix in blocks of its own. It is reached by the operators that torch.compile writes into
its programs; torch's plain product leaves half of an x86 processor unused.
"""

from __future__ import annotations

import torch


def can_pack() -> bool:
    """Whether this torch on this processor has the packed product."""
    present: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    fast = present and torch.backends.cpu.get_cpu_capability().startswith("AVX")
    return fast and all(hasattr(torch.ops.mkldnn, name) for name in ("_reorder_linear_weight", "_linear_pointwise"))


class PackedMatrix:
    """A matrix [outputs, inputs] float32, laid out to be multiplied with about so many rows at once; any number is
    served.
    """

    def __init__(self, matrix: torch.Tensor, rows: int, bias: torch.Tensor | None = None) -> None:
        self._packed = torch.ops.mkldnn._reorder_linear_weight(matrix, rows)
        self._bias = bias
        self._product = torch.ops.mkldnn._linear_pointwise.default

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """x [rows, inputs] to [rows, outputs]."""
        product: torch.Tensor = self._product(x, self._packed, self._bias, "none", [], "")
        return product
