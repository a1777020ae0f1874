"""From the folded state of one stream, and what was counted on the way, to what is said of it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from kvxray_engine.stream.columns import U4
from kvxray_engine.stream.residency_descriptor import FULL_KINDS, group_of, medium_of
from kvxray_engine.stream.residency_state import Certainty, ResidencyState, keys_of
from kvxray_engine.stream.schema import Group

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.inspection.inspection_report import (
    CapacityReport,
    FindingReport,
    GroupReport,
    MediumReport,
    StreamReport,
)
from kvxray_backend.inspection.prefix_tree import chains_of
from kvxray_backend.inspection.stream_tally import StreamTally
from kvxray_backend.moments import iso_time
from kvxray_backend.sources.foreign.media import tier_of

MAX_SENTENCES: Final = 3
_SEVERITIES: Final = ("critical", "warning", "info")


def stream_report(
    name: str,
    rank: int | None,
    dialect: str,
    state: ResidencyState,
    tally: StreamTally,
    findings: tuple[FindingReport, ...],
) -> StreamReport:
    """The stream as of the last batch that was applied."""
    began, ended = tally.began_s, tally.ended_s
    is_dated = began is not None and ended is not None and not tally.is_elapsed
    removed = tally.events.get("removed")
    return StreamReport(
        name=name,
        rank=rank,
        dialect=dialect,
        num_batches=tally.num_batches,
        first_seq=tally.first_seq,
        last_seq=tally.last_seq,
        num_lives=tally.num_lives,
        began=iso_time(round((began or 0) * 1e9)) if is_dated else None,
        ended=iso_time(round((ended or 0) * 1e9)) if is_dated else None,
        lasted_s=None if began is None or ended is None else ended - began,
        events=tally.events,
        groups=tuple(_group(index, group) for index, group in enumerate(state.descriptor.groups)),
        media=tuple(medium_report(state, place) for place in state.places()),
        capacity=tuple(CapacityReport(pool.name, pool.num_blocks or None) for pool in state.descriptor.pools),
        chains=tuple(chains_of(state, group) for group in _full_groups(state)),
        num_removed=removed.hashes if removed else 0,
        num_returned=tally.returns.num_returned,
        store_semantics=state.store_semantics,
        findings=findings,
    )


def medium_report(state: ResidencyState, place: int) -> MediumReport:
    """What is in one place: a group on a medium."""
    ordinals = state.residents(place)
    is_sure = state.certainty_of(ordinals, place) == Certainty.certain
    pool = state.descriptor.pools[medium_of(place)]
    return MediumReport(
        medium=pool.name or "GPU",
        tier=tier_of(pool.name),
        group=group_of(place),
        certain=int(is_sure.sum()),
        maybe=int((~is_sure).sum()),
        copies=int(state.copies(ordinals, place).sum(dtype=np.int64)),
        tokens_certain=_tokens(state, ordinals[is_sure], place),
        tokens_maybe=_tokens(state, ordinals[~is_sure], place),
    )


def grouped(findings: Sequence[Finding], times: Mapping[str, int]) -> tuple[FindingReport, ...]:
    """By kind, the gravest first and then in order of time; of each kind the first sentences. times: how often a kind
    was found, where not every finding was kept.
    """
    by_kind: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_kind[finding.kind].append(finding)
    reports = []
    for kind, found in by_kind.items():
        severity = min((finding.severity for finding in found), key=_SEVERITIES.index)
        sentences = tuple(dict.fromkeys(finding.sentence for finding in found))[:MAX_SENTENCES]
        reports.append(FindingReport(kind, severity, max(times.get(kind, 0), len(found)), sentences))
    return tuple(sorted(reports, key=lambda report: _SEVERITIES.index(report.severity)))


def _tokens(state: ResidencyState, ordinals: U4, place: int) -> int | None:
    """None where a block's size was not told."""
    rows = state.entries.index.find(keys_of(ordinals, place))
    sizes = np.array(state.descriptor.block_sizes, np.int64)[state.entries["block_size"][rows]]
    return None if (sizes == 0).any() else int(sizes.sum())


def _group(index: int, group: Group) -> GroupReport:
    return GroupReport(index, group.kind or None, group.window or None, group.block_size or None)


def _full_groups(state: ResidencyState) -> list[int]:
    """Groups of which something is told, without those that drop blocks of their chains by design."""
    told = {group_of(place) for place in state.places()}
    return [group for group in sorted(told) if state.descriptor.groups[group].kind in FULL_KINDS]
