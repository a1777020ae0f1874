"""docs/rules out of the table of rules, a page each: `python -m kvxray_backend.alerts.rule_pages docs/rules`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from kvxray_backend.alerts.prometheus_rules import expression
from kvxray_backend.alerts.promql import PromQL, recorded_name
from kvxray_backend.alerts.rule import Rule
from kvxray_backend.alerts.rule_needs import needs_of
from kvxray_backend.alerts.rule_words import parts_of
from kvxray_backend.alerts.rules import RULES, TOPICS
from kvxray_backend.alerts.runbooks import runbook_of
from kvxray_backend.quantities import age_text

_HERE: Final = "http://127.0.0.1:8501"
"""Where kvxray listens unless told otherwise."""
_HEAD: Final = """# Alert rules

Made from the table in `backend/kvxray_backend/alerts`; a test holds these pages to it. One definition of each rule is
evaluated by kvxray, printed for Prometheus (`kvxray alerts rules`) and told here.

Each page says what the rule means, how to confirm it in kvxray, what to do in general, on vLLM and on SGLang, and what
a simpler rule gets wrong. [What an alert is, and where it goes](../alerts.md).

- **For.** A rule fires when it has held for so long; what nobody could tell in between does not count.
- **Two thresholds.** Where a second one is given it holds while the rule fires, so that a value about the first does
  not ring again and again.
- **No data** is neither 0 nor good news: what is pending comes no nearer to firing, and what fires goes on, said to be
  unknown, until it is known to be over.
- **Needs** says who can tell it: metrics of a make, events of hashes, or the events of kvxray's own engine. What needs
  events no Prometheus can tell.
"""
_OWN: Final = """
## Rules of your own

In a YAML file, over the same [signals](../signals.md), figures and findings; `kvxray alerts check FILE` says, with
line and field, what is wrong with it, and `kvxray alerts rules --own FILE` prints them for Prometheus too.

```yaml
rules:
- name: HostTierFull
  severity: warning            # info, warning or critical
  for: 10m                     # it must hold so long; 0s: at once
  keep_firing: 5m              # and goes on so long after it last held
  sentence: The host's tier is full and requests wait.
  do: [Give it more memory.]
  when:                        # all of these; `any:` and `all:` nest
  - {now: kv_usage_host, above: 0.95, clear: 0.9}
  - {lowest: requests_waiting, over: 5m, above: 0}
  - {grown: preemptions, over: 10m, above: 20}
  - {grown: prefix_hits, by: prefix_queries, over: 30m, below: 0.2, more_than: 50000}
  - {finding: seq_gap, least: warning}
```

A condition asks for one of `now`, `lowest`, `highest` (gauges), `grown` (counters; of a histogram how many values
came), `figure` (of the overview) or `finding` (a kind, or a list). `part` chooses one part of a signal that is told by
parts. `above`, `below` or `equals` is the threshold, `clear` the second one. `by` divides by another counter, of which
there must be `more_than` (0 unless said).
"""


def index_page() -> str:
    return "\n".join([_HEAD, *(line for topic, rules in TOPICS.items() for line in _topic(topic, rules))]) + _OWN


def rule_page(rule: Rule) -> str:
    """The runbook of one rule."""
    return "\n".join(_lines(rule))


def told_shortly(rule: Rule) -> str:
    """One line."""
    when = "; and ".join(parts_of(rule.when))
    return f"{rule.name}: {rule.severity}, {_after(rule)}; needs {needs_of(rule)}; when {when}."


def pages() -> dict[str, str]:
    """Every page by its name."""
    return {"README.md": index_page(), **{f"{rule.name}.md": rule_page(rule) for rule in RULES.values()}}


def _topic(topic: str, rules: tuple[Rule, ...]) -> Iterator[str]:
    yield f"## {topic}\n"
    yield "| rule | severity | for | needs | says |"
    yield "| --- | --- | --- | --- | --- |"
    for rule in rules:
        yield (
            f"| [{rule.name}]({rule.name}.md) | {rule.severity} | {_for(rule)} | {needs_of(rule)} | {rule.sentence} |"
        )
    yield ""


def _lines(rule: Rule) -> Iterator[str]:
    book = runbook_of(rule.name)
    yield f"# {rule.name}\n\n{rule.sentence} {book.meaning}\n"
    yield f"**{rule.severity.capitalize()}**, {_after(rule)}{_goes_on(rule)}. Needs: {needs_of(rule)}.\n"
    yield f"On the page: [its alerts, and how it stands for each engine]({_HERE}/alerts?rule={rule.name}).\n"
    yield from _listed("It fires when", parts_of(rule.when))
    yield from _numbered("How to confirm it in kvxray", book.confirm)
    yield from _numbered("What to do", rule.do)
    yield from _listed("On vLLM", book.on_vllm)
    yield from _listed("On SGLang", book.on_sglang)
    yield f"## What a simpler rule gets wrong\n\n{rule.trap}\n"
    if rule.families:
        yield "## In Prometheus\n"
        yield from _in_prometheus(rule)
    yield "[All rules](README.md) · [what an alert is](../alerts.md)\n"


def _listed(heading: str, points: Iterable[str]) -> Iterator[str]:
    yield f"## {heading}\n"
    yield from (f"- {one}" for one in points)
    yield ""


def _numbered(heading: str, steps: Iterable[str]) -> Iterator[str]:
    yield f"## {heading}\n"
    yield from (f"{number}. {step}" for number, step in enumerate(steps, 1))
    yield ""


def _in_prometheus(rule: Rule) -> Iterator[str]:
    for family in rule.families:
        yield "```promql"
        for one in rule.recorded():
            yield f"# recorded as {recorded_name(family, one)}\n{PromQL(family).made(one)}\n"
        yield f"{expression(rule, family)}\n```\n"


def _after(rule: Rule) -> str:
    return f"once it held for {age_text(rule.for_s)}" if rule.for_s else "at once"


def _for(rule: Rule) -> str:
    return age_text(rule.for_s) if rule.for_s else "at once"


def _goes_on(rule: Rule) -> str:
    return f", and on for {age_text(rule.keep_firing_s)} after it last held" if rule.keep_firing_s else ""


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text)
