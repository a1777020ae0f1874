"""The other end: two sockets to one publisher, its events and its answers. Knows frames, not what they mean.

Nothing here blocks longer than asked, and nothing received is believed: payloads are handed on as bytes, to be decoded
by whoever decides. libzmq never dials again once the other end of a connection has broken the protocol, be it by one
frame above the limit (a connection that is cut, or answers nonsense from the start, it dials again); so sockets that
stay silent are made anew.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Final

import zmq

from kvxray_engine.errors import UserError
from kvxray_engine.stream import wire
from kvxray_engine.stream.codec import MAX_PAYLOAD_BYTES
from kvxray_engine.stream.snapshot import MAX_SNAPSHOT_BYTES

RECEIVE_QUEUE_MESSAGES: Final = 10_000
# A publisher of ours is heard every second: after three without it there is little to lose.
SILENT_S: Final = 3.0
# An answer may be large and its way slow: a socket that is waited on is given more time.
UNANSWERED_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Published:
    """A payload from the events socket."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class Replayed:
    """A payload sent again on request."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class ReplayEnded:
    """The answer to one replay request is complete."""


@dataclass(frozen=True, slots=True)
class SnapshotAnswered:
    """data None: not ready, ask again."""

    data: bytes | None


@dataclass(frozen=True, slots=True)
class Malformed:
    """Frames that no publisher of ours sends."""

    reason: str


Received = Published | Replayed | ReplayEnded | SnapshotAnswered | Malformed


class Subscriber:
    """One SUB socket and, when there is a replay address, one DEALER. Use from one thread."""

    def __init__(self, events: str, replay: str | None = None) -> None:
        """Connects; a publisher that is not there yet is waited for. Raises `UserError` for an address that makes no
        sense.
        """
        self._context = zmq.Context()
        self._poller = zmq.Poller()
        self._events_address, self._replay_address = events, replay
        self._heard_s = time.monotonic()
        self._asked_s: float | None = None
        self._events = self._open_events()
        self._dealer = self._open_dealer(replay) if replay else None

    def __enter__(self) -> Subscriber:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._context.destroy(linger=0)

    @property
    def can_ask(self) -> bool:
        """Whether there is a socket to ask for replay and snapshots."""
        return self._dealer is not None

    def receive(self, timeout_s: float, limit: int = 256) -> list[Received]:
        """All that has come, at most `limit` of each socket; waits up to `timeout_s` for the first.

        Nothing come, and nothing for a while: the sockets are made anew, and what was on its way is lost.
        """
        ready = dict(self._poller.poll(math.ceil(timeout_s * 1000)))
        received: list[Received] = []
        if self._dealer is not None and self._dealer in ready:
            received += [_answer(frames) for frames in _drain(self._dealer, limit)]
            self._asked_s = None
        if self._events in ready:
            received += [_event(frames) for frames in _drain(self._events, limit)]
            self._heard_s = time.monotonic()
        if not received:
            self._reconnect_when_silent(time.monotonic())
        return received

    def reconnect(self) -> None:
        """Makes both sockets anew; what they had received and not handed on, and what was asked, is lost."""
        self._close(self._events)
        self._events = self._open_events()
        self._heard_s = time.monotonic()
        self._reconnect_dealer()

    def has_waiting(self) -> bool:
        """Whether something could be received at once."""
        return bool(self._poller.poll(0))

    def request_snapshot(self) -> None:
        """Asks for the state; the answer comes through `receive`."""
        self._ask([wire.SNAPSHOT])

    def request_replay(self, first: int, last: int) -> None:
        """Asks for messages first..last again; what is still held comes through `receive`, then `ReplayEnded`."""
        self._ask([wire.REPLAY, wire.pack_number(first), wire.pack_number(last)])

    def _ask(self, frames: list[bytes]) -> None:
        assert self._dealer is not None, "this subscriber has no replay address"
        if self._asked_s is None:
            self._asked_s = time.monotonic()
        try:
            self._dealer.send_multipart([b"", *frames], zmq.NOBLOCK)
        except zmq.Again:
            # No peer and a full queue: the asker has a deadline and asks again.
            return

    def _reconnect_when_silent(self, now_s: float) -> None:
        if now_s - self._heard_s > SILENT_S:
            self.reconnect()
        elif self._asked_s is not None and now_s - self._asked_s > UNANSWERED_S:
            self._reconnect_dealer()

    def _reconnect_dealer(self) -> None:
        self._asked_s = None
        if self._dealer is not None and self._replay_address:
            self._close(self._dealer)
            self._dealer = self._open_dealer(self._replay_address)

    def _open_events(self) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.SUB)
        socket.setsockopt(zmq.RCVHWM, RECEIVE_QUEUE_MESSAGES)
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_PAYLOAD_BYTES)
        socket.setsockopt(zmq.SUBSCRIBE, b"")
        self._connect(socket, self._events_address)
        return socket

    def _open_dealer(self, endpoint: str) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_SNAPSHOT_BYTES)
        self._connect(socket, endpoint)
        return socket

    def _close(self, socket: zmq.Socket[bytes]) -> None:
        self._poller.unregister(socket)
        socket.close(linger=0)

    def _connect(self, socket: zmq.Socket[bytes], endpoint: str) -> None:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RECONNECT_IVL, 100)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 2000)
        try:
            socket.connect(endpoint)
        except zmq.ZMQError as error:
            self._context.destroy(linger=0)
            raise UserError(
                f"Cannot connect to {endpoint!r}: {error.strerror}. Write it like tcp://host:5570."
            ) from error
        self._poller.register(socket, zmq.POLLIN)


def _drain(socket: zmq.Socket[bytes], limit: int) -> list[list[bytes]]:
    drained: list[list[bytes]] = []
    while len(drained) < limit:
        try:
            drained.append(socket.recv_multipart(zmq.NOBLOCK))
        except zmq.Again:
            break
    return drained


def _event(frames: list[bytes]) -> Received:
    if len(frames) != 2:
        return Malformed(f"An event has 2 frames, not {len(frames)}.")
    return Published(frames[1])


def _answer(frames: list[bytes]) -> Received:
    match frames:
        case [b"", wire.MESSAGE, _, payload]:
            return Replayed(payload)
        case [b"", wire.END]:
            return ReplayEnded()
        case [b"", wire.SNAPSHOT, data]:
            return SnapshotAnswered(data)
        case [b"", wire.NOT_READY]:
            return SnapshotAnswered(None)
    return Malformed("An answer of the replay socket is none that kvxray knows.")
