"""Say in plain words what this machine has of what kvxray can use, and what to do about the rest."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Final

SUMMARY: Final = "say what this machine has and what is missing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of sentences")


def run(options: argparse.Namespace) -> int:
    from kvxray_backend.doctor import examine

    findings = examine()
    if options.json:
        sys.stdout.write(json.dumps({one.name: one.as_json() for one in findings}, indent=2) + "\n")
    else:
        width = max(len(one.name) for one in findings)
        for one in findings:
            sys.stdout.write(f"{one.mark} {one.name:<{width}}  {one.sentence}\n")
    return 1 if any(one.level == "missing" for one in findings) else 0
