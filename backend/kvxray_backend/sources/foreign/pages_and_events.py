"""The metrics of one engine beside its events: what each says of the other. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from kvxray_engine.stream.schema import Kind

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.residency_findings import certain_on
from kvxray_backend.metrics.book import FORGET_AFTER_S
from kvxray_backend.metrics.contradictions import AT_REST_S, LATE_S, Told
from kvxray_backend.sources.foreign.followed_source import FollowedSource
from kvxray_backend.sources.foreign.metrics_watch import MetricsWatch

CLOCKS_APART_S: Final = 10.0
"""Events of an engine whose clock is further from ours than that are of no page's minute (recordings, too)."""


def tell_capacity(watch: MetricsWatch | None, sources: Sequence[FollowedSource]) -> None:
    """Where nobody said how many blocks there are and metrics do: of one rank, as they tell of all together."""
    told = watch.num_blocks if watch is not None else None
    if told is not None and len(sources) == 1:
        sources[0].num_blocks = told


def findings_of_pages(
    watch: MetricsWatch | None, sources: Sequence[FollowedSource], found: Sequence[Finding]
) -> list[Finding]:
    """What metrics say, but for what events said better already (`found`)."""
    if watch is None:
        return []
    folds = [source.fold for source in sources]
    block_size = max((fold.descriptor.block_size for fold in folds), default=0)
    spec_kinds = {group.kind for fold in folds for group in fold.descriptor.groups if group.kind}
    is_over = any(one.kind == "resident_over_capacity" for one in found)
    return [
        finding
        for finding in watch.findings(block_size, spec_kinds, told_by_events(watch, sources))
        if not (is_over and finding.id.endswith(":kv_capacity_blocks"))
    ]


def told_by_events(watch: MetricsWatch, sources: Sequence[FollowedSource]) -> Told | None:
    """What metrics are held against. Hits without a block are only odd where no block was ever told of."""
    if not sources:
        return None
    is_first = all(source.fold.known and source.is_first_epoch for source in sources)
    has_stores = any(source.fold.kind_totals[Kind.ResidencyStored] for source in sources)
    grown = watch.book.grown("prefix_hits", FORGET_AFTER_S)
    return Told(
        cached_blocks=sum(certain_on(source.fold, 0) for source in sources),
        complete=is_first and not has_stores,
        hits_grew_by=grown.amount if grown is not None else None,
        stored=sum(_stored_before(source, watch.book.last_s) for source in sources),
    )


def _stored_before(source: FollowedSource, page_s: float | None) -> int:
    """Blocks that came in the minute before a page, wherever they are now; what a page may not tell yet left out."""
    heard_ns, told_ns = source.last_heard_ns, source.fold.t_ns
    if page_s is None or heard_ns is None or abs(heard_ns - told_ns) > CLOCKS_APART_S * 1e9:
        return 0
    came_s = source.fold.entries["t_first"] / 1e9
    return int(np.count_nonzero((came_s >= page_s - AT_REST_S) & (came_s <= page_s - LATE_S)))
