"""What a verdict is made from and what it is made of: figures by name, open findings, and how a source is followed.
Pure data, and how its numbers are written in sentences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor
from typing import Literal

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.figure import Figure

Status = Literal["healthy", "warning", "critical", "cannot_tell"]
Cause = Literal["kv", "compute", "queue", "transfer"]
Kind = Literal["blocks", "hashes", "metrics"]


@dataclass(frozen=True, slots=True)
class Signs:
    """One source at one moment. `figures`: by name, without a value where nothing is known. `connection`, `absence`: as
    the live state has them. `kind`: what its events tell of. `metrics`: of an engine of others, whether they are read.
    `trouble`: a sentence, why none of its events can be heard now.
    """

    connection: str
    figures: Mapping[str, Figure]
    findings: tuple[Finding, ...] = ()
    absence: str = ""
    kind: Kind = "blocks"
    metrics: Literal["none", "reading", "failing"] = "none"
    trouble: str = ""

    @property
    def is_of_others(self) -> bool:
        """An engine that tells of hashes, or nothing but metrics."""
        return self.kind != "blocks"

    def value(self, name: str) -> float | None:
        figure = self.figures.get(name)
        return figure.value if figure is not None else None

    def known(self, name: str) -> float:
        """For what was looked at before."""
        value = self.value(name)
        assert value is not None, f"{name} is not known"
        return value

    def values(self, *names: str) -> tuple[float, ...] | None:
        """All of them, or None where one is not known."""
        found = [value for name in names if (value := self.value(name)) is not None]
        return tuple(found) if len(found) == len(names) else None

    def finding(self, kind: str) -> Finding | None:
        """The gravest of that kind that is open."""
        found = [one for one in self.findings if one.kind == kind and one.state == "open"]
        return max(found, key=lambda one: one.severity == "critical", default=None)

    def has_finding(self, kind: str) -> bool:
        return any(finding.kind == kind for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Trouble:
    """What one rule found. `evidence`: names of the figures it rests on. `cause` None: it cannot be told which."""

    rule: str
    status: Status
    cause: Cause | None
    sentence: str
    advice: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`rule`: the one that gave the sentence. `also`: what else is wrong, as sentences. `not_judged`: what could not be
    looked at, and why.
    """

    status: Status
    cause: Cause | None
    rule: str
    sentence: str
    advice: str = ""
    evidence: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    not_judged: tuple[str, ...] = ()


def percent(ratio: float) -> str:
    """Halves up, as the page writes it."""
    if 0 < ratio < 0.0005:
        return "<0.1%"
    if 0.9995 <= ratio < 1:
        return ">99.9%"
    return f"{floor(ratio * 1000 + 0.5) / 10:.1f}%"


def counted(number: float, word: str) -> str:
    return f"{number:,.0f} {word}" if number == 1 else f"{number:,.0f} {word}s"


def lasting(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
