"""Prometheus metrics as text (format 0.0.4, or OpenMetrics 1.0): families, samples, histograms that count by bucket.

Knows no engine. Counters carry their `_total` in their name, as Prometheus shows them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LabelText:
    """Labels as they are written, for whoever has many samples under the same ones."""

    text: str = ""

    def plus(self, **labels: str) -> LabelText:
        return self.beside(LabelText(_label_text(labels)))

    def beside(self, more: LabelText) -> LabelText:
        return LabelText(f"{self.text},{more.text}" if self.text and more.text else self.text or more.text)


@dataclass(frozen=True, slots=True)
class Sample:
    """One line: a value of the family's name + suffix under these labels."""

    value: float
    labels: Labels | LabelText = field(default_factory=dict)
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its samples share name, help and type."""

    name: str
    help: str
    type: Literal["counter", "gauge", "histogram"]
    samples: Sequence[Sample]


class Histogram:
    """Observations counted by bucket; `bounds` ascend, the bucket above the last has none."""

    def __init__(self, name: str, help_text: str, bounds: Sequence[float]) -> None:
        assert list(bounds) == sorted(set(bounds)), "the bounds of buckets ascend"
        self.name = name
        self._help = help_text
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += value * times

    def family(self, labels: Labels) -> Family:
        samples: list[Sample] = []
        total = 0
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            total += count
            samples.append(Sample(total, {**labels, "le": number_text(bound)}, "_bucket"))
        samples += [Sample(self._sum, labels, "_sum"), Sample(total, labels, "_count")]
        return Family(self.name, self._help, "histogram", samples)


def exposition(families: Iterable[Family], *, open_metrics: bool = False) -> str:
    """The text that Prometheus scrapes."""
    lines: list[str] = []
    for family in families:
        # OpenMetrics names a counter without the end that its samples have.
        name = family.name.removesuffix("_total") if open_metrics and family.type == "counter" else family.name
        lines.append(f"# HELP {name} {_escape(family.help, quote=open_metrics)}")
        lines.append(f"# TYPE {name} {family.type}")
        lines += [_line(family.name, sample) for sample in family.samples]
    if open_metrics:
        lines.append("# EOF")
    return "\n".join(lines) + "\n"


def _line(name: str, sample: Sample) -> str:
    labels = sample.labels.text if isinstance(sample.labels, LabelText) else _label_text(sample.labels)
    return f"{name}{sample.suffix}{{{labels}}} {number_text(sample.value)}"


def _label_text(labels: Labels) -> str:
    return ",".join(f'{label}="{_escape(value)}"' for label, value in labels.items())


def number_text(value: float) -> str:
    """As samples and bounds of buckets are written."""
    if value == float("inf"):
        return "+Inf"
    return repr(float(value))


@lru_cache(maxsize=4096)
def _escape(text: str, quote: bool = True) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text
