"""Whether a rule's condition holds at a moment: yes, no, or nobody knows. Pure.

What is not known makes no condition true and none false: `All` is false as soon as one part is, true only if all are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final

from kvxray_backend.alerts.evidence import Evidence
from kvxray_backend.alerts.expression import (
    Absolute,
    All,
    AmongEngines,
    Any,
    Awake,
    Before,
    Compare,
    Condition,
    Constant,
    ElseNothing,
    FigureNow,
    Found,
    Grew,
    Grown,
    Highest,
    Lowest,
    Mean,
    Minus,
    Now,
    Number,
    Over,
    Recorded,
    Still,
    Sum,
    Times,
    Total,
    UpFor,
    Vanished,
)
from kvxray_backend.analysis.finding import Finding

MEAN_EVERY_S: Final = 900.0
"""How finely the mean of a number over a window is made of numbers at moments."""
AHEAD_S: Final = 60.0
"""By so much an engine's clock may be ahead of ours."""
_GRAVITY: Final = ("info", "warning", "critical")


@dataclass(frozen=True, slots=True)
class Look:
    """engines: one, or for a rule of a fleet all of one model and role. is_firing: thresholds are those that hold while
    the rule fires.
    """

    engines: Sequence[Evidence]
    at_s: float
    is_firing: bool = False

    def holds(self, node: Condition) -> bool | None:
        """None: it cannot be told."""
        if isinstance(node, All):
            return _all(self.holds(one) for one in node.of)
        if isinstance(node, Any):
            return _not(_all(_not(self.holds(one)) for one in node.of))
        if isinstance(node, Compare):
            return self._compare(node)
        if isinstance(node, Still):
            return _is(self._one.grown(node.signal, "", node.window_s, self.at_s, whole=True), "==", 0.0)
        if isinstance(node, Grew):
            return _is(self._one.grown(node.signal, "", node.window_s, self.at_s), ">", 0.0)
        if isinstance(node, Vanished):
            return self._vanished(node)
        if isinstance(node, UpFor):
            return _is(self._since(self._one.started_s), ">", node.seconds)
        if isinstance(node, Awake):
            return self._one.now("sleep_state", "awake", self.at_s) != 0
        return self._found(node)

    def number(self, node: Number) -> float | None:
        value = self._number(node)
        return value if value is not None and isfinite(value) else None

    def findings(self, node: Found) -> tuple[Finding, ...]:
        """Those that make it hold."""
        return tuple(one for one in self._one.findings or () if self._counts(node, one))

    @property
    def _one(self) -> Evidence:
        assert len(self.engines) == 1, "several engines are asked for by AmongEngines alone"
        return self.engines[0]

    def _number(self, node: Number) -> float | None:
        if isinstance(node, Constant):
            return node.value
        if isinstance(node, Now):
            return self._one.now(node.signal, node.part, self.at_s)
        if isinstance(node, Lowest):
            return self._one.lowest(node.signal, node.part, node.window_s, self.at_s)
        if isinstance(node, Highest):
            return self._one.highest(node.signal, node.part, node.window_s, self.at_s)
        if isinstance(node, Grown):
            return self._one.grown(node.signal, node.part, node.window_s, self.at_s)
        if isinstance(node, Total):
            return self._one.total(node.signal, node.window_s, self.at_s)
        if isinstance(node, FigureNow):
            figure = self._one.figures.get(node.name)
            return None if figure is None else figure.value
        return self._at_other_times(node)

    def _at_other_times(self, node: Number) -> float | None:
        if isinstance(node, Recorded):
            return self.number(node.of)
        if isinstance(node, Before):
            return Look(self.engines, self.at_s - node.ago_s, self.is_firing).number(node.of)
        if isinstance(node, Mean):
            return self._mean(node)
        if isinstance(node, AmongEngines):
            return self._among(node)
        return self._made(node)

    def _made(self, node: Number) -> float | None:
        if isinstance(node, Sum):
            return _sum(self.number(one) for one in node.terms)
        if isinstance(node, Absolute):
            value = self.number(node.of)
            return None if value is None else abs(value)
        if isinstance(node, ElseNothing):
            value = self.number(node.of)
            return value if value is not None or self.number(node.beside) is None else 0.0
        assert isinstance(node, Minus | Times | Over)
        left, right = (
            (self.number(node.top), self.number(node.bottom))
            if isinstance(node, Over)
            else (self.number(node.left), self.number(node.right))
        )
        if left is None or right is None:
            return None
        if isinstance(node, Over):
            return _divide(node, left, right)
        return left - right if isinstance(node, Minus) else left * right

    def _mean(self, node: Mean) -> float | None:
        """Of the moments at which it is known; None: at none. Whole minutes, so that looks ask for the same ones."""
        end_s, num = (self.at_s - node.ago_s) // 60 * 60, max(1, int(node.window_s / MEAN_EVERY_S))
        unread_s = self._one.unread_before_s
        if unread_s is not None and end_s - num * MEAN_EVERY_S < unread_s:
            # After a restart its past is read piece by piece, and of a piece it would be another mean.
            return None
        told = [
            value for step in range(num) if (value := self._recorded(node.of, end_s - step * MEAN_EVERY_S)) is not None
        ]
        return sum(told) / len(told) if told else None

    def _recorded(self, node: Recorded, at_s: float) -> float | None:
        return self._one.number(node.name, at_s, lambda: Look(self.engines, at_s).number(node.of))

    def _among(self, node: AmongEngines) -> float | None:
        told = [
            value
            for one in self.engines
            if (value := Look((one,), self.at_s, self.is_firing).number(node.of)) is not None
        ]
        if node.which == "count":
            return float(len(told))
        return (max(told) if node.which == "max" else min(told)) if told else None

    def _compare(self, node: Compare) -> bool | None:
        right = node.clear if self.is_firing and node.clear is not None else node.right
        limit = self.number(right)
        return None if limit is None else _is(self.number(node.left), node.than, limit)

    def _vanished(self, node: Vanished) -> bool | None:
        if not self._one.is_read(self.at_s):
            return None
        before = self._one.now(node.signal, "", self.at_s - node.ago_s)
        return before is not None and self._one.now(node.signal, "", self.at_s) is None

    def _since(self, started_s: float | None) -> float | None:
        return None if started_s is None else self.at_s - started_s

    def _found(self, node: Found) -> bool | None:
        return None if self._one.findings is None else bool(self.findings(node))

    def _counts(self, node: Found, one: Finding) -> bool:
        since_s = self.at_s - one.time_ns / 1e9
        # Of a time that lies ahead nobody knows how long ago it was.
        is_now = one.state == "open" or (node.within_s is not None and -AHEAD_S <= since_s <= node.within_s)
        reason = one.id.rpartition(":")[2]
        return (
            is_now
            and one.kind in node.kinds
            and _GRAVITY.index(one.severity) >= _GRAVITY.index(node.least)
            and (not node.reasons or reason in node.reasons)
        )


def _divide(node: Over, top: float, bottom: float) -> float | None:
    if node.at_least is not None:
        return top / max(bottom, node.at_least)
    return top / bottom if bottom > node.more_than else None


def _is(left: float | None, than: str, right: float) -> bool | None:
    if left is None:
        return None
    return left > right if than == ">" else left < right if than == "<" else left == right


def _all(parts: Iterable[bool | None]) -> bool | None:
    found = [*parts]
    if any(one is False for one in found):
        return False
    return None if any(one is None for one in found) else True


def _not(one: bool | None) -> bool | None:
    return None if one is None else not one


def _sum(values: Iterable[float | None]) -> float | None:
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total
