"""Rules of one's own out of a YAML file, over the same signals, figures and findings; docs/rules says how to write
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, cast

import yaml
from kvxray_engine.errors import UserError

from kvxray_backend.alerts.expression import (
    All,
    Any,
    Compare,
    Comparison,
    Condition,
    Constant,
    FigureNow,
    Found,
    Grown,
    Highest,
    Lowest,
    Now,
    Number,
    Over,
    signals_in,
    walk,
)
from kvxray_backend.alerts.rule import Rule, families_that_tell
from kvxray_backend.alerts.rules import RULES
from kvxray_backend.alerts.yaml_fields import Field, by_name, each, read_fields
from kvxray_backend.analysis.finding import Severity
from kvxray_backend.life_figures import LIFE_UNITS
from kvxray_backend.metrics.signals import SIGNALS
from kvxray_backend.observed.engines_file import read_file
from kvxray_backend.overview_signals import FIGURES
from kvxray_backend.residency.figures import FROM_METRICS, UNITS

MAX_RULES: Final = 200
MAX_CONDITIONS: Final = 50
MAX_STEPS: Final = 20
MAX_FOR_S: Final = 7 * 86_400
LEAST_WINDOW_S: Final = 60
SEVERITIES: Final = ("info", "warning", "critical")
FIGURE_NAMES: Final = tuple(dict.fromkeys((*FIGURES, *UNITS, *FROM_METRICS, *LIFE_UNITS)))
FINDING_KINDS: Final = (
    "leak", "stuck_pin", "stale_hash", "stale_hit", "cross_tenant_prefix", "preemption_loop", "admission_stuck",
    "thrash", "gap", "no_snapshot", "restart", "stale", "drops", "malformed", "audit", "ref_underflow", "double_free",
    "ref_mismatch", "storage", "seq_gap", "duplicate_batch", "late_batch", "engine_restart", "joined_midstream",
    "stale_stream", "late_reset", "unknown_or_partial_event", "orphan_parent", "store_on_missing_parent",
    "duplicate_store", "remove_unknown", "block_size_changed", "token_count_mismatch", "sparse_group",
    "hash_namespace_collision", "resident_over_capacity", "unreachable_resident", "hash_seed_mismatch",
    "counter_reset", "metrics_contradiction", "conservation_violation", "hit_rate_suspect", "config",
)  # fmt: skip
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}", re.ASCII)
_RULE_FIELDS: Final = ("name", "severity", "for", "keep_firing", "sentence", "do", "when")
_THAN: Final[dict[str, Comparison]] = {"above": ">", "below": "<", "equals": "=="}
_LIMIT: Final = (*_THAN, "clear")
_MORE: Final[dict[str, tuple[str, ...]]] = {
    "now": ("part", *_LIMIT),
    "lowest": ("part", "over", *_LIMIT),
    "highest": ("part", "over", *_LIMIT),
    "grown": ("part", "over", "by", "more_than", *_LIMIT),
    "figure": _LIMIT,
    "finding": ("least", "within"),
    "all": (),
    "any": (),
}
"""What a condition asks for, and what it may say beside it."""


def read_rules(path: Path) -> tuple[Rule, ...]:
    """Raises `UserError`: one sentence with file, line and field."""
    try:
        return rules_in(read_file(path))
    except UserError as error:
        said = str(error)
        raise UserError(said if str(path) in said else f"Mend the file {path}: {said}") from error


def read_all(paths: Iterable[Path]) -> tuple[Rule, ...]:
    """Of several files, in which each name is one rule's. Raises `UserError`, likewise."""
    found, faults = dict[str, tuple[Path, Rule]](), list[str]()
    for path in paths:
        try:
            rules = read_rules(path)
        except UserError as error:
            faults.append(str(error))
            continue
        for rule in rules:
            if rule.name in found:
                faults.append(f"Mend the file {path}: {rule.name} is the name of a rule in {found[rule.name][0]}.")
            found[rule.name] = path, rule
    if faults:
        raise UserError(" ".join(faults))
    return tuple(rule for _, rule in found.values())


def rules_in(text: bytes) -> tuple[Rule, ...]:
    """Raises `UserError`: all that is wrong, a sentence each, with line and field."""
    whole = read_fields(text)
    listed = whole.fields(("rules",), ("rules",))["rules"].items(MAX_RULES) if whole is not None else []
    names: set[str] = set()
    return tuple(each(partial(_named_rule, _called(one, number), names) for number, one in enumerate(listed, 1)))


def _called(whole: Field, number: int) -> Field:
    """By its name, where it has one."""
    pairs = whole.node.value if isinstance(whole.node, yaml.MappingNode) else []
    names = [str(value.value) for key, value in pairs if key.value == "name"]
    return replace(whole, path=names[0] if names and _NAME.fullmatch(names[0]) else f"rule {number}")


def _named_rule(whole: Field, names: set[str]) -> Rule:
    """names: those of the rules before it."""
    rule = _rule(whole)
    if rule.name in names or rule.name in RULES:
        whose = "a built-in rule" if rule.name in RULES else "another rule"
        raise whole.error(f"{rule.name} is the name of {whose}")
    names.add(rule.name)
    return rule


