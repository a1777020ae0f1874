"""What is known now of every engine that is watched, as rules ask for it. Copies what it needs and lets go: no lock of
a source is held for longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from kvxray_storage import history

from kvxray_backend.alerts.alert import AlertMoment
from kvxray_backend.alerts.evidence import Evidence
from kvxray_backend.alerts.expression import FigureNow, walk
from kvxray_backend.alerts.figures_now import FiguresNow
from kvxray_backend.alerts.kept_signals import KeptSignals, windows_of
from kvxray_backend.alerts.recent_findings import KEPT_NS, RecentFindings
from kvxray_backend.alerts.rule import Rule, Server
from kvxray_backend.alerts.signal_track import Key
from kvxray_backend.alerts.watched import Watched
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.metrics.signals import SIGNALS
from kvxray_backend.observed.engine import ObservedEngine
from kvxray_backend.stored_findings import finding_of

if TYPE_CHECKING:
    from kvxray_backend.backend import Backend, Source

READ_PAST_S: Final = 0.2
"""Of one look about so long goes into reading what metrics told before we began."""
MAX_READ_FINDINGS: Final = 5_000
SET_BACK_NS: Final = 5_000_000_000
"""By less a clock is corrected all the time."""
_FAMILY_OF_MAKE: Final[Mapping[str, tuple[Server, ...]]] = {
    "vllm": ("vllm",),
    "sglang": ("sglang",),
    "trtllm": ("trtllm",),
    "dynamo": ("dynamo",),
    "router": ("router",),
}
_FAMILIES: Final[tuple[Server, ...]] = ("vllm", "sglang", "trtllm", "dynamo", "lmcache", "router")


class LiveEvidence:
    """For one thread, but for `recent`, which may be told from any."""

    def __init__(self, backend: Backend, recent: RecentFindings) -> None:
        self._backend = backend
        self._recent = recent
        self._figures = FiguresNow(backend)
        self._rules: tuple[Rule, ...] = ()
        self._windows: dict[Key, float] = {}
        self._kept: dict[str, KeptSignals] = {}
        self._last_ns = 0
        self._to_read: dict[str, KeptSignals] = {}
        self._of_blocks: dict[str, Evidence] = {}
        self._made: dict[str, Watched] = {}

    def read_findings(self) -> None:
        """What was over before we began. Raises `OPENING_ERRORS`."""
        rows = history.findings(self._backend.database, None, "ended", MAX_READ_FINDINGS)
        since_ns = self._backend.clock.wall_ns() - KEPT_NS
        self._recent.note_all(finding_of(row) for row in reversed(rows) if row.time_ns >= since_ns)

    def now(self, rules: Sequence[Rule], stumbled: Callable[[str, str, Exception], object]) -> list[Watched]:
        """Every engine that is followed or watched; what is only stored is not. rules: those that are on. stumbled:
        told of an engine of which nothing can be told this time; it stays as it was.
        """
        self._look_for(tuple(rules))
        self._mind_the_clock()
        native = {name: one for name, one in self._backend.sources.items() if one.native is not None}
        observed = {engine.spec.name: engine for engine in self._backend.observed.all}
        self._forget({*native, *observed})
        makers = {name: partial(self._native, name, source) for name, source in native.items()}
        makers |= {name: partial(self._observed, engine) for name, engine in observed.items()}
        for name, make in makers.items():
            try:
                self._made[name] = make()
            except Exception as error:
                stumbled("", name, error)
        self._read_past(stumbled)
        return [self._made[name] for name in makers if name in self._made]

    def _mind_the_clock(self) -> None:
        """Where it was set back, what was told lies ahead of it or would be new again: it is let go, and nothing of
        before is read.
        """
        now_ns = self._wall_ns()
        if now_ns < self._last_ns - SET_BACK_NS:
            self._recent.forget_after(now_ns)
            self._to_read.clear()
            for name in self._kept:
                self._kept[name] = KeptSignals(self._windows, now_ns / 1e9, has_past=False)
        self._last_ns = now_ns

    def _look_for(self, rules: tuple[Rule, ...]) -> None:
        if rules == self._rules:
            return
        self._rules = rules
        self._figures.wanted = any(isinstance(node, FigureNow) for rule in rules for node in walk(rule.when))
        windows = windows_of(rules)
        if any(window_s > self._windows.get(key, 0.0) for key, window_s in windows.items()):
            self._windows = windows
            self._kept.clear()
            self._to_read.clear()

    def _forget(self, all_but: Collection[str]) -> None:
        for kept in (self._kept, self._to_read, self._of_blocks, self._made):
            for name in [name for name in kept if name not in all_but]:
                del kept[name]
        self._figures.forget(all_but)

    def _native(self, name: str, source: Source) -> Watched:
        live = source.live
        with live.lock:
            about = live.block_map.descriptor if live.block_map is not None else None
            found = live.open_findings
            is_met = about is not None or live.connection not in ("waiting", "joining")
        evidence = self._of_blocks.setdefault(name, Evidence(()))
        # What an earlier process left open is no news, and who the engine is nobody has told yet.
        evidence.findings = self._with_recent(name, found.told) if is_met else None
        evidence.figures = self._figures.of_blocks(source)
        labels = dict(about.labels) if about is not None else {}
        model = labels.get("model") or (about.model if about is not None else "")
        role = labels.get("role", "both")
        return Watched(
            name, evidence, frozenset(("blocks",)), {**labels, "model": model}, model, role,
            moment=partial(self._moment_of_blocks, source),
        )  # fmt: skip

    def _observed(self, engine: ObservedEngine) -> Watched:
        spec = engine.spec
        evidence = self._signals_of(spec.name).evidence
        with engine.lock:
            findings, watch = engine.findings, engine.watch
            families = watch.book.families if watch is not None else ()
            evidence.started_s = watch.book.started_s if watch is not None else None
        evidence.findings = self._with_recent(spec.name, findings)
        evidence.figures = self._figures.of_observed(engine)
        model = spec.labels.get("model", "")
        told = {"make": spec.make, "role": spec.role if spec.role != "both" else ""}
        return Watched(
            spec.name, evidence, _servers(engine, families), {**told, **spec.labels}, model, spec.role,
            told=partial(_told_signals, engine), moment=partial(self._moment_of_observed, engine),
        )  # fmt: skip

    def _signals_of(self, name: str) -> KeptSignals:
        kept = self._kept.get(name)
        if kept is None:
            kept = self._kept[name] = self._to_read[name] = KeptSignals(self._windows, self._wall_ns() / 1e9)
        # What was read before a clock was set back may still be there.
        until_s = (self._last_ns + SET_BACK_NS) / 1e9
        kept.add(one for one in self._backend.signals.newer(name, kept.last_s) if one.at_s <= until_s)
        return kept

    def _read_past(self, stumbled: Callable[[str, str, Exception], object]) -> None:
        """A stretch of each engine in turn, the newest first: most rules look back for an hour or less."""
        began_s = time.monotonic()
        while self._to_read and time.monotonic() - began_s < READ_PAST_S:
            name, kept = next(iter(self._to_read.items()))
            del self._to_read[name]
            try:
                if (read := kept.to_read) is not None:
                    kept.begin_with(read, self._backend.signals.between(name, read.from_s, read.to_s, read.signals))
            except Exception as error:
                self._to_read[name] = kept
                stumbled("", name, error)
                return
            if kept.to_read is not None:
                self._to_read[name] = kept

    def _with_recent(self, name: str, findings: Sequence[Finding]) -> list[Finding]:
        open_ids = {one.id for one in findings}
        recent = self._recent.of(name, self._backend.clock.wall_ns())
        return [*findings, *(one for one in recent if one.id not in open_ids)]

    def _moment_of_blocks(self, source: Source, finding: Finding | None) -> AlertMoment:
        live = source.live
        with live.lock:
            return AlertMoment(
                source=live.source, epoch=live.epoch, seq=live.seq, time_ns=live.state_ns or self._wall_ns()
            )

    def _moment_of_observed(self, engine: ObservedEngine, finding: Finding | None) -> AlertMoment:
        with engine.lock:
            ranks = engine.ranks
            rank = ranks.get(finding.source) if finding is not None else None
            rank = rank or next(iter(ranks.values()), None)
            place = rank.followed.place if rank is not None else None
        if place is None or place.epoch < 1:
            return AlertMoment(source=engine.spec.name, epoch=None, seq=None, time_ns=self._wall_ns())
        return AlertMoment(source=place.source, epoch=place.epoch, seq=place.seq, time_ns=place.t_ns)

    def _wall_ns(self) -> int:
        return self._backend.clock.wall_ns()


def _servers(engine: ObservedEngine, families: Sequence[Server]) -> frozenset[Server]:
    """Who tells of it; before its first page of metrics, who is expected to."""
    spec, found = engine.spec, set[Server](families)
    if spec.events is not None:
        found.add("events")
    if not families and (spec.metrics is not None or spec.prometheus is not None):
        found.update(_FAMILY_OF_MAKE.get(spec.make, _FAMILIES))
    return frozenset(found)


def _told_signals(engine: ObservedEngine) -> frozenset[str] | None:
    with engine.lock:
        book = engine.watch.book if engine.watch is not None else None
        if book is None or book.last_s is None:
            return None
        return frozenset(name for name in SIGNALS if book.is_told(name))
