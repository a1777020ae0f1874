"""The cases of tests/data/rules: series as promtool writes them, and which alerts must fire when."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from kvxray_backend.metrics.exposition import Sample

CASES = Path(__file__).parents[2] / "data" / "rules" / "rules.test.yml"
INTERVAL_S = 60
_STEP = re.compile(r"(?P<first>-?[\d.]+|_)(?:(?P<step>[+-][\d.]+))?(?:x(?P<times>\d+))?")
_SERIES = re.compile(r"(?P<name>[\w:]+)\{(?P<labels>.*)\}")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True)
class Case:
    """series: by metric and labels, a value a minute; None: not told in that minute."""

    number: int
    alert: str
    at_s: int
    fires: bool
    labels: dict[str, str]
    series: dict[tuple[str, tuple[tuple[str, str], ...]], list[float | None]]

    def samples(self, minute: int, instance: str) -> tuple[Sample, ...]:
        """What one process told in that minute."""
        return tuple(
            Sample(name, {key: value for key, value in labels if key != "instance"}, told)
            for (name, labels), values in self.series.items()
            if dict(labels).get("instance") == instance and (told := at(values, minute)) is not None
        )

    @property
    def instances(self) -> list[str]:
        return sorted({dict(labels)["instance"] for _, labels in self.series})

    def role(self, instance: str) -> str:
        return next((dict(labels).get("role", "") for _, labels in self.series if dict(labels)["instance"] == instance))


def read_cases() -> list[Case]:
    return [*_cases(yaml.safe_load(CASES.read_text()))]


def at(values: list[float | None], minute: int) -> float | None:
    return values[minute] if minute < len(values) else None


def values_of(text: str) -> list[float | None]:
    """`0+60x3` is 0, 60, 120, 180; `5x2` is 5, 5, 5; `_x2` is nothing twice."""
    found: list[float | None] = []
    for word in text.split():
        match = _STEP.fullmatch(word)
        assert match, f"{word!r} is not understood"
        times, step = int(match["times"] or 0), float(match["step"] or 0)
        if match["first"] == "_":
            found += [None] * max(times, 1)
        else:
            found += [float(match["first"]) + step * number for number in range(times + 1)]
    return found


def _cases(raw: dict[str, Any]) -> Iterator[Case]:
    for number, test in enumerate(raw["tests"]):
        series = {}
        for one in test["input_series"]:
            match = _SERIES.fullmatch(one["series"])
            assert match
            series[match["name"], tuple(_LABEL.findall(match["labels"]))] = values_of(one["values"])
        for asked in test["alert_rule_test"]:
            alerts = asked["exp_alerts"]
            labels = alerts[0]["exp_labels"] if alerts else {}
            at_s = int(asked["eval_time"].removesuffix("m")) * 60
            yield Case(number, asked["alertname"], at_s, bool(alerts), labels, series)