def _rule(whole: Field) -> Rule:
    fields, faulty = whole.those(_RULE_FIELDS, ("name", "sentence", "when"))
    made: dict[str, object] = dict(each((partial(_read, name, one) for name, one in fields.items()), beside=faulty))
    when = cast("Condition", made["when"])
    return Rule(
        cast("str", made["name"]),
        cast("Severity", made.get("severity", "warning")),
        when,
        cast("int", made.get("for", 0)),
        families_that_tell(when) or ("events", "blocks"),
        cast("str", made["sentence"]),
        cast("tuple[str, ...]", made.get("do", ())),
        "",
        cast("int", made.get("keep_firing", 0)),
    )


def _read(name: str, field: Field) -> tuple[str, object]:
    """A field of a rule, and what it says."""
    if name == "name":
        return name, _name(field)
    if name == "when":
        return name, _when(field)
    if name == "severity":
        return name, field.one_of(SEVERITIES)
    if name == "do":
        return name, tuple(each(step.text for step in field.items(MAX_STEPS)))
    return name, field.text() if name == "sentence" else field.seconds(0, MAX_FOR_S)


def _name(field: Field) -> str:
    name = field.text()
    if _NAME.fullmatch(name) is None:
        raise field.error("a name is up to 64 letters, digits and underscores, a letter first")
    return name


def _when(field: Field) -> Condition:
    when = _every(field)
    if sum(1 for _ in walk(when)) > MAX_CONDITIONS * 4:
        raise field.error(f"it asks for more than about {MAX_CONDITIONS} things")
    if signals_in(when) and not families_that_tell(when):
        raise field.error(f"no make tells all of {', '.join(signals_in(when))}")
    return when


def _every(field: Field) -> All:
    return All(tuple(each(partial(_condition, one) for one in field.items(MAX_CONDITIONS))))


def _condition(whole: Field) -> Condition:
    fields = whole.fields(tuple(dict.fromkeys([*_MORE, *(name for names in _MORE.values() for name in names)])))
    asked = [name for name in fields if name in _MORE]
    if len(asked) != 1:
        raise whole.error(f"it asks for one of {', '.join(_MORE)}")
    kind = asked[0]
    odd = next((name for name in fields if name != kind and name not in _MORE[kind]), None)
    if odd is not None:
        raise fields[odd].error(f"{kind} knows no {odd}")
    if kind == "all":
        return _every(fields[kind])
    if kind == "any":
        return Any(_every(fields[kind]).of)
    if kind == "finding":
        return _finding(fields)
    return _limited(whole, fields, _number(kind, fields))


def _finding(fields: dict[str, Field]) -> Found:
    told = fields["finding"]
    several = told.node.id == "sequence"
    kinds = tuple(one.one_of(FINDING_KINDS) for one in (told.items(len(FINDING_KINDS)) if several else [told]))
    least = by_name(fields, "least", SEVERITIES, "info")
    within_s = fields["within"].seconds(1, 3_600) if "within" in fields else None
    return Found(kinds, cast("Severity", least), within_s)


def _number(kind: str, fields: dict[str, Field]) -> Number:
    if kind == "figure":
        return FigureNow(fields[kind].one_of(FIGURE_NAMES))
    signal = _signal(fields[kind], gauge=kind != "grown")
    part = _part(fields, signal)
    if kind == "now":
        return Now(signal, part)
    if "over" not in fields:
        raise fields[kind].error("it lacks over, such as over: 10m")
    window_s = fields["over"].seconds(LEAST_WINDOW_S, 86_400)
    if kind != "grown":
        return (Lowest if kind == "lowest" else Highest)(signal, window_s, part)
    top = Grown(signal, window_s, part)
    if "by" not in fields:
        if "more_than" in fields:
            raise fields["more_than"].error("it is about by, and there is none")
        return top
    least = fields["more_than"].number() if "more_than" in fields else 0.0
    if least < 0:
        raise fields["more_than"].error("it is at least 0")
    return Over(top, Grown(_signal(fields["by"], gauge=False), window_s), more_than=least)


def _signal(field: Field, *, gauge: bool) -> str:
    name = field.one_of(SIGNALS)
    if (SIGNALS[name].kind == "gauge") != gauge:
        wanted = "grown asks for what is counted" if not gauge else "now, lowest and highest ask for gauges"
        raise field.error(f"{name} is a {SIGNALS[name].kind}; {wanted}")
    return name


def _part(fields: dict[str, Field], signal: str) -> str:
    if "part" not in fields:
        return ""
    if not SIGNALS[signal].split_labels:
        raise fields["part"].error(f"{signal} is not told by parts")
    part = fields["part"].text()
    if re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", part, re.ASCII) is None:
        raise fields["part"].error("a part is up to 64 letters, digits, dots, dashes and underscores")
    return part


def _limited(whole: Field, fields: dict[str, Field], number: Number) -> Compare:
    limits = [name for name in _THAN if name in fields]
    if len(limits) != 1:
        raise whole.error("it needs one of above, below, equals")
    than, limit = limits[0], fields[limits[0]].number()
    if "clear" not in fields:
        return Compare(number, _THAN[than], Constant(limit))
    clear = fields["clear"].number()
    if than == "equals" or (clear > limit if than == "above" else clear < limit):
        raise fields["clear"].error(f"it lies beyond {than}; it is where a rule that fires ends, so on the other side")
    return Compare(number, _THAN[than], Constant(limit), Constant(clear))
