"""The Triton kernels on a real GPU: every operation against the float64 reference, then decode as a share of the copy
bandwidth measured in the same run, and prefill in TFLOP/s, beside torch's attention and, where installed, vLLM's and
FlashInfer's.

Needs torch, triton and this clone, nothing installed: python -m benchmarks.gpu --json in the clone's folder. Takes less
than five minutes: what the time does not suffice for is left out and said. Without a GPU, --device cpu checks results
only, in Triton's interpreter and with tiny sizes.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

KERNELS = Path(__file__).parents[1] / "kernels"
MINUTES = 4.5


def main() -> int:
    parser = argparse.ArgumentParser(prog="kvxray bench gpu", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu: results only, interpreted")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="begin nothing new after so many")
    options = parser.parse_args()
    missing = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"kvxray: {' and '.join(missing)} must be installed to run kernels.", file=sys.stderr)
        return 2
    if importlib.util.find_spec("kvxray_kernels") is None:
        sys.path.insert(0, str(KERNELS))
    if options.device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # read when kernels are decorated, so before they are imported
    import torch

    if options.device == "cuda" and not torch.cuda.is_available():
        print(
            "kvxray: There is no NVIDIA GPU here that torch can use; --device cpu checks results only.", file=sys.stderr
        )
        return 2
    result = measure(torch.device(options.device), options.minutes)
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    return 1 if result["misses"] else 0


def measure(device: torch.device, minutes: float) -> dict[str, Any]:
    from benchmarks.on_gpu.timing import Deadline

    begun, deadline = time.perf_counter(), Deadline(60 * minutes)
    result = about(device) | checked(device)
    if device.type == "cuda":
        result |= timed(device, deadline)
    return result | {"wall_s": round(time.perf_counter() - begun, 1)}


def about(device: torch.device) -> dict[str, Any]:
    """What was measured, on what and when."""
    import torch
    import triton

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "Triton's interpreter"
    versions = {"torch": torch.__version__, "triton": triton.__version__, "python": sys.version.split()[0]}
    return {"device": name, "date": datetime.now(UTC).date().isoformat(), **versions}


def checked(device: torch.device) -> dict[str, Any]:
    from benchmarks.on_gpu.cases import MODELS, STEPS, TINY_MODELS, TINY_STEPS
    from benchmarks.on_gpu.correctness import all_checks
    from benchmarks.on_gpu.fp8_rounding import fp8_checks

    real = device.type == "cuda"
    checks = []
    for source in (
        fp8_checks(device, 1 << 16 if real else 1 << 10),
        all_checks(device, MODELS if real else TINY_MODELS, STEPS if real else TINY_STEPS),
    ):
        for check in source:
            print(check, file=sys.stderr)
            checks.append(check)
    return {"checks": len(checks), "misses": [str(check) for check in checks if not check.passed]}


def timed(device: torch.device, deadline: Any) -> dict[str, Any]:
    from benchmarks.on_gpu.speed import DECODE_FORMATS, DECODE_SIZES, PREFILL_SIZES, decode_speed, prefill_speed
    from benchmarks.on_gpu.timing import copy_bandwidth

    copy_rate = copy_bandwidth(device)
    rows: dict[str, list[dict[str, Any]]] = {"decode": [], "prefill": []}
    left_out = 0
    prefill = [("prefill", partial(prefill_speed, device, *size)) for size in PREFILL_SIZES]
    decode = [
        ("decode", partial(decode_speed, device, name, *size, copy_rate))
        for size in DECODE_SIZES
        for name in DECODE_FORMATS
    ]
    for kind, measured in prefill + decode:
        if deadline.is_over:
            left_out += 1
            continue
        rows[kind].append(measured())
        print(kind, rows[kind][-1], file=sys.stderr)
    return {"copy_gb_per_s": copy_rate / 1e9, **rows, "left_out_for_time": left_out}


if __name__ == "__main__":
    sys.exit(main())
