"""The engine's publisher: a thread of its own that sends what the recorder handed over and answers for replay and
snapshots.

It folds its own stream, so a snapshot costs the engine nothing. PUB never blocks; what a slow subscriber misses it can
ask for again. After a drop at the recorder the fold is not whole: the engine leaves a dump of its lists at the end of a
step, and until then snapshots are `not ready`.
"""

from __future__ import annotations

import threading
import time
import uuid
from types import TracebackType
from typing import Final

import zmq

from kvxray_engine.errors import UserError
from kvxray_engine.stream import snapshot, wire
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import BadMessage, Message, decode_own, encode, encode_descriptor
from kvxray_engine.stream.columns import Columns
from kvxray_engine.stream.handover import RecordedMessage
from kvxray_engine.stream.joining import can_join, join
from kvxray_engine.stream.pool_dump import PoolDump
from kvxray_engine.stream.recorded import encode_recorded
from kvxray_engine.stream.recorder import Recorder
from kvxray_engine.stream.replay_buffer import ReplayBuffer
from kvxray_engine.stream.schema import SCHEMA_VERSION, Descriptor, Header, Totals

FOLD_EVENTS: Final = 65_536
FOLD_EVERY_S: Final = 1.0
"""Few large folds take less from the engine's thread than many small ones: with steps of 160 rows, 40 microseconds a
step instead of 110 with 2,048 rows at a time."""

REST_MS: Final = 50
"""After it sent something the publisher rests, and takes what came meanwhile in one go: each time it works, the
engine's thread finds the interpreter taken, and has to be woken. Measured with steps of 5 ms: woken by every step, 350
to 450 microseconds a step; resting 20 ms, 110 to 200; resting 50 ms, 80 to 140."""

SEND_QUEUE_MESSAGES: Final = 10_000


