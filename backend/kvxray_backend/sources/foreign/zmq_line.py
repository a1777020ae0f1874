"""One line to foreign publishers: the SUB socket that hears them, and the DEALER that asks them again. For one thread.

libzmq gives up a connection for good when its other end breaks the protocol, so a line that we dialled and that has no
connection is dialled anew; no message is lost by that, since none could come. Silence is no sign: an idle engine is
silent for hours.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

import zmq
from kvxray_engine.errors import UserError
from zmq.utils.monitor import recv_monitor_message

from kvxray_backend.sources.foreign.caps import MAX_PAYLOAD_BYTES
from kvxray_backend.sources.foreign.endpoint import Endpoint
from kvxray_backend.sources.foreign.hand_over import Publisher
from kvxray_backend.sources.foreign.zmq_frames import replay_request

# Drained eagerly, so hardly ever used: what lies here is what a busy interpreter could not read for a moment.
QUEUE_MESSAGES: Final = 20_000
# Above the largest payload that is read, so that one a little too large costs itself and not the connection.
MAX_FRAME_BYTES: Final = 4 * MAX_PAYLOAD_BYTES
REDIAL_NS: Final = 5_000_000_000
# An answer that is due for so long was lost (the publisher died); what is asked after it must not wait behind it.
UNANSWERED_NS: Final = 10_000_000_000
_UP: Final = zmq.Event.HANDSHAKE_SUCCEEDED
_DOWN: Final = zmq.Event.DISCONNECTED


@dataclass(slots=True)
class Ask:
    """One replay request, until its answer is complete."""

    publisher: Publisher
    start: int
    num_dropped: int = 0


@dataclass(slots=True)
class Line:
    """`asked`: in the order in which the answers come. `num_connections`: of the SUB socket; always 1 in a process,
    where nobody tells.
    """

    context: zmq.Context[zmq.Socket[bytes]]
    poller: zmq.Poller
    events: Endpoint
    replay: Endpoint | None
    topic_prefix: bytes
    asked: deque[Ask] = field(default_factory=deque)
    num_connections: int = 0
    bound_address: str = ""
    sub: zmq.Socket[bytes] = field(init=False)
    dealer: zmq.Socket[bytes] | None = field(init=False, default=None)
    _monitor: zmq.Socket[bytes] | None = field(init=False, default=None)
    _down_since_ns: int = 0
    _answered_ns: int = 0

    def open(self) -> None:
        """Raises `UserError` for an endpoint that cannot be."""
        self._open_sub()
        try:
            if self.replay is not None:
                self._open_dealer(self.replay)
        except UserError:
            self._close_sub()
            raise

    def close(self) -> None:
        self._close_sub()
        self._close_dealer()

    def ask(self, ask: Ask, now_ns: int) -> None:
        """Sends the request; when nobody can take it, it is as one that nobody answers."""
        assert self.dealer is not None, "this line has no replay address"
        if not self.asked:
            self._answered_ns = now_ns
        self.asked.append(ask)
        try:
            self.dealer.send_multipart(replay_request(ask.start), zmq.NOBLOCK)
        except zmq.Again:
            return

    def answered(self, now_ns: int) -> None:
        """Something came from the replay socket."""
        self._answered_ns = now_ns

    def look_after(self, now_ns: int) -> None:
        """Counts connections; dials anew what has none, and forgets what will not be answered."""
        self._count_connections()
        is_down = self._monitor is not None and not self.events.is_bound and self.num_connections == 0
        if not is_down:
            self._down_since_ns = now_ns
        elif now_ns - self._down_since_ns > REDIAL_NS:
            self._down_since_ns = now_ns
            self._close_sub()
            self._open_sub()
        if self.asked and self.replay is not None and now_ns - self._answered_ns > UNANSWERED_NS:
            self.asked.clear()
            self._close_dealer()
            self._open_dealer(self.replay)

    def _count_connections(self) -> None:
        while self._monitor is not None and self._monitor.poll(0):
            event = recv_monitor_message(self._monitor)["event"]
            if event == _UP:
                self.num_connections += 1
            elif event == _DOWN:
                self.num_connections = max(0, self.num_connections - 1)

    def _open_sub(self) -> None:
        self.sub = self._socket(zmq.SUB)
        self.sub.setsockopt(zmq.SUBSCRIBE, self.topic_prefix)
        self.num_connections = 1 if self.events.is_in_process else 0
        if not self.events.is_in_process:
            self._monitor = self.sub.get_monitor_socket(_UP | _DOWN)
        self._attach(self.sub, self.events)
        if self.events.is_bound:
            self.bound_address = self.sub.getsockopt_string(zmq.LAST_ENDPOINT)

    def _open_dealer(self, replay: Endpoint) -> None:
        dealer = self._socket(zmq.DEALER)
        self._attach(dealer, replay)
        self.dealer = dealer

    def _close_sub(self) -> None:
        self._close_monitor(self.sub)
        self.poller.unregister(self.sub)
        self.sub.close(linger=0)

    def _close_monitor(self, socket: zmq.Socket[bytes]) -> None:
        if self._monitor is not None and socket.type == zmq.SUB:
            socket.disable_monitor()
            self._monitor.close(linger=0)
            self._monitor = None

    def _close_dealer(self) -> None:
        if self.dealer is not None:
            self.poller.unregister(self.dealer)
            self.dealer.close(linger=0)
            self.dealer = None

    def _socket(self, kind: int) -> zmq.Socket[bytes]:
        socket = self.context.socket(kind)
        for option, value in (
            (zmq.LINGER, 0), (zmq.RCVHWM, QUEUE_MESSAGES), (zmq.MAXMSGSIZE, MAX_FRAME_BYTES),
            (zmq.RECONNECT_IVL, 100), (zmq.RECONNECT_IVL_MAX, 2000),
            # A machine that is gone without a word is noticed within a minute.
            (zmq.TCP_KEEPALIVE, 1), (zmq.TCP_KEEPALIVE_IDLE, 30), (zmq.TCP_KEEPALIVE_INTVL, 10),
            (zmq.TCP_KEEPALIVE_CNT, 3),
        ):  # fmt: skip
            socket.setsockopt(option, value)
        return socket

    def _attach(self, socket: zmq.Socket[bytes], endpoint: Endpoint) -> None:
        # Only for addresses written so: with it, a name that has both kinds is dialled by the newer alone.
        socket.setsockopt(zmq.IPV6, endpoint.is_ipv6)
        try:
            if endpoint.is_bound:
                socket.bind(endpoint.address)
            else:
                socket.connect(endpoint.address)
        except zmq.ZMQError as error:
            self._close_monitor(socket)
            socket.close(linger=0)
            doing = "listen at" if endpoint.is_bound else "connect to"
            raise UserError(f"Cannot {doing} {endpoint.address!r}: {error.strerror}.") from error
        self.poller.register(socket, zmq.POLLIN)
