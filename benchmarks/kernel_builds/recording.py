"""Catches kernels at their launch, on a machine without a GPU: what the launchers would start is what gets compiled.

The launchers run as they are, with tensors of the CPU. In Triton's place of a driver stands one that claims a chip, and
in place of its compiler one that only takes down what it was asked for, after Triton's own specialisation: argument
types, constants, alignment, warps and stages. Nothing about a launch is written down a second time here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import triton
import triton.compiler
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

compile_for_real = triton.compile


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel as a launcher wanted it."""

    kernel: str
    arch: int  # 90 = sm_90
    source: Any  # triton's ASTSource
    options: dict[str, Any]

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal keys compile to the same code."""
        source = self.source
        constants = sorted((path, str(value)) for path, value in source.constants.items())
        attributes = sorted((path, str(value)) for path, value in source.attrs.items())
        told = (source.signature.items(), constants, attributes, sorted(self.options.items()))
        return (self.kernel, self.arch, *(str(list(part)) for part in told))

    def compile(self) -> Any:
        return compile_for_real(self.source, target=GPUTarget("cuda", self.arch, 32), options=self.options)


class PretendedDriver:
    """All that a launch asks of a driver before it compiles."""

    def __init__(self, arch: int) -> None:
        self.arch = arch

    def get_current_device(self) -> int:
        return self.arch  # Triton keeps what it knows by device: another chip must be another device

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.arch, 32)


@dataclass(frozen=True, slots=True)
class UncompiledKernel:
    """What Triton keeps as the compiled kernel of a launch. Running it only says that it would have run."""

    launch: Launch
    function = packed_metadata = None

    def launch_metadata(self, *arguments: Any) -> None:
        return None

    def run(self, *arguments: Any) -> None:
        _recorded.append(self.launch)


_recorded: list[Launch] = []  # one list for all: a kernel's function remembers the compiler that it met first


def _take_down(source: Any, target: GPUTarget, options: dict[str, Any], **_: Any) -> UncompiledKernel:
    return UncompiledKernel(Launch(source.fn.__name__, target.arch, source, dict(options)))


@contextmanager
def recorded_launches(arch: int) -> Iterator[list[Launch]]:
    """Within, kernels do not run: their launches are appended to the list."""
    launches: list[Launch] = []
    triton.compiler.compile = _take_down
    driver.set_active(PretendedDriver(arch))
    _recorded.clear()
    try:
        yield launches
    finally:
        launches += _recorded
        triton.compiler.compile = compile_for_real
        driver.set_active(None)
