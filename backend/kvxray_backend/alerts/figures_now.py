"""Figures of engines as rules ask for them: made only where a rule asks for any, and at most every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final

from kvxray_backend.figure import Figure
from kvxray_backend.observed.engine import ObservedEngine
from kvxray_backend.overview_figures import overview_figures
from kvxray_backend.overview_windows import Before, before
from kvxray_backend.residency.engine_overview import overview_figures_of
from kvxray_backend.residency.engine_signals import signal_figures
from kvxray_backend.residency.foreign_source import sources_of
from kvxray_backend.residency.present import PresentPictures, present
from kvxray_backend.views import reading_of

if TYPE_CHECKING:
    from kvxray_backend.backend import Backend, Source

KEEP_S: Final = 10.0
ONE_PART_OF: Final = 50
"""Of the time at most goes into the figures of one engine."""
_NONE: Final[Mapping[str, Figure]] = {}


class FiguresNow:
    """For one thread. wanted: whether any rule asks for figures."""

    def __init__(self, backend: Backend) -> None:
        self.wanted = False
        self._backend = backend
        self._pictures = PresentPictures()
        self._kept: dict[str, tuple[float, Mapping[str, Figure]]] = {}

    def forget(self, all_but: Collection[str]) -> None:
        self._kept = {name: kept for name, kept in self._kept.items() if name in all_but}

    def of_blocks(self, source: Source) -> Mapping[str, Figure]:
        return self._young(source.live.source, lambda: self._made_of_blocks(source))

    def of_observed(self, engine: ObservedEngine) -> Mapping[str, Figure]:
        return self._young(engine.spec.name, lambda: self._made_of_observed(engine))

    def _young(self, name: str, make: Callable[[], Mapping[str, Figure]]) -> Mapping[str, Figure]:
        if not self.wanted:
            return _NONE
        kept = self._kept.get(name)
        if kept is not None and time.monotonic() < kept[0]:
            return kept[1]
        began_s = time.monotonic()
        figures = make()
        spent_s = time.monotonic() - began_s
        self._kept[name] = began_s + max(KEEP_S, ONE_PART_OF * spent_s), figures
        return figures

    def _made_of_blocks(self, source: Source) -> Mapping[str, Figure]:
        live, told = source.live, self._before(source)
        with live.lock:
            if live.block_map is None:
                return _NONE
            return overview_figures(reading_of(live, live.block_map), live.leaks, told)

    def _before(self, source: Source) -> Before:
        """What the event log tells: nothing while it cannot be written, since then it stands still."""
        live = source.live
        key = self._backend.epoch_key(live.source, live.epoch) if live.epoch is not None else None
        if key is None or any(finding.kind == "storage" for finding in live.findings):
            return Before()
        return before(self._backend.database, key, live.engine_time.t_ns)

    def _made_of_observed(self, engine: ObservedEngine) -> Mapping[str, Figure]:
        """Of several ranks only what metrics tell, which is of the engine: no rank speaks for the others."""
        with engine.lock:
            signals = signal_figures(engine)
        sources = sources_of(engine)
        if len(sources) != 1:
            return signals
        return overview_figures_of(present(self._backend, sources[0], self._pictures), signals)
