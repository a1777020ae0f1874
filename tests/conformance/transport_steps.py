"""Steps that need real sockets: replay answered in a certain framing, a consumer that stalls while the engine sends."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import msgspec
import zmq
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.seed_mismatch import HashesByTokens
from kvxray_backend.sources.foreign.batch_steps import Step
from kvxray_backend.sources.foreign.endpoint import parse_endpoint
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.followed_source import FollowedSource
from kvxray_backend.sources.foreign.hand_over import Heard, Item, Publisher, ReplayEnded
from kvxray_backend.sources.foreign.ordered_stream import Delivery, OrderedStream, Origin
from kvxray_backend.sources.foreign.replay_turns import ReplayTurns
from kvxray_backend.sources.foreign.told import Batch
from kvxray_backend.sources.foreign.zmq_frames import BadFrames, read_live
from kvxray_backend.sources.foreign.zmq_stream import ZmqStream
from kvxray_backend.sources.privacy import NameFilter

from tests.backend.foreign.engine_rig import payload_of
from tests.engine.verdict import BadInput

PATIENCE_S = 20.0
SEQ = 7
BATCHES_A_SECOND = 5_000
"""What stands for a second of stalling."""
LEAST, MOST = 25_000, 50_000
"""Batches of a stall: more than all queues between the engine and a consumer hold, our own room not counted."""
PADDING = bytes(4_000)
ROOM_BYTES = 1 << 20
ENGINE_QUEUE = 1_000

_PARTS = {"": b"", "topic": b"kv", "seq": SEQ.to_bytes(8, "big"), "payload": payload_of(SEQ), "ff*8": b"\xff" * 8}


@dataclass(frozen=True)
class Stalled:
    engine_blocked: bool
    findings: tuple[Finding, ...]


def accepts_live(frames: list[str]) -> bool:
    """Whether a published message of these frames is read as what it says."""
    try:
        told = read_live(parts(frames))
    except BadFrames:
        return False
    return (told.seq, told.payload) == (SEQ, _PARTS["payload"])


def accepts_replay(frames: list[str], end: list[str]) -> bool:
    """Whether an answer of one batch in these frames, and its end, come through a real socket as what they say."""
    with zmq.Context() as context:
        published, router = context.socket(zmq.PUB), context.socket(zmq.ROUTER)
        for one in (published, router):
            one.setsockopt(zmq.LINGER, 0)
            one.bind("tcp://127.0.0.1:*")
        addresses = [one.getsockopt_string(zmq.LAST_ENDPOINT) for one in (published, router)]
        stream = ZmqStream([(parse_endpoint(addresses[0]), parse_endpoint(addresses[1]))])
        stream.start()
        try:
            items = _answered(stream, router, parts(frames), parts(end))
        finally:
            stream.close()
            published.close()
            router.close()
    batches = [(item.seq, item.payload) for item in items if isinstance(item, Heard)]
    return batches == [(SEQ, _PARTS["payload"])] and isinstance(items[-1], ReplayEnded)


def parts(frames: list[str]) -> list[bytes]:
    if not isinstance(frames, list) or any(frame not in _PARTS for frame in frames):
        raise BadInput(f"{str(frames)[:80]!r} are no frames.")
    return [_PARTS[frame] for frame in frames]


def _answered(stream: ZmqStream, router: zmq.Socket[bytes], frames: list[bytes], end: list[bytes]) -> list[Item]:
    """What the stream hands on of the answer to one request."""
    stream.ask_replay(Publisher(0, b"kv"), SEQ)
    if not router.poll(int(PATIENCE_S * 1000)):
        raise BadInput("The stream never asked for a replay.")
    client = router.recv_multipart()[0]
    router.send_multipart([client, *frames])
    router.send_multipart([client, *end])
    items: list[Item] = []
    deadline = time.monotonic() + 5.0
    while not any(isinstance(item, ReplayEnded) for item in items) and time.monotonic() < deadline:
        if stream.malformed.total():
            break
        items += stream.take(0.05)
    return items


def stall_consumer(seconds: float) -> Stalled:
    """The consumer takes nothing while the engine sends what it sends in so many seconds. The engine's socket would
    make it wait, as soon as its queue is full, rather than throw anything away.
    """
    with zmq.Context() as context:
        engine = _Engine(context, wait_s=max(0.5, seconds / 10))
        stream = ZmqStream([(parse_endpoint(engine.address), None)], max_bytes=ROOM_BYTES)
        stream.start()
        try:
            engine.wait_for_subscriber()
            num_batches = min(max(LEAST, int(seconds * BATCHES_A_SECOND)), MOST)
            engine_blocked = not all(engine.send() for _ in range(num_batches))
            steps = _caught_up(stream, engine)
        finally:
            stream.close()
            engine.close()
    source = FollowedSource("stalled", NameFilter(b"conformance"), HashesByTokens())
    for _, step in steps:
        source.take(step)
    source.check_integrity()
    return Stalled(engine_blocked, source.findings.all)


def _caught_up(stream: ZmqStream, engine: _Engine) -> list[tuple[Origin, Step[Delivery]]]:
    """The consumer takes again, until it has what the engine sends now."""
    newest = -1.0

    def decode(payload: bytes) -> Batch:
        nonlocal newest
        batch = decode_batch(payload)
        newest = max(newest, batch.ts or 0.0)
        return batch

    ordered = OrderedStream(stream, decode, ReplayTurns())
    steps: list[tuple[Origin, Step[Delivery]]] = []
    after_stall = engine.next_ts
    deadline = time.monotonic() + PATIENCE_S
    while newest < after_stall and time.monotonic() < deadline:
        engine.send()
        steps += ordered.next_steps(0.05)
    return steps + ordered.finish()


class _Engine:
    """Publishes one stored block a batch, padded by a field that nobody knows; `next_ts`: the time of the next one."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], wait_s: float) -> None:
        self._next_seq = 0
        self._socket = context.socket(zmq.XPUB)
        for option, value in (
            (zmq.LINGER, 0), (zmq.XPUB_NODROP, 1), (zmq.SNDHWM, ENGINE_QUEUE), (zmq.SNDBUF, 1 << 16),
            (zmq.SNDTIMEO, int(wait_s * 1000)),
        ):  # fmt: skip
            self._socket.setsockopt(option, value)
        self._socket.bind("tcp://127.0.0.1:*")
        self.address = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    @property
    def next_ts(self) -> float:
        return 1.0e9 + self._next_seq

    def wait_for_subscriber(self) -> None:
        if not self._socket.poll(int(PATIENCE_S * 1000)):
            raise BadInput("The stream never subscribed.")
        self._socket.recv()

    def send(self) -> bool:
        """False: it had to wait for longer than it may."""
        try:
            self._socket.send_multipart([b"kv", self._next_seq.to_bytes(8, "big"), self._payload()])
        except zmq.Again:
            return False
        self._next_seq += 1
        return True

    def _payload(self) -> bytes:
        stored = {
            "type": "BlockStored",
            "block_hashes": [self._next_seq + 1],
            "parent_block_hash": None,
            "token_ids": [1, 2, 3, 4],
            "block_size": 4,
        }
        return msgspec.msgpack.encode([self.next_ts, [stored], 0, PADDING])

    def close(self) -> None:
        self._socket.close()


def listed(ctl: dict[str, Any]) -> list[list[str]]:
    """Every list of frames that a step names, whatever it calls them."""
    found: list[list[str]] = []
    for value in ctl.values():
        if isinstance(value, list) and value:
            found += value if isinstance(value[0], list) else [value]
    return found
