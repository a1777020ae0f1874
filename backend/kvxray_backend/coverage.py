"""What can be known of an engine: for every panel how sure it is, why, and what spoils it now. Pure, and the same for
engines of ours, for those that are watched, and for one that is only being tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from pydantic import Field

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.api_types import Answer
from kvxray_backend.coverage_panels import PANELS, Panel
from kvxray_backend.figure import Certainty
from kvxray_backend.metrics.signals import SIGNALS
from kvxray_backend.residency.taints import ids_of

Kind = Literal["blocks", "hashes", "metrics"]
MetricsState = Literal["none", "reading", "failing"]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of an engine. `is_heard`: at least one batch of its events came. `is_whole`: from the first of its
    life on, and nothing is missing. `tells_reuse`: its events report hits. `signals`: names of those that its metrics
    tell now. `has_capacity`: its number of blocks is known, whoever told. `findings`: those that are open.
    """

    kind: Kind
    is_heard: bool = False
    is_whole: bool = False
    tells_reuse: bool = False
    metrics: MetricsState = "none"
    signals: frozenset[str] = frozenset()
    has_capacity: bool = False
    findings: tuple[Finding, ...] = ()
    role: Literal["both", "prefill", "decode"] = "both"


class PanelCoverage(Answer):
    """One panel."""

    panel: str = Field(description="Its key.")
    label: str = Field(description="Its name on the page.")
    certainty: Certainty = Field(description="exact, derived or not_observable.")
    why: str = Field(description="One sentence that says why.")
    taints: tuple[str, ...] = Field(description="Ids of open findings that spoil it.")


class CoverageCount(Answer):
    """How many panels are how sure."""

    exact: int = Field(description="Panels that are exact.")
    derived: int = Field(description="Panels that are derived.")
    not_observable: int = Field(description="Panels of which nothing can be known.")


SPOILS_OF_BLOCKS: Final = frozenset({"gap", "no_snapshot", "stale", "audit", "ref_mismatch"})
Told = tuple[Certainty, str]
_WITHOUT_METRICS: Final = {
    "none": "and no metrics are read: give the address of its metrics page",
    "failing": "and its metrics cannot be read",
    "reading": "nor do its metrics",
}


def coverage_of(known: Known) -> list[PanelCoverage]:
    """Every panel, in the order in which pages show them."""
    return [_covered(panel, known) for panel in PANELS]


def count_of(known: Known) -> CoverageCount:
    """How many of them are how sure."""
    found = [_sure(panel, known)[0] for panel in PANELS]
    return CoverageCount(
        exact=found.count("exact"), derived=found.count("derived"), not_observable=found.count("not_observable")
    )


def _covered(panel: Panel, known: Known) -> PanelCoverage:
    certainty, why, taints = _sure(panel, known)
    return PanelCoverage(panel=panel.key, label=panel.label, certainty=certainty, why=why, taints=taints)


def _sure(panel: Panel, known: Known) -> tuple[Certainty, str, tuple[str, ...]]:
    certainty, why = _told(panel, known)
    spoils = SPOILS_OF_BLOCKS if known.kind == "blocks" else panel.spoils
    taints = ids_of(known.findings, spoils) if certainty != "not_observable" else ()
    if taints and certainty == "exact":
        certainty, why = "derived", f"{why.rstrip('.')}; open findings spoil it."
    return certainty, why, taints


def _told(panel: Panel, known: Known) -> Told:
    if known.kind == "blocks" and panel.is_of_blocks:
        return _by_blocks(known)
    if panel.key == "capacity" and known.has_capacity:
        return "exact", "The number of its blocks is told."
    if panel.needs == "blocks":
        return "not_observable", f"The events of this engine do not tell {panel.what}: that takes an engine of ours."
    if panel.needs == "hashes":
        return _by_hashes(panel, known)
    return _by_metrics(panel, known, "The engine's events do not tell")


def _by_blocks(known: Known) -> Told:
    if not known.is_heard:
        return "not_observable", "Nothing was heard of this engine yet."
    if not known.is_whole:
        return "derived", "Events tell it, and some of them are missing or blocks are still unknown."
    return "exact", "The engine's events tell it, block by block."


def _by_hashes(panel: Panel, known: Known) -> Told:
    if known.kind == "metrics":
        if known.role == "decode":
            reason = "A decode engine tells no events"
        else:
            reason = "No event stream is given, and metrics alone do not name hashes"
        return (
            _by_metrics(panel, known, f"{reason}, so nothing says")
            if panel.signals
            else ("not_observable", f"{reason}.")
        )
    if not known.is_heard:
        return "not_observable", "No batch of its events was heard yet."
    if panel.key == "reuse" and not known.tells_reuse:
        return _by_metrics(panel, known, "The events of this engine report no hits; nothing says")
    if not known.is_whole:
        return "derived", "Events tell it, but not from the engine's beginning: what was cached before may be missing."
    return "exact", "The engine's events tell every store and every removal, from its beginning on."


def _by_metrics(panel: Panel, known: Known, otherwise: str) -> Told:
    """otherwise: the beginning of the sentence where they do not tell it."""
    told = [name for name in panel.signals if name in known.signals]
    if told and known.metrics == "failing":
        return "derived", "Its metrics told it, and cannot be read just now."
    if told:
        if any(SIGNALS[name].certainty == "exact" for name in told):
            return "exact", "The engine counts every case, and its metrics tell it."
        if all(SIGNALS[name].kind == "histogram" for name in told):
            return "derived", "The engine's metrics tell it in steps of a histogram."
        return "derived", "The engine's metrics tell it, as it stands at the moment they are read."
    return "not_observable", f"{otherwise} {panel.what}, {_WITHOUT_METRICS[known.metrics]}."
