"""The engine's publisher, moved on by hand in the time of the engine, over its real sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvxray_engine.faults.faulty_publisher import FaultyPublisher

ANSWER_MS = 10_000


class SteppedPublisher(FaultyPublisher):
    """Never started: what its thread would do, `turn` and `beat` do. `meanwhile`: what the world does while it stands
    still, for so many seconds; it must not turn then. `sent`: messages and heartbeats that were put on the wire.
    """

    def __init__(self, *args: Any, meanwhile: Callable[[float], object], **options: Any) -> None:
        super().__init__(*args, **options)
        self.is_still = False
        self._meanwhile = meanwhile
        self._wire = self._events = _CountingSocket(self._events)  # type: ignore[assignment]

    @property
    def sent(self) -> int:
        return int(self._wire.sent)

    def turn(self) -> None:
        """Sends what the engine handed over."""
        assert not self.is_still, "it stands still"
        self._send_what_waits()

    def beat(self) -> None:
        """Gives a sign of life."""
        assert not self.is_still, "it stands still"
        self._send_heartbeat()

    def answer(self) -> None:
        """Answers a question that is on its way."""
        assert not self.is_still, "it stands still"
        assert self._router.poll(ANSWER_MS), "nobody asks"
        self._answer()

    def _stand_still(self) -> None:
        self.is_still = True
        self._meanwhile(self.frozen_s)
        self.is_still = False


class _CountingSocket:
    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self.sent = 0

    def send_multipart(self, frames: list[bytes], flags: int) -> None:
        self._socket.send_multipart(frames, flags)
        self.sent += 1
