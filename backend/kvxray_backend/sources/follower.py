"""Follows one publisher: joins by snapshot, keeps the order, asks again for what is missing, and knows when the state
is exact.

No socket and no thread of its own: it is told what arrived and what time it is, and asks through `Asker`. Everything it
holds is bounded: 64 MB or 2 seconds of messages behind a hole, 64 MB while joining.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import Final

from kvxray_engine.clock import Clock
from kvxray_engine.stream import snapshot
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import BadMessage, Message, decode, decode_descriptor
from kvxray_engine.stream.joining import can_join, join
from kvxray_engine.stream.schema import Header, Kind
from kvxray_engine.stream.subscriber import Malformed, Published, Received, Replayed, ReplayEnded, SnapshotAnswered

from kvxray_backend.analysis.inspector import Inspector
from kvxray_backend.analysis.stream_health import STALE_AFTER_S
from kvxray_backend.live_state import LiveState
from kvxray_backend.sources.archive import Archive
from kvxray_backend.sources.backfill import Backfill
from kvxray_backend.sources.epoch_history import BEFORE_JOINING, CANNOT_BE_FOLDED, LOST_ON_THE_WAY, EpochHistory
from kvxray_backend.sources.privacy import NameFilter
from kvxray_backend.sources.replay_desk import ASK_AGAIN_NS, Asker, ReplayDesk
from kvxray_backend.sources.sequencer import MAX_HOLD_BYTES, Gap, Sequencer

FOLD_ROWS: Final = 2048
TELL_EPOCHS_NS: Final = 1_000_000_000
NOT_READY_NS: Final = 250_000_000
JOIN_UNKNOWN_AFTER_NS: Final = 2_000_000_000
MAX_RETIRED: Final = 16

logger = logging.getLogger(__name__)


class Follower:
    """Follows one source. `_sequencer` is None while joining; `_snapshot`, if any, waits for the fold to reach its
    message.
    """

    def __init__(
        self,
        live: LiveState,
        archive: Archive,
        inspector: Inspector,
        names: NameFilter,
        asker: Asker,
        clock: Clock,
        *,
        snapshots: bool = True,
        replay: bool = True,
    ) -> None:
        self._live = live
        self._archive = archive
        self._inspector = inspector
        self._names = names
        self._asker = asker
        self._clock = clock
        self._snapshots = snapshots
        self._replay = replay
        self._incarnation = ""
        self._heard_ns = self._heard_wall_ns = 0
        self._retired: deque[str] = deque(maxlen=MAX_RETIRED)
        self._history: EpochHistory | None = None
        self._backfill: Backfill | None = None
        self._sequencer: Sequencer | None = None
        self._joining_since_ns = 0
        self._keyframe_due = False
        self._buffer: deque[tuple[Message, int]] = deque()
        self._buffered_bytes = 0
        self._heartbeat: Header | None = None
        self._snapshot: BlockMap | None = None
        self._wants_snapshot = False
        self._ask_snapshot_at_ns = 0
        self._desk = ReplayDesk(asker)
        self._replay_lacks: int | None = None
        self._epochs_due_ns = 0

    def receive(self, items: Sequence[Received], now_ns: int) -> None:
        """What has arrived, in order. now_ns: monotonic."""
        for item in items:
            match item:
                case Published(payload):
                    self._receive_payload(payload, now_ns, is_replayed=False)
                case Replayed(payload):
                    self._receive_payload(payload, now_ns, is_replayed=True)
                case ReplayEnded():
                    self._replay_ended(now_ns)
                case SnapshotAnswered(data):
                    self._receive_snapshot(data, now_ns)
                case Malformed(reason):
                    self._inspector.bad_message(reason)

    def advance(self, now_ns: int) -> None:
        """Does what can be done by now: join, fold, ask, give up."""
        if not self._incarnation:
            return
        self._note_silence(now_ns)
        self._ask_for_snapshot(now_ns)
        if self._sequencer is None:
            self._try_to_join(now_ns)
        if self._sequencer is None or self._is_filling_back(now_ns):
            return
        self._tell_epochs(now_ns)
        self._fold_what_is_next(self._sequencer, now_ns)
        while self._mend(self._sequencer, now_ns):
            self._fold_what_is_next(self._sequencer, now_ns)

    def check_integrity(self) -> None:
        """Asserts what holds between two calls."""
        self._live.check_integrity()
        assert self._buffered_bytes == sum(size for _, size in self._buffer), "buffered bytes are miscounted"
        if self._sequencer is not None:
            self._sequencer.check_integrity()
            assert not self._buffer, "a joined source buffers nothing"

    # What arrives.

    def _receive_payload(self, payload: bytes, now_ns: int, *, is_replayed: bool) -> None:
        try:
            message = decode(payload)
        except BadMessage as error:
            self._inspector.bad_message(str(error))
            return
        header = message.header
        if header.incarnation in self._retired:
            return
        if header.incarnation != self._incarnation:
            self._begin(header, now_ns)
        self._note_heard(now_ns)
        if header.type == "heartbeat":
            self._hear(header, now_ns)
            return
        if not is_replayed:
            self._live.lag_s = (self._clock.wall_ns() - _sent_ns(message)) / 1e9
        self._keep(self._names.message(message), len(payload), now_ns)

    def _note_heard(self, now_ns: int) -> None:
        self._heard_ns, self._heard_wall_ns = now_ns, self._clock.wall_ns()
        if self._live.connection == "stale":
            self._live.connect("connected" if self._sequencer else "joining", self._heard_wall_ns)
            self._inspector.heard()

    def _note_silence(self, now_ns: int) -> None:
        if self._live.connection != "stale" and now_ns - self._heard_ns > STALE_AFTER_S * 1e9:
            self._live.connect("stale", self._heard_wall_ns)
            self._inspector.silent(self._heard_wall_ns)

    def _keep(self, message: Message, num_bytes: int, now_ns: int) -> None:
        wire_seq = message.header.wire_seq
        if self._backfill is not None and self._backfill.covers(wire_seq):
            self._backfill.offer(message, num_bytes, now_ns)
        elif self._sequencer is not None:
            if wire_seq < self._sequencer.next_wire_seq and self._history is not None:
                self._history.fill(message)
            self._sequencer.offer(message, num_bytes, now_ns)
        else:
            self._buffer.append((message, num_bytes))
            self._buffered_bytes += num_bytes
            # The oldest go first: the snapshot, when it comes, is newer than they are.
            while self._buffered_bytes > MAX_HOLD_BYTES:
                self._buffered_bytes -= self._buffer.popleft()[1]

    def _hear(self, header: Header, now_ns: int) -> None:
        self._heartbeat = header
        self._live.lag_s = (self._clock.wall_ns() - header.t0_wall_ns) / 1e9
        if self._sequencer is None:
            return
        self._sequencer.hear(header.wire_seq, now_ns)
        self._live.hear(header)
        self._inspector.heard()

    def _receive_snapshot(self, data: bytes | None, now_ns: int) -> None:
        if data is None:
            self._ask_snapshot_at_ns = now_ns + NOT_READY_NS
            return
        try:
            block_map = snapshot.load(data)
        except BadMessage as error:
            self._inspector.bad_message(str(error))
            return
        if block_map.incarnation == self._incarnation and self._wants_snapshot:
            self._names.snapshot(block_map)
            self._snapshot = block_map

    def _replay_ended(self, now_ns: int) -> None:
        answered = self._desk.ended()
        if answered is None:
            return
        if self._backfill is not None:
            self._backfill.answer_ended(answered[0], now_ns)
            return
        hole = self._sequencer.hole() if self._sequencer is not None else None
        # An answer may be cut short by its size: only one that did not bring the first says that it is lost.
        if hole is not None and hole.wire_seq0 == answered[0]:
            self._replay_lacks = hole.wire_seq0

    # A new life of the engine, and joining it.

    def _begin(self, header: Header, now_ns: int) -> None:
        """An incarnation not heard before: what is held of the earlier one goes into history, the live state follows
        the new.
        """
        self._close_epoch(now_ns)
        if self._incarnation:
            self._retired.append(self._incarnation)
        self._incarnation = header.incarnation
        self._sequencer = self._history = self._backfill = self._snapshot = self._heartbeat = None
        self._replay_lacks = None
        self._desk.reset()
        self._buffer.clear()
        self._buffered_bytes = 0
        self._joining_since_ns = now_ns
        self._wants_snapshot, self._ask_snapshot_at_ns = self._snapshots, now_ns
        self._live.connect("joining", self._clock.wall_ns())

    def _close_epoch(self, now_ns: int) -> None:
        if self._sequencer is None or self._history is None:
            return
        self._finish_backfill(now_ns)
        self._history.append(self._sequencer.take(now_ns))
        while self._sequencer.hole() is not None:
            self._history.gap(self._sequencer.give_up(now_ns), LOST_ON_THE_WAY)
            self._history.append(self._sequencer.take(now_ns))

    def _ask_for_snapshot(self, now_ns: int) -> None:
        if self._wants_snapshot and self._snapshot is None and now_ns >= self._ask_snapshot_at_ns:
            self._ask_snapshot_at_ns = now_ns + ASK_AGAIN_NS
            self._asker.request_snapshot()

    def _try_to_join(self, now_ns: int) -> None:
        if self._snapshot is not None:
            block_map, self._snapshot, self._wants_snapshot = self._snapshot, None, False
            self._join(block_map, now_ns)
            return
        waited = now_ns - self._joining_since_ns
        if self._heartbeat is not None and (not self._snapshots or waited >= JOIN_UNKNOWN_AFTER_NS):
            self._join_without_snapshot(self._heartbeat, now_ns)

    def _join_without_snapshot(self, heartbeat: Header, now_ns: int) -> None:
        """From the first message heard on; whatever was before it is unknown, unless nothing was."""
        try:
            descriptor = decode_descriptor(heartbeat.descriptor)
        except BadMessage as error:
            self._inspector.bad_message(str(error))
            self._heartbeat = None
            return
        first = self._buffer[0][0].header if self._buffer else None
        next_wire_seq = first.wire_seq if first else heartbeat.wire_seq + 1
        block_map = BlockMap(
            descriptor, source=heartbeat.source, incarnation=heartbeat.incarnation, known=next_wire_seq == 0
        )
        block_map.next_wire_seq = next_wire_seq
        block_map.next_seq = first.seq0 if first else heartbeat.seq0
        block_map.t_ns = first.t0_wall_ns if first else heartbeat.t0_wall_ns
        self._join(block_map, now_ns)

    def _join(self, block_map: BlockMap, now_ns: int) -> None:
        history = self._history = self._archive.open_epoch(self._live.source, block_map)
        self._live.begin(history.epoch, block_map, history.known_gaps)
        self._epochs_due_ns = now_ns
        self._inspector.began(is_new_epoch=history.cursor is None, is_exact=block_map.holders_known)
        self._live.connect("connected", self._clock.wall_ns())
        sequencer = self._sequencer = Sequencer(block_map.next_wire_seq, block_map.next_seq)
        self._start_backfill(history, block_map, now_ns)
        while self._buffer:
            message, num_bytes = self._buffer.popleft()
            sequencer.offer(message, num_bytes, now_ns)
        sequencer.duplicates = self._buffered_bytes = 0
        if self._heartbeat is not None:
            sequencer.hear(self._heartbeat.wire_seq, now_ns)
            self._live.hear(self._heartbeat)

    def _tell_epochs(self, now_ns: int) -> None:
        """Which epochs are stored; once more a little later, when the first events of the new one are."""
        if self._epochs_due_ns and now_ns >= self._epochs_due_ns:
            self._live.epochs = self._archive.epochs(self._live.source)
            is_told = any(span.epoch == self._live.epoch and span.first_seq is not None for span in self._live.epochs)
            self._epochs_due_ns = 0 if is_told else now_ns + TELL_EPOCHS_NS

    # History from before the join.

    def _start_backfill(self, history: EpochHistory, block_map: BlockMap, now_ns: int) -> None:
        cursor = history.cursor
        first, seq = (cursor.next_wire_seq, cursor.next_seq) if cursor else (0, 0)
        end, end_seq = block_map.next_wire_seq, block_map.next_seq
        self._keyframe_due = block_map.holders_known
        self._backfill = Backfill(first, end, seq, end_seq, goes_on=cursor is not None, now_ns=now_ns)
        if not self._replay:
            self._finish_backfill(now_ns)

    def _is_filling_back(self, now_ns: int) -> bool:
        """Whether messages must wait for earlier ones to be stored first; asks for those."""
        if self._backfill is None:
            return False
        if self._backfill.is_over(now_ns):
            self._finish_backfill(now_ns)
            return False
        if self._desk.newest is None:
            self._desk.ask(*self._backfill.wanted(), now_ns)
        return True

    def _finish_backfill(self, now_ns: int) -> None:
        backfill, self._backfill = self._backfill, None
        self._desk.drop()
        if backfill is None or self._history is None:
            return
        for part in backfill.finish(now_ns):
            if isinstance(part, Gap):
                self._history.gap(part, BEFORE_JOINING)
            else:
                self._history.append([part])
                self._live.remember([part])
        if self._keyframe_due and self._live.block_map is not None:
            self._history.keyframe(self._live.block_map)

    # Following.

    def _fold_what_is_next(self, sequencer: Sequencer, now_ns: int) -> None:
        waiting = deque(sequencer.take(now_ns))
        while waiting:
            self._swap_in_snapshot(waiting[0].header.wire_seq)
            run = [waiting.popleft()]
            rows = run[0].columns.num_rows
            while waiting and rows < FOLD_ROWS and self._may_join(run, waiting[0]):
                rows += waiting[0].columns.num_rows
                run.append(waiting.popleft())
            self._fold(run)
        self._swap_in_snapshot(sequencer.next_wire_seq)
        self._live.wire_seq = sequencer.next_wire_seq - 1

    def _may_join(self, run: list[Message], following: Message) -> bool:
        if self._snapshot is not None and self._snapshot.next_wire_seq == following.header.wire_seq:
            return False
        starts = following.columns.kind == Kind.StepStarted
        return bool(len(starts) and starts[0]) and can_join(run[0], run[-1], following)

    def _fold(self, run: list[Message]) -> None:
        assert self._history is not None, "a joined source has a history"
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
        self._history.append(run)
        self._inspector.folded(joined.header, faults)

    def _leave_out(self, message: Message, reason: str) -> None:
        """A message that was decoded and yet cannot be: the state behind it is as unknown as behind a lost one."""
        header = message.header
        self._inspector.bad_message(reason)
        self._lose(Gap(header.wire_seq, header.wire_seq, header.seq0, header.seq0 + header.n - 1), CANNOT_BE_FOLDED)

    def _mend(self, sequencer: Sequencer, now_ns: int) -> bool:
        """Asks for what is missing, or goes on without it; True when messages behind the hole may be next now."""
        hole = sequencer.hole()
        if hole is None:
            self._replay_lacks = None
            return False
        lacks = not self._replay or self._replay_lacks == hole.wire_seq0
        if sequencer.is_overdue(now_ns, replay_answered=lacks):
            self._replay_lacks = None
            self._lose(sequencer.give_up(now_ns), LOST_ON_THE_WAY)
            return True
        if not lacks and self._desk.may_ask(now_ns):
            self._desk.ask(hole.wire_seq0, hole.wire_seq1, now_ns)
        return False

    def _lose(self, gap: Gap, reason: str) -> None:
        assert self._history is not None, "a joined source has a history"
        logger.warning("%s: messages %d to %d are lost: %s", self._live.source, gap.wire_seq0, gap.wire_seq1, reason)
        self._history.gap(gap, reason)
        self._live.forget()
        self._inspector.lost(gap)
        if self._snapshots:
            self._wants_snapshot = True

    def _swap_in_snapshot(self, next_wire_seq: int) -> None:
        """Takes the waiting snapshot once the fold stands at its message; one that was passed is asked for anew."""
        if self._snapshot is None or self._snapshot.next_wire_seq > next_wire_seq:
            return
        block_map, self._snapshot = self._snapshot, None
        if block_map.next_wire_seq < next_wire_seq:
            return
        self._wants_snapshot = False
        self._live.replace(block_map)
        self._inspector.exact_again()
        if self._history is not None:
            self._history.keyframe(block_map)


def _sent_ns(message: Message) -> int:
    """Wall ns at which the engine handed the message over: its t0 and, where it closes a step, how long that took."""
    header, columns = message.header, message.columns
    if columns.num_operations and columns.kind[-1] == Kind.StepCompleted:
        starts = columns.a0[columns.kind == Kind.StepStarted]
        return header.t0_wall_ns + (int(starts[-1] if len(starts) else 0) + int(columns.a0[-1])) * 1000
    return header.t0_wall_ns
