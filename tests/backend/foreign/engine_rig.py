"""A publisher as engines have it, in a thread: PUB with batches, ROUTER that answers replay from a buffer, in either
framing; it binds, or dials out. What it does is as vLLM does it; only its events are made up.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable

import msgspec
import zmq

END = b"\xff" * 8


def payload_of(seq: int, *, life: int = 0, rank: int | None = 0, num_tokens: int = 16, base_ts: float = 1.0e9) -> bytes:
    """One stored block, at a time that grows with life and number."""
    stored = {
        "type": "BlockStored",
        "block_hashes": [(life << 32) + seq + 1],
        "parent_block_hash": None,
        "token_ids": [1000 + token for token in range(num_tokens)],
        "block_size": num_tokens,
        "medium": "GPU",
    }
    return msgspec.msgpack.encode([base_ts + life * 1e6 + seq, [stored], rank])


class EngineRig:
    """From `__enter__` to `__exit__`; use `publish` from one thread. `events`, `replay`: where it is."""

    def __init__(
        self,
        events: str = "tcp://127.0.0.1:*",
        *,
        dials: bool = False,
        topic: bytes = b"kv-events",
        buffer_steps: int = 10_000,
        old_framing: bool = False,
        answers: bool = True,
        hwm: int = 100_000,
        replay: str = "tcp://127.0.0.1:*",
    ) -> None:
        self.topic, self.old_framing, self.answers = topic, old_framing, answers
        self.next_seq = 0
        self.num_requests = 0
        self.longest_send_s = 0.0
        self._buffer: deque[tuple[int, bytes]] = deque(maxlen=buffer_steps)
        self._lock = threading.Lock()
        self._context = zmq.Context()
        # As PUB, and tells who subscribes.
        self._pub = self._context.socket(zmq.XPUB)
        self._pub.setsockopt(zmq.XPUB_VERBOSE, 1)
        self._pub.setsockopt(zmq.SNDHWM, hwm)
        self._pub.setsockopt(zmq.LINGER, 0)
        if dials:
            self._pub.connect(events)
            self.events = events
        else:
            self._pub.bind(events)
            self.events = self._pub.getsockopt_string(zmq.LAST_ENDPOINT)
        self._router = self._context.socket(zmq.ROUTER)
        self._router.setsockopt(zmq.SNDHWM, 0)
        self._router.setsockopt(zmq.LINGER, 0)
        self._router.bind(replay)
        self.replay = self._router.getsockopt_string(zmq.LAST_ENDPOINT)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> EngineRig:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._context.destroy(linger=0)

    def publish(self, count: int = 1, *, payloads: Iterable[bytes] | None = None, is_heard: bool = True) -> None:
        """is_heard False: only the replay buffer has them, as if the wire had lost them."""
        first = self.next_seq
        for payload in payloads if payloads is not None else [payload_of(first + i) for i in range(count)]:
            seq = self.next_seq
            self.next_seq += 1
            with self._lock:
                self._buffer.append((seq, payload))
            if is_heard:
                self.send(self.topic, seq.to_bytes(8, "big"), payload)

    def send(self, *frames: bytes) -> None:
        """Raises `zmq.Again` where an engine would have to wait."""
        began = time.monotonic()
        self._pub.send_multipart(frames, zmq.NOBLOCK)
        self.longest_send_s = max(self.longest_send_s, time.monotonic() - began)

    def wait_for_subscriber(self) -> None:
        """Until another one has subscribed: what is sent from now on goes to it."""
        while True:
            assert self._pub.poll(20_000), "no subscriber came"
            if self._pub.recv().startswith(b"\x01"):
                return

    def _serve(self) -> None:
        while not self._stopping.is_set():
            if self._router.poll(20):
                client, *request = self._router.recv_multipart()
                self.num_requests += 1
                if self.answers and len(request) == 2 and request[0] == b"" and len(request[1]) == 8:
                    self._answer(client, int.from_bytes(request[1], "big"))

    def _answer(self, client: bytes, start: int) -> None:
        with self._lock:
            held = list(self._buffer)
        before = [client, b""] if self.old_framing else [client, b"", self.topic]
        for seq, payload in held:
            if seq >= start:
                self._router.send_multipart([*before, seq.to_bytes(8, "big"), payload])
        self._router.send_multipart([client, b"", END, b""] if self.old_framing else [client, b"", b"", END, b""])
