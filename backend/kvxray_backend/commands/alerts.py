"""The alert rules of kvxray, for a Prometheus that you have; and rules of your own, checked before anything relies on
them.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvxray_engine.errors import UserError

if TYPE_CHECKING:
    from kvxray_backend.alerts.rule import Rule
    from kvxray_backend.metrics.names import Family

SUMMARY: Final = "print alert rules for Prometheus, check rules of your own, say when rules would have fired"
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

    test = parts.add_parser(
        "test", help="say when rules would have fired", allow_abbrev=False,
        description="Say when rules would have fired, over what is stored: beside a running kvxray, or without one.",
    )  # fmt: skip
    test.add_argument("--rule", metavar="NAME", action="append", default=[], help="only this one; may be repeated")
    test.add_argument("--own", metavar="FILE", type=Path, action="append", default=[], help="the rules of this file")
    test.add_argument("--from", dest="begin", metavar="TIME", default="7d", help="7d, 12h, or an ISO-8601 time")
    test.add_argument("--to", dest="end", metavar="TIME", default="now", help="now, an age, or an ISO-8601 time")
    test.add_argument("--engine", metavar="NAME", default="", help="only over this one; else over all")
    test.add_argument("--database", metavar="URL", help="the event log, as a SQLAlchemy URL (else KVXRAY_DATABASE_URL)")
    test.add_argument("--json", action="store_true", help="print JSON instead of sentences")


def run(options: argparse.Namespace) -> int:
    return {"rules": _rules, "check": _check, "test": _test}[options.part](options)


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


def _test(options: argparse.Namespace) -> int:
    from kvxray_backend.alerts.trial_command import as_json, as_text, try_rules
    from kvxray_backend.storage_work.opening import reading, settings_of
    from kvxray_backend.told_to_end import ending_cleanly

    settings, rules, views = settings_of(options), _asked_for(options), []
    with ending_cleanly() as told, reading(settings) as database:
        for view in try_rules(database, settings, rules, options.begin, options.end, options.engine):
            views.append(view)
            if not options.json:
                sys.stdout.write(as_text(view))
        if options.json:
            sys.stdout.write(f"{json.dumps(as_json(views), indent=1)}\n")
    return 0 if told.exit_code is None else told.exit_code


def _asked_for(options: argparse.Namespace) -> list[Rule]:
    """Those of files, and those that are named, of them or built in; all built-in ones where neither is given."""
    from kvxray_backend.alerts.own_rules import read_all
    from kvxray_backend.alerts.rules import RULES

    own = {rule.name: rule for rule in read_all(options.own)}
    known = {**RULES, **own}
    missing = [name for name in options.rule if name not in known]
    if missing:
        raise UserError(f"There is no rule {missing[0][:80]!r}; docs/rules lists the built-in ones.")
    return [known[name] for name in options.rule] or [*own.values()] or [*RULES.values()]
