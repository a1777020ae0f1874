"""Hears foreign engines over ZeroMQ and loses nothing that can be kept: a thread of its own that only drains sockets.

An engine that cannot send waits, or throws away; so what it sends is taken at once, whatever the rest of kvxray is
doing, and handed over within bounds (`HandOver`). Nothing received is believed: a malformed message costs one counter.
What the batches mean, and what is missing, is others' work: they ask for it again by `ask_replay`.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Final

import zmq

from kvxray_backend.sources.foreign.endpoint import Endpoint
from kvxray_backend.sources.foreign.hand_over import MAX_BYTES, HandOver, Heard, Item, Publisher, ReplayEnded
from kvxray_backend.sources.foreign.zmq_frames import MAX_FRAMES, BadFrames, End, Told, read_live, read_reply
from kvxray_backend.sources.foreign.zmq_line import Ask, Line

MAX_PUBLISHERS: Final = 1024
_POLL_MS: Final = 500
# Of one socket in a row: the others, and the end, must have their turn too.
_IN_A_ROW: Final = 1000

logger = logging.getLogger(__name__)


class ZmqStream:
    """Publishers over one or more lines, from `start` to `close`. `malformed`: messages that were none, by what was
    wrong; `num_refused`: batches of more publishers than are told apart. Any one thread may take.
    """

    def __init__(
        self,
        lines: Sequence[tuple[Endpoint, Endpoint | None]],
        *,
        topic_prefix: bytes = b"",
        max_bytes: int = MAX_BYTES,
        context: zmq.Context[zmq.Socket[bytes]] | None = None,
    ) -> None:
        """lines: where events are, and where replay is asked for, None: nowhere. context: whose `inproc` sockets are
        meant. Raises `UserError` for an endpoint that cannot be.
        """
        self.malformed: Counter[str] = Counter()
        self.num_refused = 0
        self._hand_over = HandOver(max_bytes)
        self._owns_context = context is None
        self._context = zmq.Context() if context is None else context
        if self._owns_context:
            # It has room for 1,023, and a line takes up to four, twice that while it is dialled anew.
            self._context.set(zmq.MAX_SOCKETS, 8 * len(lines) + 1_023)
        self._poller = zmq.Poller()
        self._publishers: dict[tuple[int, bytes], Publisher] = {}
        self._only_answered: dict[int, Publisher] = {}
        self._asks: deque[Ask] = deque()
        self._is_closing = False
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_out.setblocking(False)
        self._poller.register(self._wake_in, zmq.POLLIN)
        self._lines: list[Line] = []
        self._thread = threading.Thread(target=self._run, name="kvxray-zmq-stream", daemon=True)
        try:
            for events, replay in lines:
                line = Line(self._context, self._poller, events, replay, topic_prefix)
                line.open()
                self._lines.append(line)
        except BaseException:
            self._release()
            raise

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stops the thread and closes the sockets; what was not taken is gone."""
        self._is_closing = True
        if self._thread.is_alive():
            self._wake()
            self._thread.join()
        self._release()

    def take(self, timeout_s: float, limit: int = 256) -> list[Item]:
        """What has come, in order; waits up to `timeout_s` for the first."""
        return self._hand_over.take(timeout_s, limit)

    def interrupt(self) -> None:
        """Whoever takes need not wait any more: the stream is about to be closed."""
        self._hand_over.interrupt()

    @property
    def askable_lines(self) -> list[int]:
        """Numbers of the lines that have a replay address."""
        return [number for number, line in enumerate(self._lines) if line.replay is not None]

    def can_ask(self, publisher: Publisher) -> bool:
        return self._lines[publisher.line].replay is not None

    def ask_replay(self, publisher: Publisher, start: int) -> None:
        """Asks for everything from batch `start` on; it comes through `take`, then `ReplayEnded`, or never."""
        assert self.can_ask(publisher), "this publisher has no replay address"
        self._asks.append(Ask(publisher, start))
        self._wake()

    @property
    def num_dropped(self) -> int:
        """Batches that did not fit the hand-over."""
        return self._hand_over.num_dropped

    @property
    def num_connections(self) -> list[int]:
        """Of each line, as of half a second ago at most."""
        return [line.num_connections for line in self._lines]

    @property
    def addresses(self) -> list[str]:
        """Of each line: where it listens, with the port that was picked, or what it dials."""
        return [line.bound_address or line.events.address for line in self._lines]

    def _run(self) -> None:
        while not self._is_closing:
            try:
                self._turn()
            except Exception:
                if self._is_closing:
                    return
                logger.exception("Listening stumbled; it goes on.")
                time.sleep(0.1)

    def _turn(self) -> None:
        ready = dict(self._poller.poll(_POLL_MS))
        if self._wake_in.fileno() in ready:
            self._wake_in.recv(4096)
        now_ns = time.monotonic_ns()
        for number, line in enumerate(self._lines):
            if line.sub is not None and line.sub in ready:
                self._hear(number, line.sub)
            if line.dealer is not None and line.dealer in ready:
                self._read_replies(number, line)
                line.answered(now_ns)
        while self._asks:
            ask = self._asks.popleft()
            self._lines[ask.publisher.line].ask(ask, now_ns)
        for line in self._lines:
            line.look_after(now_ns)

    def _hear(self, number: int, sub: zmq.Socket[bytes]) -> None:
        for _ in range(_IN_A_ROW):
            frames = self._receive(sub)
            if frames is None:
                return
            try:
                told = read_live(frames)
            except BadFrames as error:
                self._count(error)
                continue
            self._hand(self._publisher(number, told.topic or b""), told, None)

    def _read_replies(self, number: int, line: Line) -> None:
        assert line.dealer is not None
        for _ in range(_IN_A_ROW):
            frames = self._receive(line.dealer)
            if frames is None:
                return
            try:
                reply = read_reply(frames)
            except BadFrames as error:
                self._count(error)
                continue
            self._answer(number, line, reply)

    def _answer(self, number: int, line: Line, reply: Told | End) -> None:
        if not line.asked:
            self.malformed["An answer came that nobody asked for."] += 1
        elif isinstance(reply, End):
            ask = line.asked.popleft()
            self._hand_over.put_end(ReplayEnded(ask.publisher, ask.start, ask.num_dropped))
        else:
            ask = line.asked[0]
            publisher = self._answering(number, ask, reply.topic)
            if not self._hand(publisher, reply, ask.start):
                ask.num_dropped += 1

    def _hand(self, publisher: Publisher | None, told: Told, replay_start: int | None) -> bool:
        if publisher is None:
            self.num_refused += 1
            return True
        return self._hand_over.put(Heard(publisher, told.seq, told.payload, time.time_ns(), replay_start))

    def _publisher(self, line: int, topic: bytes) -> Publisher | None:
        """None: there are too many already. Older engines answer replay without their topic: the first topic heard on
        a line where only such answers came is that of the same publisher.
        """
        publisher = self._publishers.get((line, topic))
        if publisher is None and len(self._publishers) < MAX_PUBLISHERS:
            publisher = self._only_answered.pop(line, None) or Publisher(line, topic)
            self._publishers[line, topic] = publisher
        return publisher

    def _answering(self, line: int, ask: Ask, topic: bytes | None) -> Publisher | None:
        if topic is not None:
            return self._publisher(line, topic)
        known = [one for (number, _), one in self._publishers.items() if number == line]
        if not known and not ask.publisher.topic:
            return self._only_answered.setdefault(line, ask.publisher)
        return known[0] if len(known) == 1 and not ask.publisher.topic else ask.publisher

    def _receive(self, source: zmq.Socket[bytes]) -> list[bytes] | None:
        """None: nothing is there. Of a message with too many frames, the first few and one more."""
        try:
            frames = [source.recv(zmq.NOBLOCK)]
        except zmq.Again:
            return None
        while source.getsockopt(zmq.RCVMORE):
            frame = source.recv()  # the rest of a message is there when its beginning is
            if len(frames) <= MAX_FRAMES:
                frames.append(frame)
        return frames

    def _count(self, error: BadFrames) -> None:
        # Sentences with numbers in them: the kinds must stay few.
        reason = str(error)
        self.malformed[reason if reason in self.malformed or len(self.malformed) < 64 else "Others."] += 1

    def _wake(self) -> None:
        try:
            self._wake_out.send(b"\0")
        except BlockingIOError:
            return  # it is awake already

    def _release(self) -> None:
        for line in self._lines:
            line.close()
        self._lines.clear()
        if self._owns_context:
            self._context.destroy(linger=0)
        self._wake_in.close()
        self._wake_out.close()
