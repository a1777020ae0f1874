"""The page of metrics of kvxray itself: made anew at most once a second, for all who ask."""

from __future__ import annotations

import gzip
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from kvxray_engine.server.prometheus_text import Family, exposition

from kvxray_backend.backend import Backend
from kvxray_backend.exporter.alert_samples import add_alerts, add_delivery, add_findings
from kvxray_backend.exporter.engine_labels import engine_labels, source_labels
from kvxray_backend.exporter.engine_samples import add_engine
from kvxray_backend.exporter.event_samples import EventSamples
from kvxray_backend.exporter.own_samples import add_kvxray, used_bytes
from kvxray_backend.exporter.process_samples import add_process
from kvxray_backend.exporter.samples import Samples
from kvxray_backend.exporter.signal_samples import SignalSamples
from kvxray_backend.observed.engine import ObservedEngine
from kvxray_backend.overview import Overview
from kvxray_backend.overview_types import EngineView
from kvxray_backend.residency.engine_signals import metrics_view, stale_after_s

KEEP_S: Final = 1.0
MEASURE_EVERY_S: Final = 30.0
MAX_ENGINES: Final = 256
_COMPRESSION: Final = 1


@dataclass(slots=True)
class _Made:
    """One look at everything, and the texts that were asked for so far."""

    at_s: float
    families: Sequence[Family]
    pages: dict[tuple[bool, bool], bytes] = field(default_factory=dict)


class Exporter:
    """Answers `/metrics` of one backend. What counts is remembered from look to look."""

    def __init__(self, overview: Overview) -> None:
        self.overview = overview
        self._lock = threading.Lock()
        self._made: _Made | None = None
        self._took_s: float | None = None
        self._signals: defaultdict[str, SignalSamples] = defaultdict(SignalSamples)
        self._events: defaultdict[str, EventSamples] = defaultdict(EventSamples)
        self._used: tuple[float, int | None] = (-MEASURE_EVERY_S, None)

    def page(self, *, open_metrics: bool = False, gzipped: bool = False) -> bytes:
        """The whole text. It takes a while with many engines: ask for it in a thread."""
        with self._lock:
            made = self._made
            if made is None or time.monotonic() - made.at_s >= KEEP_S:
                began_s = time.monotonic()
                made = self._made = _Made(began_s, [*self._samples().families()])
                self._took_s = time.monotonic() - began_s
            kind = (open_metrics, gzipped)
            if kind not in made.pages:
                text = exposition(made.families, open_metrics=open_metrics).encode("utf-8", "replace")
                made.pages[kind] = gzip.compress(text, _COMPRESSION) if gzipped else text
            return made.pages[kind]

    def _samples(self) -> Samples:
        backend, samples = self.overview.backend, Samples()
        add_kvxray(samples, backend)
        samples.add("kvxray_storage_used_bytes", self._used_bytes(backend))
        add_process(samples)
        add_alerts(samples, backend)
        add_delivery(samples, backend)
        self._add_engines(samples, backend)
        samples.begin_engine()
        samples.add("kvxray_exporter_seconds", self._took_s)
        samples.add("kvxray_exporter_left_out", samples.num_left_out)
        return samples

    def _add_engines(self, samples: Samples, backend: Backend) -> None:
        followed: dict[str, list[EngineView]] = {}
        for view in self.overview.now().engines:
            if view.state != "past":
                followed.setdefault(view.engine, []).append(view)
        # By name, so that it is not the worst that come and go where there are too many.
        for name in sorted(followed)[:MAX_ENGINES]:
            views = sorted(followed[name], key=lambda view: view.source)
            samples.begin_engine()
            add_engine(samples, views)
            self._add_counts(samples, backend, views)
        samples.add("kvxray_engines_left_out", max(len(followed) - MAX_ENGINES, 0))
        for kept in (self._signals, self._events):
            for gone in [name for name in kept if name not in followed]:
                del kept[gone]

    def _add_counts(self, samples: Samples, backend: Backend, views: Sequence[EngineView]) -> None:
        first = views[0]
        engine = next((one for one in backend.observed.all if one.spec.name == first.engine), None)
        if first.kind == "blocks" and first.source in backend.sources:
            live = backend.sources[first.source].live
            self._events[first.engine].add_blocks(samples, live, source_labels(first))
            add_findings(samples, live.open_findings.found, source_labels(first))
        elif engine is not None:
            with engine.lock:
                self._add_observed(samples, engine, views)

    def _add_observed(self, samples: Samples, engine: ObservedEngine, views: Sequence[EngineView]) -> None:
        labels = engine_labels(views[0])
        of_source = {view.source: source_labels(view) for view in views}
        for name, rank in engine.ranks.items():
            if name in of_source:
                self._events[engine.spec.name].add_hashes(samples, rank, of_source[name])
                add_findings(samples, [one for one in engine.findings if one.source == name], of_source[name])
        rest = [one for one in engine.findings if one.source not in engine.ranks or one.source not in of_source]
        add_findings(samples, rest, labels)
        watch = engine.watch
        if watch is not None:
            samples.add("kvxray_engine_metrics_up", float(metrics_view(engine).state == "reading"), labels)
            if watch.book.last_s is not None and not watch.book.is_stale(time.time(), stale_after_s(engine)):
                self._signals[engine.spec.name].add(samples, watch.book, labels)

    def _used_bytes(self, backend: Backend) -> int | None:
        if time.monotonic() - self._used[0] >= MEASURE_EVERY_S:
            self._used = time.monotonic(), used_bytes(backend)
        return self._used[1]