class Publisher:
    """Sends one recorder's messages. `events_address`, `replay_address`: where it is bound, once started."""

    def __init__(
        self,
        recorder: Recorder,
        descriptor: Descriptor,
        source: str,
        events_endpoint: str,
        replay_endpoint: str,
        *,
        hash_width: int = 32,
        heartbeat_s: float = 1.0,
        fold_every_s: float = FOLD_EVERY_S,
        replay_buffer: ReplayBuffer | None = None,
    ) -> None:
        """Binds both sockets. Raises `UserError` when an address is taken or makes no sense."""
        self.recorder = recorder
        self.descriptor = descriptor
        self.source = source
        self.incarnation = uuid.uuid4().hex
        self.hash_width = hash_width
        self.heartbeat_s = heartbeat_s
        self.fold_every_s = fold_every_s
        self.replay = ReplayBuffer() if replay_buffer is None else replay_buffer
        self.sent_messages = 0
        self.failed_messages = 0
        self._fold: BlockMap | None = BlockMap(descriptor, source=source, incarnation=self.incarnation)
        self._broken = self._fold
        self._to_fold: list[bytes] = []
        self._events_to_fold = 0
        self._covered = -1  # the last message that a dump covers: it and those before it are not folded
        self._folded_at = 0.0
        self._totals: Totals | None = None
        self._context = zmq.Context()
        self._events = self._context.socket(zmq.PUB)
        self._events.setsockopt(zmq.SNDHWM, SEND_QUEUE_MESSAGES)
        self._router = self._context.socket(zmq.ROUTER)
        self.events_address = self._bind(self._events, events_endpoint)
        self.replay_address = self._bind(self._router, replay_endpoint)
        self._wake = recorder.handover.listen()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kvxray-publisher", daemon=True)

    def __enter__(self) -> Publisher:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Sends what waits, a last heartbeat, and unbinds."""
        self._stopping.set()
        if self._thread.is_alive():
            self.recorder.handover.wake()
            self._thread.join(timeout=10)
        self.recorder.handover.close()
        self._context.destroy(linger=200)

    def _bind(self, socket: zmq.Socket[bytes], endpoint: str) -> str:
        socket.setsockopt(zmq.LINGER, 200)
        try:
            socket.bind(endpoint)
        except zmq.ZMQError as error:
            self._context.destroy(linger=0)
            why = zmq.strerror(error.errno or 0)  # the error's own words name the address too
            raise UserError(
                f"Cannot listen on {endpoint}: {why}. Stop what uses it, or choose another port."
            ) from error
        return socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._wake, zmq.POLLIN)
        poller.register(self._router, zmq.POLLIN)
        next_heartbeat = time.monotonic()
        while not self._stopping.is_set():
            sent = self._send_what_waits()
            if self._router.poll(REST_MS if sent else 0):
                self._send_what_waits()  # an answer covers what was offered before the question
                self._answer()
            if time.monotonic() >= next_heartbeat:
                self._send_heartbeat()
                next_heartbeat = time.monotonic() + self.heartbeat_s
            if not sent:
                self._sleep(poller, next_heartbeat)
        self._send_what_waits()
        self._send_heartbeat()

    def _sleep(self, poller: zmq.Poller, next_heartbeat: float) -> None:
        """Until something is offered or asked, or it is time to fold or to give a sign of life."""
        timeout = max(0.0, min(next_heartbeat - time.monotonic(), self.fold_every_s))
        if self.recorder.handover.fall_asleep() and not self._stopping.is_set():
            poller.poll(int(timeout * 1000) + 1)
        self.recorder.handover.wake_up()

    def _send_what_waits(self) -> bool:
        """True when there was something to send."""
        recorded, dump = self.recorder.handover.take()
        for one in recorded:
            self._send(one)
        if dump is not None:
            self._begin_anew(*dump)
        due = self._events_to_fold >= FOLD_EVENTS or time.monotonic() - self._folded_at >= self.fold_every_s
        if self._to_fold and due:
            self._fold_what_waits()
        return bool(recorded)

    def _send(self, recorded: RecordedMessage) -> None:
        try:
            payload = encode_recorded(recorded, self.source, self.incarnation, self.hash_width)
        except (OverflowError, ValueError, TypeError):
            # A number no column can hold is the engine's mistake: subscribers see a gap, the engine sees nothing.
            self.failed_messages += 1
            self.recorder.wants_dump = True
            return
        self._emit(recorded.wire_seq, payload)
        self.sent_messages += 1
        self._totals = recorded.totals or self._totals
        self._to_fold.append(payload)
        self._events_to_fold += recorded.n

    def _emit(self, wire_seq: int, payload: bytes) -> None:
        self._publish(payload)
        self.replay.add(wire_seq, payload)

    def _publish(self, payload: bytes) -> None:
        self._events.send_multipart([self.source.encode(), payload], zmq.NOBLOCK)

    def _begin_anew(self, wire_seq: int, dump: PoolDump) -> None:
        """Takes the engine's word for all messages up to `wire_seq`, and folds on from there."""
        fold = BlockMap(self.descriptor, source=self.source, incarnation=self.incarnation)
        fold.hashes.set_width(self.hash_width)
        fold.replace_from_dump(dump, wire_seq)
        fold.lost = self.recorder.lost
        fold.adopt_totals(self._fold or self._broken)
        self._fold, self._covered = fold, wire_seq

    def _fold_what_waits(self) -> None:
        self._folded_at = time.monotonic()
        # Kept as bytes, which the replay buffer has anyway: lists of numbers kept for a second slow the engine down,
        # whose new ones then come from cold memory.
        waiting, self._to_fold, self._events_to_fold = self._to_fold, [], 0
        run: list[Message] = []
        for message in map(decode_own, waiting):
            if message.header.wire_seq <= self._covered:
                continue
            if run and not can_join(run[0], run[-1], message):
                self._fold_run(run)
                run = []
            run.append(message)
        if run:
            self._fold_run(run)

    def _fold_run(self, run: list[Message]) -> None:
        """Folds messages that follow each other; before a gap in them the fold stops being whole."""
        if self._fold is None:
            return
        if run[0].header.wire_seq != self._fold.next_wire_seq:
            self._break_fold(self._fold)
            return
        try:
            self._fold.apply(join(run))
        except BadMessage:
            self._break_fold(self._fold)

    def _break_fold(self, fold: BlockMap) -> None:
        """From here to the next dump the state is not known; the totals go on from where they were."""
        self._fold, self._broken = None, fold
        self.recorder.wants_dump = True

    def _answer(self) -> None:
        while True:
            try:
                frames = self._router.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if len(frames) < 3 or frames[1] != b"":
                continue
            to = frames[:2]
            if frames[2] == wire.SNAPSHOT and len(frames) == 3:
                self._answer_snapshot(to)
            elif frames[2] == wire.REPLAY and len(frames) == 5:
                self._answer_replay(to, wire.unpack_number(frames[3]), wire.unpack_number(frames[4]))

    def _answer_snapshot(self, to: list[bytes]) -> None:
        self._fold_what_waits()
        if self._fold is None or self.recorder.wants_dump:
            self._router.send_multipart([*to, wire.NOT_READY], zmq.NOBLOCK)
        else:
            self._router.send_multipart([*to, wire.SNAPSHOT, snapshot.dump(self._fold)], zmq.NOBLOCK)

    def _answer_replay(self, to: list[bytes], first: int | None, last: int | None) -> None:
        if first is not None and last is not None:
            for wire_seq, payload in self.replay.between(first, last):
                self._router.send_multipart([*to, wire.MESSAGE, wire.pack_number(wire_seq), payload], zmq.NOBLOCK)
        self._router.send_multipart([*to, wire.END], zmq.NOBLOCK)

    def _send_heartbeat(self) -> None:
        """Tells the last message number taken, so that loss at the tail shows, and the engine's own totals."""
        recorder = self.recorder
        taken = recorder.next_wire_seq - 1
        self._send_what_waits()
        header = Header(
            version=SCHEMA_VERSION, type="heartbeat", source=self.source, incarnation=self.incarnation, wire_seq=taken,
            seq0=recorder.next_seq, n=0, step=recorder.step, t0_wall_ns=recorder.clock.wall_ns(),
            t0_mono_ns=recorder.clock.mono_ns(), lost=recorder.lost, req0=0, hash0=0, hash_width=self.hash_width,
            names=(), sizes=(), descriptor=encode_descriptor(self.descriptor), totals=self._totals,
        )  # fmt: skip
        self._events.send_multipart([self.source.encode(), encode(header, Columns.empty())], zmq.NOBLOCK)
