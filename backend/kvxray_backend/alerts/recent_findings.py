"""Findings that are over, of the last hour, by engine: rules ask for what began a while ago too."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Final

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.source_name import engine_of

KEPT_NS: Final = 3_600 * 1_000_000_000
"""As far back as a rule of one's own may ask."""
MAX_OF_ENGINE: Final = 1_000


class RecentFindings:
    """Safe to call from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_engine: dict[str, dict[str, Finding]] = {}

    def note(self, finding: Finding) -> None:
        """Whatever became of a finding; the newest of thousands stay."""
        with self._lock:
            known = self._by_engine.setdefault(engine_of(finding.source), {})
            known.pop(finding.id, None)
            if finding.state == "ended":
                known[finding.id] = finding
                if len(known) > MAX_OF_ENGINE:
                    del known[next(iter(known))]

    def note_all(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self.note(finding)

    def forget_after(self, now_ns: int) -> None:
        """Those of times ahead: the clock was set back, and they would be new again when it comes there."""
        with self._lock:
            for engine, known in self._by_engine.items():
                self._by_engine[engine] = {id: one for id, one in known.items() if one.time_ns <= now_ns}

    def of(self, engine: str, now_ns: int) -> list[Finding]:
        """Those that began in the last hour."""
        with self._lock:
            known = self._by_engine.get(engine, {})
            for id in [id for id, one in known.items() if one.time_ns < now_ns - KEPT_NS]:
                del known[id]
            return [*known.values()]
