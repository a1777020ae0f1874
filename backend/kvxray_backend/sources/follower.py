"""Follows one publisher from one life to the next: hears it, joins it by snapshot, notices when it falls silent.

No socket and no thread of its own: it is told what arrived and what time it is, and asks through `Asker`. What comes
while joining is kept, up to 64 MB of it; once joined, `JoinedEpoch` has the messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from kvxray_engine.clock import Clock
from kvxray_engine.stream import snapshot
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import BadMessage, Message, decode, decode_descriptor
from kvxray_engine.stream.schema import Header, Kind
from kvxray_engine.stream.subscriber import Malformed, Published, Received, Replayed, ReplayEnded, SnapshotAnswered

from kvxray_backend.analysis.inspector import Begun, Inspector
from kvxray_backend.analysis.stream_health import STALE_AFTER_S
from kvxray_backend.live_state import LiveState
from kvxray_backend.sources.archive import Archive
from kvxray_backend.sources.joined_epoch import JoinedEpoch
from kvxray_backend.sources.privacy import NameFilter
from kvxray_backend.sources.replay_desk import ASK_AGAIN_NS, Asker, ReplayDesk
from kvxray_backend.sources.sequencer import MAX_HOLD_BYTES

TELL_EPOCHS_NS: Final = 1_000_000_000
NOT_READY_NS: Final = 250_000_000
JOIN_UNKNOWN_AFTER_NS: Final = 2_000_000_000
MAX_RETIRED: Final = 16


class Follower:
    """Follows one source. `joined` is None while joining."""

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
        """snapshots, replay: what the publisher is asked for."""
        self.joined: JoinedEpoch | None = None
        self._live = live
        self._archive = archive
        self._inspector = inspector
        self._names = names
        self._asker = asker
        self._clock = clock
        self._snapshots = snapshots
        self._replay = replay
        self._incarnation = ""
        self._retired: dict[str, int] = {}  # lives that are over, and the latest time that each told
        self._heard_ns = self._heard_wall_ns = 0
        self._begun = Begun(0, 0)
        self._told_ns = 0
        self._joining_since_ns = 0
        self._buffer: deque[tuple[Message, int]] = deque()
        self._buffered_bytes = 0
        self._heartbeat: Header | None = None
        self._snapshot: BlockMap | None = None
        self._ask_snapshot_at_ns = 0
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
                    if self.joined is not None:
                        self.joined.replay_ended(now_ns)
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
        if self.joined is None:
            self._try_to_join(now_ns)
        if self.joined is not None:
            self.joined.advance(now_ns)
            self._tell_epochs(now_ns)

    def check_integrity(self) -> None:
        """Asserts what holds between two calls."""
        self._live.check_integrity()
        assert self._buffered_bytes == sum(size for _, size in self._buffer), "buffered bytes are miscounted"
        if self.joined is not None:
            self.joined.check_integrity()
            assert not self._buffer, "a joined source buffers nothing"

    def _receive_payload(self, payload: bytes, now_ns: int, *, is_replayed: bool) -> None:
        try:
            message = decode(payload)
        except BadMessage as error:
            self._inspector.bad_message(str(error))
            return
        header = message.header
        if header.incarnation in self._retired and not self._comes_back(header):
            return
        if header.incarnation != self._incarnation:
            self._begin(header, now_ns)
        self._told_ns = max(self._told_ns, header.t0_wall_ns)
        self._note_heard(now_ns)
        if header.type == "heartbeat":
            self._hear(header, now_ns)
            return
        if not is_replayed:
            self._live.lag_s = (self._clock.wall_ns() - _sent_ns(message)) / 1e9
        self._keep(self._names.message(message), len(payload), now_ns)

    def _comes_back(self, header: Header) -> bool:
        """Whether a life that was taken to be over goes on: what seemed to follow it, perhaps one stray message, is
        silent, and this is news, not something that was long under way.
        """
        is_back = self._live.connection == "stale" and header.t0_wall_ns > self._retired[header.incarnation]
        if is_back:
            del self._retired[header.incarnation]
        return is_back

    def _keep(self, message: Message, num_bytes: int, now_ns: int) -> None:
        if self.joined is not None:
            self.joined.offer(message, num_bytes, now_ns)
            return
        self._buffer.append((message, num_bytes))
        self._buffered_bytes += num_bytes
        # The oldest go first: the snapshot, when it comes, is newer than they are.
        while self._buffered_bytes > MAX_HOLD_BYTES:
            self._buffered_bytes -= self._buffer.popleft()[1]

    def _hear(self, header: Header, now_ns: int) -> None:
        self._heartbeat = header
        self._live.lag_s = (self._clock.wall_ns() - header.t0_wall_ns) / 1e9
        if self.joined is not None:
            self.joined.hear(header, now_ns)
            self._inspector.heard(self._heard_wall_ns)

    def _note_heard(self, now_ns: int) -> None:
        self._heard_ns, self._heard_wall_ns = now_ns, self._clock.wall_ns()
        if self._live.connection == "stale":
            self._live.connect("connected" if self.joined else "joining", self._heard_wall_ns)
            self._inspector.heard(self._heard_wall_ns)

    def _note_silence(self, now_ns: int) -> None:
        if self._live.connection != "stale" and now_ns - self._heard_ns > STALE_AFTER_S * 1e9:
            self._live.connect("stale", self._heard_wall_ns)
            self._inspector.silent(self._heard_wall_ns)

    @property
    def _wants_snapshot(self) -> bool:
        return self._snapshots and (self.joined.wants_snapshot if self.joined else self._snapshot is None)

    def _ask_for_snapshot(self, now_ns: int) -> None:
        if self._wants_snapshot and now_ns >= self._ask_snapshot_at_ns:
            self._ask_snapshot_at_ns = now_ns + ASK_AGAIN_NS
            self._asker.request_snapshot()

    def _receive_snapshot(self, data: bytes | None, now_ns: int) -> None:
        if data is None:
            self._ask_snapshot_at_ns = now_ns + NOT_READY_NS
            return
        try:
            block_map = snapshot.load(data)
        except BadMessage as error:
            self._inspector.bad_message(str(error))
            return
        if block_map.incarnation != self._incarnation or not self._wants_snapshot:
            return
        self._names.snapshot(block_map)
        if self.joined is not None:
            self.joined.give_snapshot(block_map)
        else:
            self._snapshot = block_map

    def _begin(self, header: Header, now_ns: int) -> None:
        """An incarnation not heard before: what is held of the earlier one goes into history, then the new one is
        joined.
        """
        if self.joined is not None:
            self.joined.close(now_ns)
        if self._incarnation:
            self._retired[self._incarnation] = self._told_ns
            if len(self._retired) > MAX_RETIRED:
                del self._retired[next(iter(self._retired))]
        self._incarnation = header.incarnation
        heard_ns = self._clock.wall_ns()
        self._told_ns = header.t0_wall_ns if header.t0_wall_ns > 0 else heard_ns
        self._begun = Begun(self._told_ns, heard_ns)
        self.joined = self._snapshot = self._heartbeat = None
        self._buffer.clear()
        self._buffered_bytes = 0
        self._joining_since_ns = self._ask_snapshot_at_ns = now_ns
        self._live.connect("joining", heard_ns)
        self._inspector.heard(heard_ns)

    def _try_to_join(self, now_ns: int) -> None:
        if self._snapshot is not None:
            self._join(self._snapshot, now_ns)
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
        history = self._archive.open_epoch(self._live.source, block_map)
        earlier_ns = self._live.engine_time.t_ns
        self._live.begin(history.epoch, block_map, history.known_gaps, heard_ns=self._told_ns)
        self._inspector.began(
            self._begun,
            earlier_ns,
            is_new_epoch=history.cursor is None,
            is_exact=block_map.holders_known,
            is_asked=self._snapshots,
        )
        self._live.connect("connected", self._clock.wall_ns())
        desk = ReplayDesk(self._asker) if self._replay else None
        self.joined = JoinedEpoch(self._live, self._inspector, history, block_map, desk, now_ns)
        self._snapshot = None
        while self._buffer:
            message, num_bytes = self._buffer.popleft()
            # What the snapshot covers is no news to the live state, and backfill brings it to history.
            if message.header.wire_seq >= block_map.next_wire_seq:
                self.joined.offer(message, num_bytes, now_ns)
        self._buffered_bytes = 0
        if self._heartbeat is not None:
            self.joined.hear(self._heartbeat, now_ns)
        self._epochs_due_ns = now_ns

    def _tell_epochs(self, now_ns: int) -> None:
        """Which epochs are stored; once more a little later, when the first events of the new one are."""
        if self._epochs_due_ns and now_ns >= self._epochs_due_ns:
            self._live.epochs = self._archive.epochs(self._live.source)
            is_told = any(span.epoch == self._live.epoch and span.first_seq is not None for span in self._live.epochs)
            self._epochs_due_ns = 0 if is_told else now_ns + TELL_EPOCHS_NS


def _sent_ns(message: Message) -> int:
    """Wall ns at which the engine handed the message over: its t0 and, where it closes a step, how long that took."""
    header, columns = message.header, message.columns
    if columns.num_operations and columns.kind[-1] == Kind.StepCompleted:
        starts = columns.a0[columns.kind == Kind.StepStarted]
        return header.t0_wall_ns + (int(starts[-1] if len(starts) else 0) + int(columns.a0[-1])) * 1000
    return header.t0_wall_ns
