"""One line to foreign publishers: the SUB socket that hears them, and the DEALER that asks them again. For one thread.

libzmq gives up a connection for good when its other end breaks the protocol, so a line that we dialled and that has no
connection is dialled anew; no message is lost by that, since none could come. Silence is no sign: an idle engine is
silent for hours.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
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

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Ask:
    """One replay request, until its answer is complete."""

    publisher: Publisher
    start: int
    num_dropped: int = 0


@dataclass(slots=True)
class Line:
    """`asked`: in the order in which the answers come. `num_connections`: of the SUB socket; always 1 in a process,
    where nobody tells. `sub`: None until it is opened, and while it cannot be opened again.
    """

    context: zmq.Context[zmq.Socket[bytes]]
    poller: zmq.Poller
    events: Endpoint
    replay: Endpoint | None
    topic_prefix: bytes
    asked: deque[Ask] = field(default_factory=deque)
    num_connections: int = 0
    bound_address: str = ""
    sub: zmq.Socket[bytes] | None = field(init=False, default=None)
    dealer: zmq.Socket[bytes] | None = field(init=False, default=None)
    _monitor: zmq.Socket[bytes] | None = field(init=False, default=None)
    _down_since_ns: int | None = None
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
        assert self.replay is not None, "this line has no replay address"
        if not self.asked:
            self._answered_ns = now_ns
        self.asked.append(ask)
        if self.dealer is None:
            return
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
        is_down = not self.events.is_in_process and not self.events.is_bound and self.num_connections == 0
        if not is_down or self._down_since_ns is None:
            self._down_since_ns = now_ns
        elif now_ns - self._down_since_ns > REDIAL_NS:
            self._down_since_ns = now_ns
            self._close_sub()
            self._open_again(self._open_sub)
        if self.asked and self.replay is not None and now_ns - self._answered_ns > UNANSWERED_NS:
            self.asked.clear()
            self._close_dealer()
            self._open_again(partial(self._open_dealer, self.replay))

    def _open_again(self, open_it: Callable[[], None]) -> None:
        """What cannot be had now (there may be too many open files) is tried the next time."""
        try:
            open_it()
        except (UserError, zmq.ZMQError) as error:
            logger.warning("%s is not dialled anew: %s", self.events.address, error)

    def _count_connections(self) -> None:
        while self._monitor is not None and self._monitor.poll(0):
            event = recv_monitor_message(self._monitor)["event"]
            if event == _UP:
                self.num_connections += 1
            elif event == _DOWN:
                self.num_connections = max(0, self.num_connections - 1)

    def _open_sub(self) -> None:
        sub = self._socket(zmq.SUB)
        try:
            sub.setsockopt(zmq.SUBSCRIBE, self.topic_prefix)
            self.num_connections = 1 if self.events.is_in_process else 0
            if not self.events.is_in_process:
                self._monitor = sub.get_monitor_socket(_UP | _DOWN)
            self._attach(sub, self.events)
        except BaseException:
            self._close_monitor(sub)
            sub.close(linger=0)
            raise
        self.sub = sub
        if self.events.is_bound:
            self.bound_address = sub.getsockopt_string(zmq.LAST_ENDPOINT)

    def _open_dealer(self, replay: Endpoint) -> None:
        dealer = self._socket(zmq.DEALER)
        self._attach(dealer, replay)
        self.dealer = dealer

    def _close_sub(self) -> None:
        if self.sub is not None:
            self._close_monitor(self.sub)
            self.poller.unregister(self.sub)
            self.sub.close(linger=0)
            self.sub = None

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
