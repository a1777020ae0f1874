"""What one source is right now: its folded blocks, how it is connected, what was found, and its frames for viewers.

The source's thread writes, request handlers and the live feed read; all of it under `lock`, held for moments. Knows
neither sockets nor the database.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kvxray_engine.stream.block_map import BlockMap, Fault
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.event_times import timing_of
from kvxray_engine.stream.holder_ends import EngineTime
from kvxray_engine.stream.schema import Header, Totals

from kvxray_backend.analysis.block_lives import BlockLives
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.leaks import Leak
from kvxray_backend.analysis.open_findings import OpenFindings
from kvxray_backend.engine_clock import EngineClock
from kvxray_backend.frames import encode_delta, encode_snapshot
from kvxray_backend.live_picture import LivePicture
from kvxray_backend.live_tail import LiveTail
from kvxray_backend.moments import LIVE
from kvxray_backend.windows import EventTotals, EventWindows

Connection = Literal["waiting", "joining", "connected", "stale", "past"]


@dataclass(frozen=True, slots=True)
class EpochSpan:
    """One life of a source as far as it is stored or followed; times wall ns, None = not ended, or nothing stored.
    is_unfinished: of an import that did not come to its end.
    """

    epoch: int
    incarnation: str
    started_ns: int
    ended_ns: int | None
    first_seq: int | None
    last_seq: int | None
    is_unfinished: bool = False


@dataclass(slots=True)
class Counters:
    """What has gone wrong in this epoch, except bad frames, which count since the process began."""

    gaps: int = 0
    drops: int = 0
    bad_messages: int = 0


class LiveState:
    """Invariant: there is a `block_map` exactly when there is an `epoch`. `picture` shows it, and is read and written
    under `lock` too. `absence`: why there is no state and none will come. `lives` is told what is folded; of a past
    moment it is read once somebody asks, who sets `has_looked_back`. `looked_ns`: when findings were looked for last
    (wall; 0: not yet).
    """

    def __init__(self, source: str, at: str = LIVE) -> None:
        """at: the moment as it was asked for; a past one is filled once and moves no more."""
        self.at = at
        self.lock = threading.RLock()
        self.source = source
        self.connection: Connection = "waiting"
        self.absence = ""
        self.since_ns = 0
        self.lag_s: float | None = None
        self.wire_seq: int | None = None
        self.counters = Counters()
        self.epochs: tuple[EpochSpan, ...] = ()
        self.open_findings = OpenFindings()
        self.leaks: tuple[Leak, ...] = ()
        self.looked_ns = 0
        self.windows = EventWindows()
        self.lives: BlockLives | None = None
        self.has_looked_back = at == LIVE
        self.tail = LiveTail()
        self.block_map: BlockMap | None = None
        self.epoch: int | None = None
        self.known_since_seq = 0
        self.picture = LivePicture()
        self.hash_bytes: Callable[[int], bytes | None] = self._folded_hash_bytes
        self._engine_clock = EngineClock()
        self._engine_step = 0
        self._totals: Totals | None = None

    # Writing: the source's thread.

    def connect(self, connection: Connection, since_ns: int) -> None:
        """The connection is this since then; what it already is keeps its time."""
        with self.lock:
            if connection != self.connection:
                self.connection, self.since_ns = connection, since_ns

    def begin(self, epoch: int, block_map: BlockMap, known_gaps: int = 0, *, heard_ns: int = 0) -> None:
        """A new epoch, or the same one joined anew. known_gaps: those in what is stored of it. heard_ns: the newest
        time that the engine has told, which before its first event is all that is known of when this is.
        """
        with self.lock:
            self.epoch = epoch
            self.counters = Counters(gaps=known_gaps, bad_messages=self.counters.bad_messages)
            self.leaks = ()
            self.picture.begin()
            self.wire_seq = None
            self.windows.clear()
            self.tail.clear()
            self._engine_clock, self._engine_step = EngineClock(heard_ns), 0
            self._totals = None
            self._take(block_map)

    def replace(self, block_map: BlockMap) -> None:
        """A snapshot at the very event the fold stands at: exact again."""
        with self.lock:
            self._take(block_map)

    def fold(self, message: Message) -> list[Fault]:
        """Folds a message (perhaps several joined); returns the laws it broke. Raises BadMessage, changing nothing."""
        with self.lock:
            block_map = self._map()
            timed = replace(message, timing=timing_of(message))
            changed = block_map.apply(timed)
            if self.lives is None or message.header.type == "descriptor":
                self.lives = BlockLives(block_map)
            else:
                self.lives.note(timed)
            self.picture.change(changed)
            self._engine_clock.tell_event(block_map.t_ns)
            self._note_header(message.header)
            self.counters.drops = block_map.lost
            self.windows.note(block_map.t_ns, EventTotals.of(block_map))
            return block_map.take_faults()

    def remember(self, messages: Sequence[Message]) -> None:
        """Messages as they came, for the tail."""
        with self.lock:
            for message in messages:
                self.tail.add(message)

    def forget(self) -> None:
        """After a gap: nothing is known until events tell or a snapshot comes."""
        with self.lock:
            self._map().forget()
            self.lives = BlockLives(self._map())
            self.leaks = ()
            self.picture.forget_leaks()
            self.picture.change_all()

    def hear(self, header: Header) -> None:
        """A heartbeat: the engine lives, and what it says of itself."""
        with self.lock:
            self._engine_clock.tell_heartbeat(header.t0_wall_ns)
            self._note_header(header)
            self.counters.drops = max(self.counters.drops, header.lost)
            if self.block_map is not None and header.t0_wall_ns > self.block_map.t_ns:
                self.windows.hear(header.t0_wall_ns, EventTotals.of(self.block_map))

    def mark_leaks(self, leaks: Sequence[Leak]) -> None:
        """What analysis has found to leak at present."""
        with self.lock:
            self.leaks = tuple(leaks)
            self.picture.mark_leaks(self.leaks)

    # Reading: anyone, holding `lock` for as long as the parts must belong together.

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is open, as of the last look; who asks for ids, kinds or subjects reads `open_findings`."""
        return self.open_findings.told

    @findings.setter
    def findings(self, findings: tuple[Finding, ...]) -> None:
        self.open_findings = OpenFindings(findings)

    @property
    def seq(self) -> int | None:
        """The last event folded; None before the first, and before the source was joined."""
        return self.block_map.next_seq - 1 if self.block_map is not None and self.block_map.next_seq else None

    @property
    def state_ns(self) -> int:
        """When the state is from: wall ns of the last event; before the first, when the engine was last heard."""
        return self.block_map.t_ns if self.block_map is not None and self.block_map.t_ns else self._engine_clock.now_ns

    @property
    def engine_time(self) -> EngineTime:
        """The newest that events or heartbeats told since the engine's clock was last set back."""
        is_idle = self._totals is not None and self._totals.running == 0
        return EngineTime(self._engine_clock.now_ns, self._engine_step, is_idle)

    @property
    def engine_totals(self) -> Totals | None:
        """The engine's own counts, as last told."""
        return self._totals

    @property
    def picture_seq(self) -> float:
        """What frames of the picture as it is now end at."""
        return self.picture.seq

    def snapshot_frame(self) -> tuple[float, bytes] | None:
        """`picture_seq` and the frame of every block; None before the source was joined."""
        with self.lock:
            if self.block_map is None:
                return None
            header, picture = self.picture.draw(self.epoch or 0, self.state_ns)
        return header.seq_to, encode_snapshot(header, picture)

    def start_watching(self) -> float:
        """Forgets what changed so far: deltas go on from the `picture_seq` returned."""
        with self.lock:
            self.picture.forget_changes()
            return self.picture.seq

    def delta_frame(self, epoch: int | None, seq_from: float) -> tuple[float, bytes] | None:
        """`picture_seq` and the frame of what changed since the last call; None when nothing did.

        epoch, seq_from: where the last call ended. Where a snapshot costs viewers less, or another epoch has begun, the
        delta is empty and does not follow what they have, so that they get the snapshot.
        """
        with self.lock:
            follows = epoch == self.epoch
            if self.block_map is None or (follows and seq_from == self.picture.seq):
                return None
            drawn = self.picture.draw_changes(self.epoch or 0, self.state_ns, seq_from, follows=follows)
        return drawn[0].seq_to, encode_delta(*drawn)

    def delta_from(self, earlier: LiveState) -> bytes:
        """The frame of what differs between another moment and this one. Where they cannot be compared, it is empty and
        does not follow, so that viewers get the snapshot.
        """
        with earlier.lock, self.lock:
            follows = earlier.epoch == self.epoch
            drawn = self.picture.draw_difference(self.epoch or 0, self.state_ns, earlier.picture, follows=follows)
            return encode_delta(*drawn)

    def check_integrity(self) -> None:
        """Asserts the invariants, those of the parts included."""
        with self.lock:
            assert (self.block_map is None) == (self.epoch is None), "a map without an epoch, or the reverse"
            self.windows.check_integrity()
            self.tail.check_integrity()
            if self.block_map is not None:
                self.block_map.check_integrity()
                self.picture.check_integrity()
                assert self.seq in (None, int(self.picture.seq)), "the picture is not of the state"

    def _folded_hash_bytes(self, ordinal: int) -> bytes | None:
        return self._map().hash_bytes(ordinal)

    def _map(self) -> BlockMap:
        assert self.block_map is not None, "the source has not been joined"
        return self.block_map

    def _take(self, block_map: BlockMap) -> None:
        self.block_map = block_map
        self.lives = BlockLives(block_map) if self.at == LIVE else None
        self.known_since_seq = max(block_map.next_seq - 1, 0)
        self.counters.drops = max(self.counters.drops, block_map.lost)
        self._engine_step = max(self._engine_step, block_map.step)
        if block_map.t_ns:
            self._engine_clock.tell_event(block_map.t_ns)
            self.windows.note(block_map.t_ns, EventTotals.of(block_map))
        elif self._engine_clock.now_ns:
            self.windows.hear(self._engine_clock.now_ns, EventTotals.of(block_map))
        self.picture.show(block_map)

    def _note_header(self, header: Header) -> None:
        self._engine_step = max(self._engine_step, header.step)
        if header.totals is not None:
            self._totals = header.totals
