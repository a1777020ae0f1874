"""A rule's condition in words, for the pages that explain it."""

from __future__ import annotations

from collections.abc import Iterator

from kvxray_backend.alerts.expression import (
    Absolute,
    All,
    AmongEngines,
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
from kvxray_backend.quantities import age_text

_THAN = {">": "is above", "<": "is below", "==": "is"}
_AMONG = {"max": "the largest {} of its fleet", "min": "the smallest {} of its fleet", "count": "engines that tell {}"}


def parts_of(node: Condition) -> Iterator[str]:
    """What must hold, one line each."""
    if isinstance(node, All):
        for one in node.of:
            yield from parts_of(one)
    else:
        yield words(node)


def words(node: Condition) -> str:
    if isinstance(node, Compare):
        ends = f" (while it fires: {number(node.clear)})" if node.clear is not None else ""
        return f"{number(node.left)} {_THAN[node.than]} {number(node.right)}{ends}"
    if isinstance(node, Still):
        return f"`{node.signal}` did not grow in {age_text(node.window_s)}"
    if isinstance(node, Grew):
        return f"`{node.signal}` grew in {age_text(node.window_s)}, or was born in it"
    if isinstance(node, Vanished):
        return f"`{node.signal}` was told {age_text(node.ago_s)} ago and is not now, while metrics are read"
    if isinstance(node, UpFor):
        return f"the process began more than {age_text(node.seconds)} ago"
    if isinstance(node, Awake):
        return "the engine was not put to sleep"
    if isinstance(node, Found):
        return _found(node)
    joined = " and " if isinstance(node, All) else " or "
    return "(" + joined.join(words(one) for one in node.of) + ")"


def number(node: Number) -> str:
    if isinstance(node, Constant):
        return f"{node.value:,.12g}"
    if isinstance(node, Now):
        return _signal(node.signal, node.part)
    if isinstance(node, Lowest):
        return f"the lowest {_signal(node.signal, node.part)} of {age_text(node.window_s)}"
    if isinstance(node, Highest):
        return f"the highest {_signal(node.signal, node.part)} of {age_text(node.window_s)}"
    if isinstance(node, Grown):
        return f"{_signal(node.signal, node.part)} in {age_text(node.window_s)}"
    if isinstance(node, Total):
        return f"all {_signal(node.signal)} in {age_text(node.window_s)}"
    return _made(node)


def _made(node: Number) -> str:
    if isinstance(node, Sum):
        return "(" + " + ".join(number(one) for one in node.terms) + ")"
    if isinstance(node, Minus):
        return f"({number(node.left)} − {number(node.right)})"
    if isinstance(node, Times):
        return f"{number(node.left)} × {number(node.right)}"
    if isinstance(node, Over):
        least = f", where that is more than {node.more_than:,.12g}" if node.more_than else ""
        least = f", taken as {node.at_least:,.12g} at least" if node.at_least is not None else least
        return f"({number(node.top)} ÷ {number(node.bottom)}{least})"
    if isinstance(node, Absolute):
        return f"the size of {number(node.of)}"
    if isinstance(node, Recorded):
        return number(node.of)
    if isinstance(node, Before):
        return f"what it was {age_text(node.ago_s)} ago"
    if isinstance(node, Mean):
        ago = f" that ended {age_text(node.ago_s)} ago" if node.ago_s else ""
        return f"its mean over {age_text(node.window_s)}{ago}"
    if isinstance(node, ElseNothing):
        return f"{number(node.of)} (0 where the engine has none)"
    if isinstance(node, FigureNow):
        return f"the figure `{node.name}`"
    assert isinstance(node, AmongEngines)
    return _AMONG[node.which].format(number(node.of))


def _signal(name: str, part: str = "") -> str:
    return f"`{name}`" + (f" ({part})" if part else "")


def _found(node: Found) -> str:
    kinds = " or ".join(f"`{kind}`" for kind in node.kinds)
    grave = f", {node.least} or graver," if node.least != "info" else ""
    reasons = f" for {', '.join(node.reasons)}" if node.reasons else ""
    recent = f", or began in the last {age_text(node.within_s)}" if node.within_s else ""
    return f"a finding {kinds}{grave}{reasons} is open{recent}"
