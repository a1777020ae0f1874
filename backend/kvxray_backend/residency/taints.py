"""Which open findings spoil what is said of cached hashes, and how sure a figure of them is. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.figure import Certainty, Figure, Unit

SPOILS_ALL: Final = frozenset({"stale_stream", "stale"})
"""Nothing is heard: everything is as it was."""
SPOILS_CACHED: Final = SPOILS_ALL | {
    "seq_gap", "joined_midstream", "resident_over_capacity", "metrics_contradiction", "conservation_violation",
}  # fmt: skip
"""What was lost or never told may have been a store or a removal."""
SPOILS_COUNTS: Final = SPOILS_CACHED - {"metrics_contradiction", "conservation_violation"}
SPOILS_EVENTS: Final = SPOILS_ALL | {"seq_gap", "storage"}
"""What is counted in a window of events. A join in the middle spoils it only until the window is over."""
SPOILS_CHAINS: Final = SPOILS_CACHED | {
    "orphan_parent", "store_on_missing_parent", "hash_namespace_collision", "sparse_group",
}  # fmt: skip
SPOILS_METRICS: Final = frozenset({"metrics_contradiction", "conservation_violation", "counter_reset"})
SPOILS_HIT_RATE: Final = SPOILS_METRICS | {"hit_rate_suspect"}


def ids_of(findings: Iterable[Finding], kinds: frozenset[str]) -> tuple[str, ...]:
    """Of the open ones among them."""
    return tuple(one.id for one in findings if one.kind in kinds and one.state == "open")


def figure(
    value: float | int | None,
    unit: Unit,
    findings: Iterable[Finding],
    spoils: frozenset[str],
    certainty: Certainty = "exact",
    since: str | None = None,
) -> Figure:
    """certainty: what it is unless a finding spoils it. What is tainted is never exact."""
    if certainty == "not_observable":
        return not_observable(unit)
    taints = ids_of(findings, spoils)
    return Figure(value=value, unit=unit, certainty="derived" if taints else certainty, since_seq=since, taints=taints)


def not_observable(unit: Unit) -> Figure:
    return Figure(value=None, unit=unit, certainty="not_observable")
