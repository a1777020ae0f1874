"""The overview: every source with its verdict, the worst first. Made anew at most once a second, for all who look."""

from __future__ import annotations

import threading
import time
from typing import Final

from kvxray_storage import history
from kvxray_storage.chunk import DamagedChunk
from kvxray_storage.time_travel import NotStored

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.verdict import RANK, judge
from kvxray_backend.analysis.verdict_signs import Signs
from kvxray_backend.backend import Backend, Source
from kvxray_backend.figures import state_counts
from kvxray_backend.live_state import LiveState
from kvxray_backend.moments import Moment, iso_time_or_none
from kvxray_backend.overview_alerts import listed
from kvxray_backend.overview_figures import overview_figures
from kvxray_backend.overview_fleet import fleet_view
from kvxray_backend.overview_types import EngineView, OverviewView
from kvxray_backend.overview_verdict import verdict_view
from kvxray_backend.overview_windows import Before, before
from kvxray_backend.residency.desk import ResidencyDesk
from kvxray_backend.residency.engine_overview import absent_view, foreign_engine_view
from kvxray_backend.residency.foreign_source import ForeignSource, all_foreign, find_foreign, of_blocks
from kvxray_backend.stored_findings import finding_of
from kvxray_backend.told_findings import the_most_telling
from kvxray_backend.views import reading_of

KEEP_S: Final = 1.0
KEEP_BEFORE_S: Final = 3.0
LATELY: Final = 5


class Overview:
    """Answers `/api/overview` of one backend. What is stored moves slowly: it is read every few seconds only."""

    def __init__(self, backend: Backend, desk: ResidencyDesk) -> None:
        self.backend = backend
        self.desk = desk
        self._lock = threading.Lock()
        self._made: tuple[float, OverviewView] | None = None
        self._watched: set[str] = set()
        self._lately: dict[str, tuple[float, list[Finding]]] = {}
        self._before: dict[str, tuple[float, tuple[Before, list[Finding]]]] = {}

    def now(self) -> OverviewView:
        with self._lock:
            if self._made is None or time.monotonic() - self._made[0] >= KEEP_S or self._is_another_fleet():
                self._watched = {engine.spec.name for engine in self.backend.observed.all}
                self._made = time.monotonic(), self.at(Moment())
            return self._made[1]

    def _is_another_fleet(self) -> bool:
        """Whether an engine was attached or removed since."""
        return {engine.spec.name for engine in self.backend.observed.all} != self._watched

    def at(self, moment: Moment, whose: str | None = None) -> OverviewView:
        """whose: the source that an event's number is of; the others are told as they were when it happened, and not
        at all where it is not known when that was.
        """
        theirs = self._time_of(whose, moment)
        sources = of_blocks(self.backend).items()
        engines = [self._engine(source, moment if whose in (None, name) else theirs) for name, source in sources]
        engines += [
            self._foreign(source, moment if whose in (None, source.name) else theirs)
            for source in all_foreign(self.backend)
        ]
        # Sources that are only stored have no present to worry about. Among equals the order stays, so that no row
        # moves under the reader's hand.
        is_past = {engine.source for engine in engines if moment.is_live and engine.state == "past"}
        engines.sort(key=lambda engine: (engine.source in is_past, RANK[engine.verdict.status]))
        fleet = fleet_view(one for one in engines if one.source not in is_past)
        if not moment.is_live:
            return OverviewView(engines=engines, fleet=fleet)
        active = self.backend.alerts.active()
        return OverviewView(engines=engines, fleet=fleet, alerts=listed(active), num_alerts=len(active))

    def _time_of(self, whose: str | None, moment: Moment) -> Moment | str:
        """That time, or why it is not known."""
        if whose is None or moment.point is None:
            return moment
        foreign = find_foreign(self.backend, whose)
        try:
            if foreign is not None:
                return Moment(t_ns=self.desk.at(foreign, moment).now_ns)
            if whose not in self.backend.sources:
                return moment
            self.backend.settle(self.backend.sources[whose], moment)
            return Moment(t_ns=self.backend.past.time_of(whose, moment))
        except (NotStored, DamagedChunk) as error:
            return str(error)

    def _engine(self, source: Source, moment: Moment | str) -> EngineView:
        live = source.live
        if isinstance(moment, str):
            return _absent(live, moment)
        if moment.is_live:
            return engine_view(live, *self._remembered(live))
        try:
            then = self.backend.past_at(source, moment)
            self.backend.past.tell_lives(then)
        except (NotStored, DamagedChunk) as error:
            return _absent(live, str(error))
        return engine_view(then, *self._stored(then))

    def _foreign(self, source: ForeignSource, moment: Moment | str) -> EngineView:
        if isinstance(moment, str):
            return absent_view(source, moment)
        try:
            view = foreign_engine_view(self.desk.at(source, moment))
            return view.model_copy(update={"lately": self._lately_of(source.name)}) if moment.is_live else view
        except (NotStored, DamagedChunk) as error:
            return absent_view(source, str(error))

    def _lately_of(self, source: str) -> list[Finding]:
        """The last findings that are over, as they are stored."""
        kept = self._lately.get(source)
        if kept is None or time.monotonic() - kept[0] >= KEEP_BEFORE_S:
            rows = history.findings(self.backend.database, source, "ended", LATELY)
            kept = self._lately[source] = time.monotonic(), [finding_of(row) for row in rows]
        return kept[1]

    def _remembered(self, live: LiveState) -> tuple[Before, list[Finding]]:
        kept = self._before.get(live.source)
        if kept is None or time.monotonic() - kept[0] >= KEEP_BEFORE_S:
            kept = self._before[live.source] = time.monotonic(), self._stored(live)
        return kept[1]

    def _stored(self, live: LiveState) -> tuple[Before, list[Finding]]:
        """What the event log tells: nothing while it cannot be written, since then it stands still."""
        backend = self.backend
        key = backend.epoch_key(live.source, live.epoch) if live.epoch is not None else None
        if key is None or any(finding.kind == "storage" for finding in live.open_findings.found):
            return Before(), []
        now_ns = live.engine_time.t_ns
        rows = history.findings(backend.database, live.source, "ended", 10 * LATELY)
        over = [finding_of(row) for row in rows]
        lately = [finding for finding in over if finding.ended_ns is not None and finding.ended_ns <= now_ns]
        return before(backend.database, key, now_ns), lately[:LATELY]


