"""Stands between an engine that dials out with its events and who watches it, and loses what it is told to lose."""

from __future__ import annotations

import threading
from types import TracebackType

import zmq


class Relay:
    """`heard`: number and payload of every batch that came, passed on or not. `address`: for whoever watches;
    `num_watching`: how many do.
    """

    def __init__(self, events: str) -> None:
        """events: where the engine dials."""
        self.heard: list[tuple[int, bytes]] = []
        self.num_lost = 0
        self._is_losing = threading.Event()
        self._stopping = threading.Event()
        self._context = zmq.Context()
        self._from = self._context.socket(zmq.SUB)
        self._from.setsockopt(zmq.RCVHWM, 0)
        self._from.setsockopt(zmq.SUBSCRIBE, b"")
        self._from.bind(events)
        self.num_watching = 0
        # As PUB, and tells who subscribes.
        self._to = self._context.socket(zmq.XPUB)
        self._to.setsockopt(zmq.XPUB_VERBOSER, 1)
        self._to.setsockopt(zmq.SNDHWM, 0)
        self._to.bind("tcp://127.0.0.1:*")
        self.address = self._to.getsockopt_string(zmq.LAST_ENDPOINT)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
        self._context.destroy(linger=0)

    def lose(self) -> None:
        """Everything from now on, until `pass_on`."""
        self._is_losing.set()

    def pass_on(self) -> None:
        self._is_losing.clear()

    def _run(self) -> None:
        while not self._stopping.is_set():
            while self._to.poll(0):
                self.num_watching += 1 if self._to.recv().startswith(b"\x01") else -1
            if self._from.poll(20):
                frames = self._from.recv_multipart()
                if self._is_losing.is_set():
                    self.num_lost += 1
                else:
                    self._to.send_multipart(frames)
                self.heard.append((int.from_bytes(frames[1], "big"), frames[2]))
