"""What a rule says, as a tree: numbers made of signals, and conditions on them and on findings. Pure data, so that one
tree is evaluated here, printed as PromQL and told in words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Literal

Comparison = Literal[">", "<", "=="]


@dataclass(frozen=True, slots=True)
class Constant:
    value: float


@dataclass(frozen=True, slots=True)
class Now:
    """A gauge as it was read last. part: of a signal that is told by parts; empty: all of it."""

    signal: str
    part: str = ""


@dataclass(frozen=True, slots=True)
class Lowest:
    """Of a gauge over the window, which must be known nearly whole: else a fresh engine would seem to have held it."""

    signal: str
    window_s: int
    part: str = ""


@dataclass(frozen=True, slots=True)
class Highest:
    signal: str
    window_s: int
    part: str = ""


@dataclass(frozen=True, slots=True)
class Grown:
    """What a counter grew by in the window; of a histogram, how many values came."""

    signal: str
    window_s: int
    part: str = ""


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of the values that came into a histogram in the window."""

    signal: str
    window_s: int


@dataclass(frozen=True, slots=True)
class Sum:
    terms: tuple[Number, ...]


@dataclass(frozen=True, slots=True)
class Minus:
    left: Number
    right: Number


@dataclass(frozen=True, slots=True)
class Times:
    left: Number
    right: Number


@dataclass(frozen=True, slots=True)
class Over:
    """A division. more_than: with no larger denominator there is no value, since a share of next to nothing says
    nothing. at_least: a smaller denominator counts as this much.
    """

    top: Number
    bottom: Number
    more_than: float = 0.0
    at_least: float | None = None


@dataclass(frozen=True, slots=True)
class Absolute:
    of: Number


@dataclass(frozen=True, slots=True)
class Recorded:
    """A number that Prometheus keeps under a name, since it is asked for as it was before."""

    name: str
    of: Number


@dataclass(frozen=True, slots=True)
class Before:
    """The number as it was that long ago."""

    of: Recorded
    ago_s: int


@dataclass(frozen=True, slots=True)
class Mean:
    """Of the number over a window that ended `ago_s` ago."""

    of: Recorded
    window_s: int
    ago_s: int = 0


@dataclass(frozen=True, slots=True)
class ElseNothing:
    """0 where an engine does not tell it though it tells `beside`: it has no such thing, and tells of none."""

    of: Number
    beside: Now


@dataclass(frozen=True, slots=True)
class FigureNow:
    """A figure of the overview or of the live page, which rests on more than metrics."""

    name: str


@dataclass(frozen=True, slots=True)
class AmongEngines:
    """The largest or smallest among engines of one model and role, or how many tell it."""

    which: Literal["max", "min", "count"]
    of: Now


Number = (
    Constant
    | Now
    | Lowest
    | Highest
    | Grown
    | Total
    | Sum
    | Minus
    | Times
    | Over
    | Absolute
    | Recorded
    | Before
    | Mean
    | ElseNothing
    | FigureNow
    | AmongEngines
)


@dataclass(frozen=True, slots=True)
class Compare:
    """clear: while the rule fires this takes the place of `right`, so that a value about the threshold does not ring
    again and again. None: the threshold itself.
    """

    left: Number
    than: Comparison
    right: Number
    clear: Number | None = None


@dataclass(frozen=True, slots=True)
class Still:
    """A counter that did not grow in the window, all of which is known."""

    signal: str
    window_s: int


@dataclass(frozen=True, slots=True)
class Grew:
    """A counter that grew in the window, or was born in it with something in it."""

    signal: str
    window_s: int


@dataclass(frozen=True, slots=True)
class Vanished:
    """Told `ago_s` ago and not now, though metrics are read."""

    signal: str
    ago_s: int


@dataclass(frozen=True, slots=True)
class UpFor:
    """The process began longer ago than that: its cache is not cold any more."""

    seconds: int


@dataclass(frozen=True, slots=True)
class Awake:
    """Not put to sleep by whoever runs it; an engine that knows no sleep is awake."""


@dataclass(frozen=True, slots=True)
class Found:
    """A finding of one of these kinds that is open, or began no longer ago than `within_s`. reasons: ends of its id,
    where the kind has several. least: how grave it must be.
    """

    kinds: tuple[str, ...]
    least: Literal["info", "warning", "critical"] = "info"
    within_s: int | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class All:
    of: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Any:
    of: tuple[Condition, ...]


Condition = Compare | Still | Grew | Vanished | UpFor | Awake | Found | All | Any
Node = Number | Condition


def walk(node: Node) -> Iterator[Node]:
    """It and all below it."""
    yield node
    for one in _children(node):
        yield from walk(one)


def signals_in(node: Node) -> tuple[str, ...]:
    """Those that an engine must tell, each once. What may be missing is left out."""
    if isinstance(node, ElseNothing):
        return signals_in(node.beside)
    found = [node.signal] if isinstance(node, _OF_SIGNALS) else []
    for one in _children(node):
        found.extend(signals_in(one))
    return tuple(dict.fromkeys(found))


def window_of(node: Node) -> int:
    """How far back it looks, in seconds."""
    below = max((window_of(one) for one in _children(node)), default=0)
    return int(below + getattr(node, "ago_s", 0) + getattr(node, "window_s", 0))


def _children(node: Node) -> Iterator[Node]:
    for field in fields(node):
        value = getattr(node, field.name)
        yield from (one for one in (value if isinstance(value, tuple) else (value,)) if isinstance(one, _NODES))


_OF_SIGNALS = (Now, Lowest, Highest, Grown, Total, Still, Grew, Vanished)
_NODES = (
    Constant, Now, Lowest, Highest, Grown, Total, Sum, Minus, Times, Over, Absolute, Recorded, Before, Mean,
    ElseNothing, FigureNow, AmongEngines, Compare, Still, Grew, Vanished, UpFor, Awake, Found, All, Any,
)  # fmt: skip
