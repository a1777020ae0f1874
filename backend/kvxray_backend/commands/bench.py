"""Measure kvxray on this machine. Runs one of the scripts in benchmarks/ of a clone and prints what it found."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Final

from kvxray_engine.errors import UserError

SUMMARY: Final = "measure kvxray on this machine (needs a clone)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="what to measure, for example: start")
    parser.add_argument("--json", action="store_true", help="print one JSON object; progress goes to standard error")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="further options are the benchmark's own")


def run(options: argparse.Namespace) -> int:
    folder = Path.cwd() / "benchmarks"
    names = sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")
    if not names:
        raise UserError("There is no folder benchmarks/ here: run kvxray bench in a clone of the project.")
    if options.name not in names:
        raise UserError(f"There is no benchmark {options.name!r}; there are: {', '.join(names)}.")
    arguments = [*(["--json"] if options.json else []), *options.rest]
    return subprocess.call([sys.executable, "-m", f"benchmarks.{options.name}", *arguments], cwd=folder.parent)
