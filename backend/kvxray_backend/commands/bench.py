"""Measure kvxray on this machine. Runs one of the scripts in benchmarks/ of a clone and prints what it found."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path
from typing import Final

from kvxray_engine.errors import UserError

SUMMARY: Final = "measure kvxray on this machine (needs a clone)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="what to measure: the name of a script in benchmarks/")
    parser.add_argument("--json", action="store_true", help="print one JSON object; progress goes to standard error")
    rest = parser.add_argument(
        "rest", nargs=argparse.REMAINDER, metavar="...", help="options of the benchmark itself; NAME --help lists them"
    )
    rest.required = False


def run(options: argparse.Namespace) -> int:
    folder = Path.cwd() / "benchmarks"
    names = sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")
    if not names:
        raise UserError("There is no folder benchmarks/ here: run kvxray bench in a clone of the project.")
    if options.name not in names:
        raise UserError(f"There is no benchmark {options.name!r}; there are: {', '.join(names)}.")
    sys.path.insert(0, str(folder.parent))
    sys.argv = [options.name, *(["--json"] if options.json else []), *options.rest]
    try:
        runpy.run_module(f"benchmarks.{options.name}", run_name="__main__", alter_sys=True)
    except ModuleNotFoundError as error:
        raise UserError(
            f"This benchmark needs {error.name!r}, which is not installed: run make check once in the clone."
        ) from error
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    return 0
