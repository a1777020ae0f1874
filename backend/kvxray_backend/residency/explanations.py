"""Where two numbers on one page rightly differ, and why: a sentence for each such pair. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvxray_backend.analysis.stream_findings import STALE_AFTER_S
from kvxray_backend.analysis.verdict_signs import lasting, percent
from kvxray_backend.figure import Figure
from kvxray_backend.quantities import counted
from kvxray_backend.residency.answers import ExplanationView
from kvxray_backend.residency.foreign_source import ForeignMoment

SHOWN_APART: Final = 0.02
"""Shares that differ by less are drawn alike."""


def explanations(moment: ForeignMoment, figures: Mapping[str, Figure]) -> list[ExplanationView]:
    """All that apply, in the order of the panels."""
    told = [
        ("used", _usage(figures)),
        ("used", moment.metrics.sentence if moment.metrics is not None else ""),
        ("cached_set", _over_capacity(figures)),
        ("cached_set", _maybe(figures)),
        ("cached_set", _midstream(moment)),
        ("cached_set", _silent(moment)),
        ("tiers", _elsewhere(figures)),
        ("hit_rate", _hits_without_reports(moment, figures)),
        ("lifetimes", _idle(moment, figures)),
    ]
    return [ExplanationView(panel=panel, sentence=sentence) for panel, sentence in told if sentence]


def _value(figures: Mapping[str, Figure], name: str) -> float | None:
    return figures[name].value if name in figures else None


def _usage(figures: Mapping[str, Figure]) -> str:
    usage, cached, capacity = (_value(figures, name) for name in ("usage", "cached_blocks", "capacity_blocks"))
    if usage is None or not cached:
        return ""
    of = f"{cached:,.0f} of {counted(int(capacity), 'block')}" if capacity else counted(int(cached), "block")
    if capacity and abs(cached / capacity - usage) < SHOWN_APART:
        return ""
    are = "is" if cached == 1 and not capacity else "are"
    return (
        f"{percent(usage)} of the cache is in use while {of} {are} cached: in use are blocks that requests hold; "
        f"cached blocks that nobody holds are free for allocation and can still be hit."
    )


def _over_capacity(figures: Mapping[str, Figure]) -> str:
    cached, maybe, capacity = (_value(figures, name) for name in ("cached_blocks", "maybe_blocks", "capacity_blocks"))
    if cached is None or not capacity or cached <= capacity:
        return ""
    if maybe and cached - maybe <= capacity:
        return (
            f"{counted(int(cached), 'block')} are counted where the engine has {capacity:,.0f}: {maybe:,.0f} of them "
            f"may be reports that a block was used again, and no second copies."
        )
    return (
        f"{counted(int(cached), 'block')} are counted where the engine has {capacity:,.0f}: events that "
        f"told of removals were lost."
    )


def _maybe(figures: Mapping[str, Figure]) -> str:
    maybe, cached, capacity = (_value(figures, name) for name in ("maybe_blocks", "cached_blocks", "capacity_blocks"))
    if not maybe or (cached is not None and capacity and cached > capacity):
        return ""
    return (
        f"{counted(int(maybe), 'block')} may be there or not: {'its' if maybe == 1 else 'their'} hash was stored "
        f"again, which is a second copy or a report of a hit, and this engine does not say which."
    )


def _midstream(moment: ForeignMoment) -> str:
    if moment.columns is None or moment.columns.is_whole:
        return ""
    if any(finding.kind == "joined_midstream" for finding in moment.findings):
        return (
            "The engine ran before its events were followed: what it had cached until then is missing here until it is "
            "stored again, so the count is at least this."
        )
    return (
        "Some events were lost: what they stored is missing here, and what they removed may still be shown, so the "
        "count is near the truth and not exact."
    )


def _silent(moment: ForeignMoment) -> str:
    """Of one that is idle: of any other a finding says it."""
    if moment.columns is None or moment.state != "connected":
        return ""
    silent_s = (moment.now_ns - moment.columns.t_ns) / 1e9
    if silent_s < STALE_AFTER_S or any(finding.kind == "stale_stream" for finding in moment.findings):
        return ""
    return (
        f"Its last batch came {lasting(silent_s)} ago: it has no work, and an idle engine tells of nothing, not even "
        f"of a reset of its cache, before its next step."
    )


def _elsewhere(figures: Mapping[str, Figure]) -> str:
    elsewhere = _value(figures, "cached_elsewhere_blocks")
    if not elsewhere:
        return ""
    return (
        f"{counted(int(elsewhere), 'block')} more {'lies' if elsewhere == 1 else 'lie'} beyond the GPU (host, disk or "
        f"remote): the engine's usage and its number of blocks count the GPU alone."
    )


def _hits_without_reports(moment: ForeignMoment, figures: Mapping[str, Figure]) -> str:
    rate, reuses = _value(figures, "hit_rate"), _value(figures, "reuses_per_s")
    if moment.columns is None or not rate or reuses is not None:
        return ""
    return (
        f"The hit rate is {percent(rate)} while no reuse of a block is shown: the engine counts hits in its metrics "
        f"and does not report them in its events."
    )


def _idle(moment: ForeignMoment, figures: Mapping[str, Figure]) -> str:
    idle, reuses = _value(figures, "idle_p50_s"), _value(figures, "reuses_per_s")
    if moment.columns is None or idle is None or reuses is not None:
        return ""
    return (
        "Idle is the time since a block was last stored: hits are not told, so a block that is used all the time looks "
        "idle too."
    )
