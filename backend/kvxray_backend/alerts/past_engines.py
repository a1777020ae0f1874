"""What the event log knows of every engine over a stretch of the past, as far as a rule asks for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kvxray_storage import history
from kvxray_storage.chunk import DamagedChunk
from kvxray_storage.database import Database
from kvxray_storage.signal_minutes import MINUTE_S, read_minutes, sources_with_minutes

from kvxray_backend.alerts.expression import Found, signals_in, walk
from kvxray_backend.alerts.kept_signals import signals_of, windows_of
from kvxray_backend.alerts.past_engine import BEGAN_ANEW, PastEngine
from kvxray_backend.alerts.rule import Rule, Server
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.metrics.minute_packing import unpack
from kvxray_backend.signal_history import Timed
from kvxray_backend.source_name import engine_of
from kvxray_backend.stored_findings import finding_of
from kvxray_backend.stored_source import tells_hashes

MAX_FINDINGS: Final = 5_000
"""Of each kind, the newest."""
MAX_MINUTES: Final = 45_000
FAMILIES: Final[frozenset[Server]] = frozenset(("vllm", "sglang", "trtllm", "dynamo", "lmcache", "router"))

Read = Callable[[str, float, float, Sequence[str]], Sequence[Timed]]
"""What metrics of an engine told between two times, of these signals at least."""


@dataclass(frozen=True, slots=True)
class KnownEngine:
    """What is known of an engine beside what is stored of it. families: of its metrics; None: nobody knows."""

    families: frozenset[Server] | None = None
    model: str = ""
    role: str = "both"


def past_engines(
    database: Database,
    rule: Rule,
    from_ns: int,
    to_ns: int,
    *,
    only: str = "",
    known: Mapping[str, KnownEngine] | None = None,
    read: Read | None = None,
) -> list[PastEngine]:
    """only: this engine; empty: all that are stored, or watched. read: where what metrics told is told otherwise than
    from the database alone.
    """
    read, known = read or stored_signals(database), known or {}
    spans, kinds = _spans(database, to_ns)
    findings = _findings(database, rule, to_ns)
    with_metrics = set(sources_with_minutes(database))
    names = [name for name in dict.fromkeys([*known, *spans, *with_metrics]) if only in ("", name)]
    windows = windows_of([rule])
    first_s = from_ns / 1e9 - max(windows.values())
    return [
        PastEngine(
            name,
            _serves(known.get(name), kinds.get(name, set()), name in with_metrics),
            read(name, first_s, to_ns / 1e9, signals_of(windows))
            if signals_in(rule.when) and name in with_metrics
            else (),
            findings.get(name, ()),
            spans.get(name, ()),
            known[name].model if name in known else "",
            known[name].role if name in known else "both",
        )
        for name in names
    ]


def stored_signals(database: Database) -> Read:
    def read(name: str, from_s: float, to_s: float, only: Sequence[str]) -> list[Timed]:
        rows = read_minutes(database, name, int(from_s) // MINUTE_S * MINUTE_S, int(to_s) + 1, MAX_MINUTES)
        return [Timed(row.t_s + MINUTE_S, MINUTE_S, unpack(row.packed, only)) for row in rows]

    return read


def _spans(database: Database, to_ns: int) -> tuple[dict[str, list[tuple[int, int]]], dict[str, set[Server]]]:
    """By engine: from when to when its events were followed; and what they tell of."""
    spans, kinds = defaultdict[str, list[tuple[int, int]]](list), defaultdict[str, set[Server]](set)
    for row in history.sources(database):
        name = engine_of(row.name)
        try:
            for epoch in history.epochs(database, row.name):
                end_ns = epoch.ended_ns if epoch.ended_ns is not None else to_ns
                spans[name].append((epoch.started_ns, end_ns))
        except DamagedChunk:
            continue
        kinds[name].add("events" if tells_hashes(database, row.name) else "blocks")
    return dict(spans), dict(kinds)


def _findings(database: Database, rule: Rule, to_ns: int) -> dict[str, list[Finding]]:
    asked = [kind for node in walk(rule.when) if isinstance(node, Found) for kind in node.kinds]
    kinds = dict.fromkeys([*asked, *BEGAN_ANEW])
    rows = [row for kind in kinds for row in history.findings(database, None, "all", MAX_FINDINGS, kind)]
    return _by_engine(finding_of(row) for row in rows if row.time_ns <= to_ns)


def _by_engine(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    found = defaultdict[str, list[Finding]](list)
    for one in findings:
        found[engine_of(one.source)].append(one)
    return dict(found)


def _serves(known: KnownEngine | None, kinds: set[Server], has_metrics: bool) -> frozenset[Server]:
    families = known.families if known is not None else None
    if families is None:
        families = FAMILIES if has_metrics else frozenset()
    return frozenset(kinds) | families
