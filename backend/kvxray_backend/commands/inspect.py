"""Look into recordings of what engines told about their caches, with no engine and no server: what each cache held in
the end (or at a batch), what its prompts shared, what was removed and came back, and what the stream suffered.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

SUMMARY: Final = "look into recordings of foreign engines"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", metavar="FILE", nargs="+", type=Path,
        help="recordings: of kvxray record, of Dynamo, of TensorRT-LLM's events, or cases; plain or gzipped",
    )  # fmt: skip
    parser.add_argument("--at", metavar="SEQ", type=_number, help="only up to the batch of that number, of each stream")
    parser.add_argument(
        "--store-semantics", choices=("unknown", "copies", "reuse"), default="unknown",
        help="what a store of a hash that is there means: another copy of it, or a report of its use",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of sentences")


def run(options: argparse.Namespace) -> int:
    import msgspec

    from kvxray_backend.inspection.file_inspection import inspected
    from kvxray_backend.inspection.inspection_report import Inspection
    from kvxray_backend.inspection.report_text import text_of

    files = tuple(inspected(path, options.at, options.store_semantics) for path in options.files)
    inspection = Inspection(files)
    if options.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(inspection), indent=2).decode() + "\n")
    else:
        sys.stdout.write(text_of(inspection))
    return 0


def _number(text: str) -> int:
    if not (text.isdecimal() and text.isascii() and len(text) < 20):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number of a batch")
    return int(text)
