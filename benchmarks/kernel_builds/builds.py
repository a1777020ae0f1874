"""What became of one launch once it was compiled, and what is not allowed to become of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from benchmarks.kernel_builds.cubin import CodeFigures
from benchmarks.kernel_builds.variants import ATTENTION, KERNELS

KIB: Final = 1024
# Shared memory that one program may take. On sm_80 the limit is that of sm_86 and sm_89, which run the same code.
MAX_SHARED: Final = {80: 99 * KIB, 90: 227 * KIB, 100: 227 * KIB}
# Registers of a thread. 255 is what the machine has, and attention is given it: its tiles live there. Kernels that move
# numbers wait for memory: the fewer they take, the more of them wait at once (64 registers: 1,024 threads a processor).
MAX_REGISTERS: Final = 255
MOVING_REGISTERS: Final = 64
REGISTER_BUDGETS: Final = {kernel: MAX_REGISTERS if kernel in ATTENTION else MOVING_REGISTERS for kernel in KERNELS}


@dataclass(frozen=True, slots=True)
class Build:
    """One compiled kernel, with every cache format whose launches need just this code."""

    kernel: str
    arch: int
    formats: tuple[str, ...]
    variant: str  # the first that led to it, in words
    wants_tensor_cores: bool
    seconds: float
    shared: int = 0  # bytes of a program
    code: CodeFigures | None = None
    error: str | None = None  # why there is no code

    @property
    def tensor_core_instructions(self) -> int:
        return sum(count for _, count in self.code.tensor_core) if self.code else 0


def misses_of(build: Build) -> list[str]:
    """A line for everything about it that breaks a rule."""
    if build.code is None:
        return [_line(build, f"does not compile: {build.error}")]
    code, found = build.code, []
    if code.stack or code.local or code.local_accesses:
        found.append(
            f"spills: stack {code.stack} bytes, local memory {code.local} bytes, {code.local_accesses} accesses to it"
        )
    budget = REGISTER_BUDGETS[build.kernel]
    if code.registers > budget:
        found.append(f"takes {code.registers} registers, {budget} are allowed")
    if build.shared > MAX_SHARED[build.arch]:
        found.append(f"takes {build.shared} bytes of shared memory, {MAX_SHARED[build.arch]} are allowed")
    if build.wants_tensor_cores and not code.tensor_core:
        found.append("has no tensor-core instruction")
    return [_line(build, what) for what in found]


def _line(build: Build, what: str) -> str:
    return f"{build.kernel} on sm_{build.arch} {what} [{build.variant}]"