def _began_ns(finding: Finding) -> int:
    return finding.time_ns


def _absent(live: LiveState, why: str) -> EngineView:
    then = LiveState(live.source, at="")
    then.connect("past", 0)
    then.absence = why
    return engine_view(then, Before(), [])


def engine_view(live: LiveState, past: Before, lately: list[Finding]) -> EngineView:
    """One source, as of one moment."""
    with live.lock:
        block_map, found = live.block_map, live.open_findings.found
        reading = reading_of(live, block_map) if block_map is not None else None
        figures = overview_figures(reading, live.leaks, past) if reading is not None else {}
        verdict = judge(Signs(live.connection, figures, found, live.absence))
        about = block_map.descriptor if block_map is not None else None
        return EngineView(
            source=live.source,
            engine=live.source,
            labels=dict(about.labels) if about else {},
            model=about.model if about else "",
            state=live.connection,
            since=iso_time_or_none(live.since_ns),
            at=live.at,
            time=iso_time_or_none(live.state_ns),
            epoch=live.epoch,
            verdict=verdict_view(verdict, figures, found),
            usable_blocks=about.usable_blocks if about else None,
            block_size=about.block_size if about else None,
            bytes_per_block=about.bytes_per_block if about else None,
            media=sorted({pool.medium for pool in about.pools}) if about else [],
            counts=state_counts(reading) if reading is not None else {},
            figures=figures,
            gaps=live.counters.gaps,
            drops=live.counters.drops,
            bad_messages=live.counters.bad_messages,
            findings=live.open_findings.tell(the_most_telling(sorted(found, key=_began_ns, reverse=True))),
            num_findings=len(found),
            looked_at=iso_time_or_none(live.looked_ns),
            lately=lately,
        )
