"""One life of a publisher once it is joined: messages in order into the live state and into history, holes mended or
told.

What is missing is asked for again; what cannot be had is a gap, after which blocks are unknown until events tell or a
snapshot comes. Messages from before the join are fetched for history alone, and stored first.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import BadMessage, Message
from kvxray_engine.stream.joining import can_join, join
from kvxray_engine.stream.schema import Header, Kind

from kvxray_backend.analysis.inspector import Inspector
from kvxray_backend.live_state import LiveState
from kvxray_backend.sources.backfill import Backfill
from kvxray_backend.sources.epoch_history import BEFORE_JOINING, CANNOT_BE_FOLDED, LOST_ON_THE_WAY, EpochHistory
from kvxray_backend.sources.replay_desk import ReplayDesk
from kvxray_backend.sources.sequencer import Gap, Sequencer

FOLD_ROWS: Final = 2048
_STEP_STARTED: Final = int(Kind.StepStarted)

logger = logging.getLogger(__name__)


class JoinedEpoch:
    """`wants_snapshot`: the state is not exact, and no snapshot waits for the fold to reach its message."""

    def __init__(
        self,
        live: LiveState,
        inspector: Inspector,
        history: EpochHistory,
        block_map: BlockMap,
        desk: ReplayDesk | None,
        now_ns: int,
    ) -> None:
        """block_map: what the live state begins with. desk None: there is no replay."""
        self.history = history
        self._live = live
        self._inspector = inspector
        self._desk = desk
        self._sequencer = Sequencer(block_map.next_wire_seq, block_map.next_seq)
        self._is_exact = block_map.holders_known
        self._snapshot: BlockMap | None = None
        self._replay_lacks: int | None = None
        self._backfill: Backfill | None = self._start_backfill(block_map, now_ns)

    @property
    def wants_snapshot(self) -> bool:
        return not self._is_exact and self._snapshot is None

    def offer(self, message: Message, num_bytes: int, now_ns: int) -> None:
        """A message, in any order: the next ones are folded by `advance`, late ones fill holes of history."""
        wire_seq = message.header.wire_seq
        if self._backfill is not None and self._backfill.covers(wire_seq):
            self._backfill.offer(message, num_bytes, now_ns)
            return
        if wire_seq < self._sequencer.next_wire_seq:
            self.history.fill(message)
        self._sequencer.offer(message, num_bytes, now_ns)

    def hear(self, heartbeat: Header, now_ns: int) -> None:
        """Messages up to the heartbeat's number exist."""
        self._sequencer.hear(heartbeat.wire_seq, now_ns)
        self._live.hear(heartbeat)

    def give_snapshot(self, block_map: BlockMap) -> None:
        """The state before message `block_map.next_wire_seq`; it waits until the fold stands there."""
        self._snapshot = block_map

    def replay_ended(self, now_ns: int) -> None:
        """The answer to a replay request is complete."""
        answered = self._desk.ended() if self._desk is not None else None
        if answered is None:
            return
        if self._backfill is not None:
            self._backfill.answer_ended(answered[0], now_ns)
            return
        hole = self._sequencer.hole()
        # An answer may be cut short by its size: only one that did not bring the first says that it is lost.
        if hole is not None and hole.wire_seq0 == answered[0]:
            self._replay_lacks = hole.wire_seq0

    def advance(self, now_ns: int) -> None:
        """Folds and stores what is next; asks for what is missing, or goes on without it."""
        if self._is_filling_back(now_ns):
            return
        self._fold_what_is_next(now_ns)
        while self._mend(now_ns):
            self._fold_what_is_next(now_ns)

    def close(self, now_ns: int) -> None:
        """The life is over: what is held goes into history, with what is missing told."""
        self._finish_backfill(now_ns)
        self.history.append(self._sequencer.take(now_ns))
        while self._sequencer.hole() is not None:
            self.history.gap(self._sequencer.give_up(now_ns), LOST_ON_THE_WAY)
            self.history.append(self._sequencer.take(now_ns))

    def check_integrity(self) -> None:
        """Asserts the invariants of the parts."""
        self._sequencer.check_integrity()

    # History from before the join.

    def _start_backfill(self, block_map: BlockMap, now_ns: int) -> Backfill:
        cursor = self.history.cursor
        first, seq = (cursor.next_wire_seq, cursor.next_seq) if cursor else (0, 0)
        end, end_seq = block_map.next_wire_seq, block_map.next_seq
        return Backfill(first, end, seq, end_seq, goes_on=cursor is not None, now_ns=now_ns)

    def _is_filling_back(self, now_ns: int) -> bool:
        """Whether messages must wait for earlier ones to be stored first; asks for those."""
        if self._backfill is None:
            return False
        if self._desk is None or self._backfill.is_over(now_ns):
            self._finish_backfill(now_ns)
            return False
        if self._desk.newest is None:
            self._desk.ask(*self._backfill.wanted(), now_ns)
        return True

    def _finish_backfill(self, now_ns: int) -> None:
        backfill, self._backfill = self._backfill, None
        if backfill is None:
            return
        if self._desk is not None:
            self._desk.drop()
        for part in backfill.finish(now_ns):
            if isinstance(part, Gap):
                self.history.gap(part, BEFORE_JOINING)
            else:
                self.history.append([part])
                self._live.remember([part])
        # Nothing was folded since the join, so this is still the snapshot.
        if self._is_exact and self._live.block_map is not None:
            self.history.keyframe(self._live.block_map)

    # Following.

    def _fold_what_is_next(self, now_ns: int) -> None:
        waiting = deque(self._sequencer.take(now_ns))
        while waiting:
            self._swap_in_snapshot(waiting[0].header.wire_seq)
            run = [waiting.popleft()]
            rows = run[0].columns.num_rows
            while waiting and rows < FOLD_ROWS and self._may_join(run, waiting[0]):
                rows += waiting[0].columns.num_rows
                run.append(waiting.popleft())
            self._fold(run)
        self._swap_in_snapshot(self._sequencer.next_wire_seq)
        self._live.wire_seq = self._sequencer.next_wire_seq - 1

    def _may_join(self, run: list[Message], following: Message) -> bool:
        if self._snapshot is not None and self._snapshot.next_wire_seq == following.header.wire_seq:
            return False
        starts = following.columns.kind == _STEP_STARTED
        return bool(len(starts) and starts[0]) and can_join(run[0], run[-1], following)

    def _fold(self, run: list[Message]) -> None:
        try:
            joined = join(run)
            faults = self._live.fold(joined)
        except (BadMessage, OverflowError) as error:
            if len(run) > 1:
                for message in run:
                    self._fold([message])
            else:
                self._leave_out(run[0], str(error))
            return
        self._live.remember(run)
        self.history.append(run)
        self._inspector.folded(joined, faults)

    def _leave_out(self, message: Message, reason: str) -> None:
        """A message that was decoded and yet cannot be: the state behind it is as unknown as behind a lost one."""
        header = message.header
        self._inspector.bad_message(reason)
        self._lose(Gap(header.wire_seq, header.wire_seq, header.seq0, header.seq0 + header.n - 1), CANNOT_BE_FOLDED)

    def _mend(self, now_ns: int) -> bool:
        """Asks for what is missing, or goes on without it; True when messages behind the hole may be next now."""
        hole = self._sequencer.hole()
        if hole is None:
            self._replay_lacks = None
            return False
        lacks = self._desk is None or self._replay_lacks == hole.wire_seq0
        if self._sequencer.is_overdue(now_ns, replay_answered=lacks):
            self._replay_lacks = None
            self._lose(self._sequencer.give_up(now_ns), LOST_ON_THE_WAY)
            return True
        if self._desk is not None and not lacks and self._desk.may_ask(now_ns):
            self._desk.ask(hole.wire_seq0, hole.wire_seq1, now_ns)
        return False

    def _lose(self, gap: Gap, reason: str) -> None:
        logger.warning("%s: messages %d to %d are lost: %s", self._live.source, gap.wire_seq0, gap.wire_seq1, reason)
        self.history.gap(gap, reason)
        self._live.forget()
        self._inspector.lost(gap)
        self._is_exact = False

    def _swap_in_snapshot(self, next_wire_seq: int) -> None:
        """Takes the waiting snapshot once the fold stands at its message; one that was passed is asked for anew."""
        if self._snapshot is None or self._snapshot.next_wire_seq > next_wire_seq:
            return
        block_map, self._snapshot = self._snapshot, None
        if block_map.next_wire_seq < next_wire_seq:
            return
        self._is_exact = True
        self._live.replace(block_map)
        self._inspector.exact_again()
        self.history.keyframe(block_map)
