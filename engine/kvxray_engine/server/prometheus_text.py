"""Prometheus metrics as text (exposition format 0.0.4): families, samples, and histograms that count by bucket.

Knows no engine. Counters carry their `_total` in their name, as Prometheus shows them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Sample:
    """One line: a value of the family's name + suffix under these labels."""

    value: float
    labels: Labels = field(default_factory=dict)
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
            samples.append(Sample(total, {**labels, "le": _number(bound)}, "_bucket"))
        samples += [Sample(self._sum, labels, "_sum"), Sample(total, labels, "_count")]
        return Family(self.name, self._help, "histogram", samples)


def exposition(families: Iterable[Family]) -> str:
    """The text that Prometheus scrapes."""
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {_escape(family.help, quote=False)}")
        lines.append(f"# TYPE {family.name} {family.type}")
        lines += [_line(family.name, sample) for sample in family.samples]
    return "\n".join(lines) + "\n"


def _line(name: str, sample: Sample) -> str:
    labels = ",".join(f'{label}="{_escape(value)}"' for label, value in sample.labels.items())
    return f"{name}{sample.suffix}{{{labels}}} {_number(sample.value)}"


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return repr(float(value))


def _escape(text: str, quote: bool = True) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text
