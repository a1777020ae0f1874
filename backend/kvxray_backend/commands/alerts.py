"""The alert rules of kvxray, for a Prometheus that you have; and rules of your own, checked before anything relies on
them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kvxray_backend.metrics.names import Family

SUMMARY: Final = "print alert rules for Prometheus, check rules of your own"
_MAKES: Final[tuple[Family, ...]] = ("vllm", "sglang", "trtllm", "dynamo", "lmcache", "router")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parts = parser.add_subparsers(dest="part", metavar="PART", required=True, parser_class=type(parser))
    rules = parts.add_parser(
        "rules", help="print the rules that a Prometheus can tell", allow_abbrev=False,
        description="Print the rules that a Prometheus can tell, as its rule file.",
    )  # fmt: skip
    rules.add_argument("--make", choices=_MAKES, action="append", help="only of this make; may be repeated")
    rules.add_argument("--own", metavar="FILE", type=Path, action="append", default=[], help="and those of this file")
    check = parts.add_parser(
        "check", help="check files with rules of your own", allow_abbrev=False,
        description="Check files with rules of your own: what each asks for, or line and field of what is wrong.",
    )  # fmt: skip
    check.add_argument(
        "files", metavar="FILE", nargs="+", type=Path, help="a YAML file; docs/rules says how to write it"
    )


def run(options: argparse.Namespace) -> int:
    return _rules(options) if options.part == "rules" else _check(options)


def _rules(options: argparse.Namespace) -> int:
    from kvxray_backend.alerts.own_rules import read_all
    from kvxray_backend.alerts.prometheus_rules import rule_file
    from kvxray_backend.alerts.rules import RULES

    own = read_all(options.own)
    families = tuple(make for make in _MAKES if options.make is None or make in options.make)
    sys.stdout.write(rule_file([*RULES.values(), *own], families))
    return 0


def _check(options: argparse.Namespace) -> int:
    from kvxray_backend.alerts.own_rules import read_all
    from kvxray_backend.alerts.rule_pages import told_shortly

    for rule in read_all(options.files):
        sys.stdout.write(f"{told_shortly(rule)}\n")
    return 0
