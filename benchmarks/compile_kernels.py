"""Every Triton kernel compiled for GPUs that are not here, and its machine code held to rules: no spills, no local
memory, registers and shared memory within budget, tensor cores wherever the type allows.

Needs no GPU: the launchers run on CPU tensors, their launches are caught and compiled to machine code, which is read
with the tools inside the triton package. With another Triton on PYTHONPATH, that one is tried (`make kernels`).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.kernel_builds.builds import Build

ARCHS = (80, 90, 100)
DOCS = Path(__file__).parents[1] / "docs" / "kernels.md"
MAX_COMPILES = 150


def main() -> int:
    parser = argparse.ArgumentParser(prog="kvxray bench compile_kernels", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    parser.add_argument(
        "--archs",
        type=archs,
        default=ARCHS,
        help=f"chips, such as 90 for sm_90; {','.join(map(str, ARCHS))} unless told",
    )
    parser.add_argument("--docs", action="store_true", help="write the table into docs/kernels.md")
    parser.add_argument("--triton", metavar="VERSION", help="fail unless this is the Triton that is found")
    options = parser.parse_args()
    if os.environ.get("TRITON_INTERPRET", "0") != "0":
        print("kvxray: TRITON_INTERPRET is set: an interpreter has no machine code. Unset it.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="kvxray-kernels-") as cache:
        os.environ["TRITON_CACHE_DIR"] = cache  # of its own: what is compiled elsewhere must not count here
        os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # what 3.10 turns off is what GPUs run today
        return compile_all(options)


def archs(text: str) -> tuple[int, ...]:
    """Numbers with commas between them, each counted once."""
    if not all(name.isascii() and name.isdecimal() and int(name) >= ARCHS[0] for name in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of chips from {ARCHS[0]} on, such as 80,90")
    return tuple(dict.fromkeys(map(int, text.split(","))))


def compile_all(options: argparse.Namespace) -> int:
    # Only now: Triton reads its environment when it is imported, and a kernel's when it is decorated.
    import triton

    from benchmarks.kernel_builds.job import build_all, tasks_for
    from benchmarks.kernel_builds.variants import variants_for

    if options.triton and triton.__version__ != options.triton:
        print(f"kvxray: Triton {options.triton} was asked for, but {triton.__version__} is found.", file=sys.stderr)
        return 2
    begun = time.perf_counter()
    tasks = tasks_for(variants_for(options.archs))
    print(f"Triton {triton.__version__}: {len(tasks)} compiles", file=sys.stderr)
    return report(build_all(tasks), triton.__version__, time.perf_counter() - begun, options)


def report(builds: list[Build], version: str, wall_s: float, options: argparse.Namespace) -> int:
    from benchmarks.kernel_builds.builds import misses_of
    from benchmarks.kernel_builds.table import table_rows, with_table

    rows = table_rows(builds)
    misses = [line for build in builds for line in misses_of(build)]
    if len(builds) > MAX_COMPILES:
        misses.append(f"{len(builds)} compiles are more than {MAX_COMPILES}: the set of variants must stay small")
    if options.docs:
        caption = f"Triton {version}, {len(builds)} compiles; the worst of the variants of each row."
        DOCS.write_text(with_table(DOCS.read_text(), rows, caption))
    elif set(options.archs) == set(ARCHS):
        misses += undocumented(DOCS.read_text(), rows)
    result: dict[str, Any] = {
        "triton": version,
        "compiles": len(builds),
        "wall_s": round(wall_s, 1),
        "kernels": [asdict(row) for row in rows],
        "misses": misses,
    }
    print(json.dumps(result) if options.json else "\n".join([*map(str, rows), *misses]))
    print(f"{len(builds)} compiled in {wall_s:.0f} s, {len(misses)} misses", file=sys.stderr)
    return 1 if misses else 0


def undocumented(document: str, rows: list[Any]) -> list[str]:
    """Numbers move with the compiler's version; which rows there are does not."""
    from benchmarks.kernel_builds.table import documented_rows

    told, found = documented_rows(document), {row.key for row in rows}
    return [
        f"docs/kernels.md {what} {kernel} {name} sm_{arch}: run python -m benchmarks.compile_kernels --docs"
        for what, keys in (("lacks", found - told), ("still has", told - found))
        for kernel, name, arch in sorted(keys)
    ]


if __name__ == "__main__":
    sys.exit(main())
