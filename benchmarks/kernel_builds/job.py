"""The compile job: catches the launches of all variants, compiles each different one once, in two processes."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import triton.backends.nvidia

from benchmarks.kernel_builds.builds import Build
from benchmarks.kernel_builds.cubin import read_cubin
from benchmarks.kernel_builds.launches import launch
from benchmarks.kernel_builds.recording import Launch, recorded_launches
from benchmarks.kernel_builds.variants import ATTENTION, Variant

PROCESSES = 2
TOOLS = Path(triton.backends.nvidia.__file__).parent / "bin"


@dataclass(slots=True)
class Task:
    """Code to be made, and who needs it."""

    launch: Launch
    variants: list[Variant] = field(default_factory=list)

    @property
    def kernel(self) -> str:
        return self.launch.kernel.removesuffix("_kernel")


def tasks_for(variants: Iterable[Variant]) -> list[Task]:
    """Launches of equal code are one task; a launcher may start several kernels."""
    tasks: dict[object, Task] = {}
    for variant in variants:
        with recorded_launches(variant.arch) as launches:
            launch(variant)
        for recorded in launches:
            tasks.setdefault(recorded.key, Task(recorded)).variants.append(variant)
    return list(tasks.values())


def build_all(tasks: Sequence[Task]) -> list[Build]:
    """In the order of the tasks; progress goes to standard error."""
    # Forked: a launch holds compiled-in functions, which no other process could be sent. Nothing was compiled yet, so
    # there are no compiler threads to be cut off.
    _shared_tasks.extend(tasks)
    builds: list[Build] = []
    with multiprocessing.get_context("fork").Pool(PROCESSES) as pool:
        for build in pool.imap(_build_number, range(len(tasks))):
            builds.append(build)
            if len(builds) % 25 == 0:
                print(f"{len(builds)} of {len(tasks)} compiled", file=sys.stderr)
    _shared_tasks.clear()
    return builds


_shared_tasks: list[Task] = []


def _build_number(number: int) -> Build:
    return build(_shared_tasks[number])


def build(task: Task) -> Build:
    """Compile one task and read its code. What the compiler refuses is a result too."""
    begun = time.perf_counter()
    code, shared, error = None, 0, None
    try:
        kernel = task.launch.compile()
        code, shared = read_cubin(kernel.asm["cubin"], TOOLS), kernel.metadata.shared
    except Exception as reason:  # whatever the compiler raises
        error = sentence_of(reason)
    return Build(
        kernel=task.kernel,
        arch=task.launch.arch,
        formats=tuple(dict.fromkeys(variant.format for variant in task.variants)),
        variant=str(task.variants[0]),
        wants_tensor_cores=any(wants_tensor_cores(task.kernel, variant) for variant in task.variants),
        seconds=time.perf_counter() - begun,
        shared=shared,
        code=code,
        error=error,
    )


def sentence_of(reason: BaseException) -> str:
    """What went wrong at the root: Triton wraps an error once for every function that was being compiled."""
    while reason.__cause__ is not None:
        reason = reason.__cause__
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    return f"{type(reason).__name__}: {' / '.join(lines[:1] + lines[1:][-2:])}"


def wants_tensor_cores(kernel: str, variant: Variant) -> bool:
    """Kernels that multiply matrices do so on tensor cores, unless they must keep float32 exact."""
    return kernel in ATTENTION and variant.dtype != "float32"
