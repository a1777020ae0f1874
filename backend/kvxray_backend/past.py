"""States of past moments, read from the event log: each a `LiveState` that nobody moves on, so that whatever answers
about the present answers about the past.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Literal

from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.holder_ends import EngineTime
from kvxray_storage import history
from kvxray_storage.clock_runs import CROSSING_NS, ClockRuns
from kvxray_storage.database import Database
from kvxray_storage.epoch_facts import (
    check_is_stored,
    gaps_before,
    kept_span,
    known_since,
    messages_before,
    pruned_until,
)
from kvxray_storage.hash_lookup import hashes_of
from kvxray_storage.history import EpochRow
from kvxray_storage.records import EpochKey
from kvxray_storage.time_travel import NotStored, first_time, seq_around_time, seq_at_time
from kvxray_storage.travel_session import Traveller

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.leak_search import find_leaks
from kvxray_backend.analysis.leaks import holder_of
from kvxray_backend.api_types import MomentView
from kvxray_backend.live_state import EpochSpan, LiveState
from kvxray_backend.moments import Moment, Point, iso_time
from kvxray_backend.past_lives import lives_before
from kvxray_backend.past_windows import windows_before
from kvxray_backend.stored_findings import finding_of

MAX_BLOCKS_KEPT: Final = 4 << 20
"""Over all states kept: some 60 bytes each."""
MAX_STATES: Final = 32
KEEP_S: Final = 10.0
TAIL_EVENTS: Final = 2_000


class PastStates:
    """The last few states asked for are kept: a page asks for the same moment several times."""

    def __init__(self, database: Database) -> None:
        self._traveller = Traveller(database)
        self._clock = ClockRuns()
        self._database = database
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, Point], tuple[LiveState, float]] = OrderedDict()

    def point_of(self, source: str, moment: Moment) -> Point:
        """The event that a moment stands for. Raises `NotStored`."""
        if moment.point is not None:
            return moment.point
        assert moment.t_ns is not None, "the present is not in the log"
        rows = self._epochs(source)
        point = self._point_at(rows, moment.t_ns)
        if point is not None:
            return point
        firsts = [(found, row.epoch) for row in rows if (found := first_time(self._database, row.key, self._clock))]
        if not firsts:
            raise NotStored(self._why_nothing(source))
        (t_ns, seq), epoch = min(firsts)
        first = f"its first moment is {Point(epoch, seq)} at {iso_time(t_ns)}"
        raise NotStored(f"Nothing is stored of the source {source} from so early: {first}.")

    def _point_at(self, rows: Sequence[EpochRow], t_ns: int) -> Point | None:
        """Of the newest stretch of history that was lived around that time; else of the last event before it."""
        reaching = [row for row in rows if row.last_ns is not None and row.last_ns + CROSSING_NS >= t_ns]
        for find, among in ((seq_around_time, reaching), (seq_at_time, rows)):
            for row in reversed(among):
                seq = find(self._database, row.key, t_ns, self._clock)
                if seq is not None:
                    return Point(row.epoch, seq)
        return None

    def at(self, source: str, moment: Moment) -> LiveState:
        """The state after that moment. Raises `NotStored`."""
        point = self.point_of(source, moment)
        with self._lock:
            self._forget_old()
            if (source, point) not in self._kept:
                self._keep(source, point, self._build(source, point))
            self._kept.move_to_end((source, point))
            return self._kept[source, point][0]

    def tell_lives(self, state: LiveState) -> None:
        """Adds what the minutes before that state tell of the lives of blocks; once, and only for who asks."""
        with state.lock:
            if state.has_looked_back or state.block_map is None or state.epoch is None:
                return
        key = self.epoch(state.source, state.epoch).key
        lives = lives_before(self._database, self._traveller, key, state.block_map)
        with state.lock:
            state.lives, state.has_looked_back = lives, True

    def step(self, source: str, moment: Moment, by: Literal["event", "step"], n: int) -> MomentView:
        """The moment `n` events or steps away, as far as the epoch reaches. Raises `NotStored`."""
        point = self.point_of(source, moment)
        key = self.epoch(source, point.epoch).key
        check_is_stored(self._database, key, point.seq)
        seq = self._traveller.step(key, point.seq, by, n)
        with self._traveller.reading(key, seq) as state:
            return MomentView(at=str(Point(point.epoch, seq)), time=iso_time(state.t_ns), step=state.step)

    def time_of(self, source: str, moment: Moment) -> int:
        """Wall ns of a moment of the past, or now's last event. Raises `NotStored`."""
        if moment.t_ns is not None:
            return moment.t_ns
        if moment.point is None:
            return self.span(source)[1]
        with self._traveller.reading(self.epoch(source, moment.point.epoch).key, moment.point.seq) as state:
            return state.t_ns

    def span(self, source: str) -> tuple[int, int]:
        """Wall ns of the beginning and the end of what is kept of a source, rollups included. Raises `NotStored`."""
        span = kept_span(self._database, source)
        if span is None:
            raise NotStored(self._why_nothing(source))
        return span

    def delta(self, source: str, before: Moment, after: Moment) -> bytes:
        """The frame that brings a viewer from one moment of an epoch to another, forwards or backwards."""
        then, now = self.at(source, before), self.at(source, after)
        return now.delta_from(then)

    def epoch(self, source: str, number: int) -> EpochRow:
        """One stored epoch. Raises `NotStored`."""
        found = [row for row in self._epochs(source) if row.epoch == number]
        if not found:
            raise NotStored(f"The source {source} has no epoch {number}.")
        return found[0]

    def why_no_state(self, source: str) -> str:
        """Said of a source of which no moment can be told."""
        until_ns = pruned_until(self._database, source)
        if until_ns is None:
            return f"No state of the source {source} is stored."
        return f"No state of the source {source} is stored: what it told was pruned, up to {iso_time(until_ns)}."

    def _why_nothing(self, source: str) -> str:
        until_ns = pruned_until(self._database, source)
        if until_ns is None:
            return f"Nothing is stored of the source {source} yet."
        return (
            f"Nothing is stored of the source {source} any more: what it told was pruned, up to {iso_time(until_ns)}."
        )

    def _epochs(self, source: str) -> list[EpochRow]:
        return history.epochs(self._database, source)

    def _keep(self, source: str, point: Point, state: LiveState) -> None:
        self._kept[source, point] = state, time.monotonic()
        while len(self._kept) > 1 and (len(self._kept) > MAX_STATES or self._num_blocks() > MAX_BLOCKS_KEPT):
            self._kept.popitem(last=False)

    def _forget_old(self) -> None:
        """What comes late into the log changes the past: nothing is believed for long."""
        oldest = time.monotonic() - KEEP_S
        for key in [key for key, (_, made_at) in self._kept.items() if made_at < oldest]:
            del self._kept[key]

    def _num_blocks(self) -> int:
        return sum(state.block_map.num_blocks for state, _ in self._kept.values() if state.block_map is not None)

    def _build(self, source: str, point: Point) -> LiveState:
        row = self.epoch(source, point.epoch)
        block_map = self._traveller.state_at(row.key, point.seq)
        state = LiveState(source, at=str(point))
        state.connect("past", block_map.t_ns)
        state.hash_bytes = lambda ordinal: self._hash_bytes(row.key, block_map, ordinal)
        state.epochs = tuple(span_of(epoch) for epoch in self._epochs(source))
        state.begin(point.epoch, block_map, gaps_before(self._database, row.key, block_map.next_wire_seq))
        state.wire_seq = block_map.next_wire_seq - 1
        state.known_since_seq = known_since(self._database, row.key, point.seq)
        state.windows = windows_before(self._database, self._traveller, self._clock, row.key, block_map)
        found = self._findings(source, row, block_map)
        leaking = {holder_of(finding) for finding in found if finding.kind == "leak"}
        now = EngineTime.folded(block_map)
        leaks = find_leaks(block_map, now, leaking)
        then = {told.id: told for told in (leak.finding(source, row.epoch, point.seq, now.t_ns) for leak in leaks)}
        state.findings = tuple(
            finding.went_on(then[finding.id]) if finding.id in then else finding for finding in found
        )
        state.mark_leaks(leaks)
        state.remember(messages_before(self._database, row.key, point.seq, TAIL_EVENTS))
        return state

    def _hash_bytes(self, key: EpochKey, block_map: BlockMap, ordinal: int) -> bytes | None:
        """States of the past bring the bytes of few hashes; the others are looked up when asked for."""
        told = block_map.hash_bytes(ordinal)
        return told if told is not None else hashes_of(self._database, key, [ordinal]).get(ordinal)

    def _findings(self, source: str, row: EpochRow, block_map: BlockMap) -> tuple[Finding, ...]:
        """What was open then, as far as it was found; each as it was stored last, maybe later."""
        rows = history.findings_open_at(self._database, source, row.epoch, block_map.t_ns)
        return tuple(finding_of(found) for found in rows)


def span_of(row: EpochRow) -> EpochSpan:
    return EpochSpan(
        row.epoch, row.incarnation, row.started_ns, row.ended_ns, row.first_seq, row.last_seq, row.is_unfinished
    )
