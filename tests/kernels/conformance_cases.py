"""Which worlds the conformance suite makes: a covering set of the options, in which every two values meet; and what
kernels there are.
"""

import importlib
import pkgutil

from kvxray_kernels import triton_kernels
from triton.runtime.interpreter import InterpretedFunction

from benchmarks.kernel_builds.covering import all_pairs, covering_rows
from tests.kernels.conformance_world import BATCHES, CACHES, VARIANTS, Case

OPTIONS = {
    "cache": CACHES,
    "head_dim": [16, 64, 80, 96, 128, 256],
    "block_size": [8, 16, 32, 128],
    "group": [1, 3, 5, 8],
    "variant": list(VARIANTS),
    "batch": list(BATCHES),
}
CASES = [Case(**row) for row in covering_rows(OPTIONS, all_pairs(OPTIONS))]
# Torch's cascade is its gather where nothing is shared.
SHARING = [Case(**row) for row in covering_rows({**OPTIONS, "batch": ["shared", "mixed"]}, all_pairs(OPTIONS))]
CASES_OF = {"torch_gather": CASES, "torch_cascade": SHARING, "triton": CASES}


def every_kernel() -> set[str]:
    """By name, from the modules themselves: one that is added later is asked for too."""
    modules = [
        importlib.import_module(f"{triton_kernels.__name__}.{found.name}")
        for found in pkgutil.iter_modules(triton_kernels.__path__)
    ]
    return {
        value.fn.__name__
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, InterpretedFunction) and name.endswith("_kernel")
    }
