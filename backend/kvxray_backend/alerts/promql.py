"""A rule's condition as PromQL, over the metrics of one family by the names that it gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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
from kvxray_backend.metrics.names import Family
from kvxray_backend.metrics.reading import RANK_LABELS
from kvxray_backend.metrics.signal import Signal, Term, Told
from kvxray_backend.metrics.signals import SIGNALS
from kvxray_backend.quantities import age_text

# Who is one engine, by the labels that each make gives its series.
ENGINE_LABELS: Final[dict[Family, tuple[str, ...]]] = {
    "vllm": ("instance", "engine", "model_name"),
    "sglang": ("instance", "model_name", "dp_rank"),
    "trtllm": ("instance", "model_name"),
    "dynamo": ("instance", "model"),
    "lmcache": ("instance",),
    "router": ("instance",),
}
# Who is one fleet.
FLEET_LABELS: Final = ("model_name", "role")
_WITH_COLON: Final = frozenset({"vllm", "sglang", "lmcache"})


def prometheus_name(canonical: str) -> str:
    """As its make spells it: `vllm:x`, but `trtllm_x`."""
    prefix, _, rest = canonical.partition(":")
    return f"{prefix}:{rest}" if prefix in _WITH_COLON else f"{prefix}_{rest}"


def recorded_name(family: Family, recorded: Recorded) -> str:
    return f"kvxray:{family}_{recorded.name}"


def engine_labels(family: Family, *, of_fleet: bool = False) -> tuple[str, ...]:
    labels = ENGINE_LABELS[family]
    return (*labels, "role") if of_fleet else labels


@dataclass(frozen=True, slots=True)
class PromQL:
    """of_fleet: engines are told apart by role too. is_firing: thresholds are those that hold while the rule fires."""

    family: Family
    of_fleet: bool = False
    is_firing: bool = False

    def condition(self, node: Condition) -> str:
        if isinstance(node, Compare):
            right = node.clear if self.is_firing and node.clear is not None else node.right
            return f"{self.number(node.left)} {node.than} {self.number(right)}"
        if isinstance(node, Still):
            return f"{self.number(Grown(node.signal, node.window_s))} == 0"
        if isinstance(node, Grew):
            return self._grew(node)
        if isinstance(node, Vanished):
            return self._vanished(node)
        if isinstance(node, All):
            return self._all(node)
        if isinstance(node, Any):
            return "(" + " or ".join(self.condition(one) for one in node.of) + ")"
        if isinstance(node, UpFor):
            return f"time() - process_start_time_seconds > {node.seconds}"
        raise AssertionError(f"no Prometheus tells {type(node).__name__}")

    def number(self, node: Number) -> str:
        """With brackets round whatever is not one thing."""
        if isinstance(node, Constant):
            return f"{node.value:.12g}"
        if isinstance(node, Now | Lowest | Highest | Grown | Total):
            return self._told(node)
        if isinstance(node, Recorded):
            return recorded_name(self.family, node)
        if isinstance(node, Before):
            return f"({recorded_name(self.family, node.of)} offset {age_text(node.ago_s)})"
        if isinstance(node, Mean):
            ago = f" offset {age_text(node.ago_s)}" if node.ago_s else ""
            return f"avg_over_time({recorded_name(self.family, node.of)}[{age_text(node.window_s)}]{ago})"
        if isinstance(node, AmongEngines):
            return f"{node.which} by ({','.join(FLEET_LABELS)})({self.number(node.of)})"
        return self._made(node)

    def made(self, node: Recorded) -> str:
        """The expression that is recorded."""
        return self.number(node.of)

    def _made(self, node: Number) -> str:
        if isinstance(node, Sum):
            return "(" + " + ".join(self.number(one) for one in node.terms) + ")"
        if isinstance(node, Minus):
            return f"({self.number(node.left)} - {self.number(node.right)})"
        if isinstance(node, Times):
            return f"({self.number(node.left)} * {self.number(node.right)})"
        if isinstance(node, Over):
            bottom = self.number(node.bottom)
            if node.at_least is not None:
                bottom = f"clamp_min({bottom}, {node.at_least:.12g})"
            else:
                bottom = f"({bottom} > {node.more_than:.12g})"
            return f"({self.number(node.top)} / {bottom})"
        if isinstance(node, Absolute):
            return f"abs({self.number(node.of)})"
        if isinstance(node, ElseNothing):
            return f"({self.number(node.of)} or 0 * {self.number(node.beside)})"
        raise AssertionError(f"no Prometheus tells {type(node).__name__}")

    def _all(self, node: All) -> str:
        text = ""
        for one in node.of:
            if isinstance(one, Awake):
                asleep = f"{self._series(SIGNALS['sleep_state'], 'awake')[0]} == 0"
                text += f"\nunless on (instance) ({asleep})"
            elif isinstance(one, UpFor):
                text += f"\nand on (instance) ({self.condition(one)})"
            else:
                text += ("\nand " if text else "") + self.condition(one)
        return text

    def _grew(self, node: Grew) -> str:
        told, window = self._whole(SIGNALS[node.signal], "{}"), age_text(node.window_s)
        grown = self.number(Grown(node.signal, node.window_s))
        before = self._whole(SIGNALS[node.signal], f"{{}} offset {window}")
        return f"({grown} > 0 or ({told} > 0 unless {before}))"

    def _vanished(self, node: Vanished) -> str:
        signal = SIGNALS[node.signal]
        now = " or ".join(f"max by (instance)({one})" for one in self._series(signal))
        before = " or ".join(f"max by (instance)({one} offset {age_text(node.ago_s)})" for one in self._series(signal))
        return f"(({before}) unless ({now})) and on (instance) (up == 1)"

    def _told(self, node: Now | Lowest | Highest | Grown | Total) -> str:
        signal, part = SIGNALS[node.signal], getattr(node, "part", "")
        if isinstance(node, Now):
            return self._whole(signal, "{}", part)
        function = {Lowest: "min_over_time", Highest: "max_over_time"}.get(type(node), "increase")
        suffix = "_sum" if isinstance(node, Total) else ""
        return self._whole(signal, f"{function}({{}}[{age_text(node.window_s)}])", part, suffix)

    def _whole(self, signal: Signal, form: str, part: str = "", suffix: str = "") -> str:
        """Of one engine, each fact once; the first way to tell it, and the first name, that there is."""
        by = ",".join(engine_labels(self.family, of_fleet=self.of_fleet))
        ways = [self._way(way, signal, form, part, suffix, by) for way in self._ways(signal)]
        told = [one for names in ways for one in names]
        return told[0] if len(told) == 1 else "(" + " or ".join(told) + ")"

    def _ways(self, signal: Signal) -> tuple[Told, ...]:
        return signal.told[self.family]

    def _way(self, way: Told, signal: Signal, form: str, part: str, suffix: str, by: str) -> list[str]:
        """By each of its names; of several metrics that are added up, by their names of today."""
        if len(way.terms) == 1:
            names = [self._aggregated(series, signal, form, by) for series in _spelled(way, signal, part, suffix)]
        else:
            sums = (_spelled(Told((term,), way.split), signal, part, suffix)[0] for term in way.terms)
            names = ["(" + " + ".join(self._aggregated(series, signal, form, by) for series in sums) + ")"]
        return [self._in_our_unit(name, way) for name in names]

    def _in_our_unit(self, text: str, way: Told) -> str:
        if way.times:
            text = f"({text} * {self._whole(SIGNALS[way.times], '{}')})"
        return f"({text} * {way.factor:.12g})" if way.factor != 1 else text

    def _aggregated(self, series: str, signal: Signal, form: str, by: str) -> str:
        told = form.format(series)
        if signal.combine == "max":
            return f"max by ({by})({told})"
        if self.family != "sglang":
            return f"sum by ({by})({told})"
        if signal.kind == "gauge" and not signal.split_labels:
            return f"max by ({by})({told})"
        # Ranks repeat each other: parts are summed within each, and one of them speaks for all.
        return f"max by ({by})(sum by ({by},{','.join(RANK_LABELS)})({told}))"

    def _series(self, signal: Signal, part: str = "") -> list[str]:
        return [one for way in self._ways(signal) for one in _spelled(way, signal, part, "")]


def _spelled(way: Told, signal: Signal, part: str, suffix: str) -> list[str]:
    """The series of a way that has one term, by each of its names."""
    (term,) = way.terms
    chosen = _selector(term, way.split, part)
    ending = suffix or {"counter": "_total", "histogram": "_count", "gauge": ""}[signal.kind]
    return [f"{prometheus_name(name)}{ending}{chosen}" for name in term.names]


def _selector(term: Term, split: str, part: str) -> str:
    only = dict(term.only)
    if split and part:
        only[split] = (part,)
    if not only:
        return ""
    told = (
        f'{label}="{values[0]}"' if len(values) == 1 else f'{label}=~"{"|".join(values)}"'
        for label, values in sorted(only.items())
    )
    return "{" + ",".join(told) + "}"
