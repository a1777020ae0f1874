"""Hears an engine over real sockets, and follows what it says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kvxray_backend.sources.foreign.batch_steps import Apply, GapOpened
from kvxray_backend.sources.foreign.endpoint import Endpoint, parse_endpoint
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.hand_over import Item
from kvxray_backend.sources.foreign.ordered_stream import OrderedStream, Origin
from kvxray_backend.sources.foreign.replay_turns import ReplayTurns
from kvxray_backend.sources.foreign.zmq_stream import ZmqStream

from tests.backend.foreign.engine_rig import EngineRig

PATIENCE_S = 30.0


@contextmanager
def hearing(*lines: tuple[Endpoint, Endpoint | None], **options: object) -> Iterator[ZmqStream]:
    stream = ZmqStream(lines, **options)  # type: ignore[arg-type]
    stream.start()
    try:
        yield stream
    finally:
        stream.close()


def line_to(rig: EngineRig, *, replay: bool = True) -> tuple[Endpoint, Endpoint | None]:
    return parse_endpoint(rig.events), parse_endpoint(rig.replay) if replay else None


def take_until(stream: ZmqStream, is_enough: Callable[[list[Item]], bool]) -> list[Item]:
    items: list[Item] = []
    deadline = time.monotonic() + PATIENCE_S
    while not is_enough(items):
        assert time.monotonic() < deadline, f"after {len(items)} items nothing more came"
        items += stream.take(0.1)
    return items


def take(stream: ZmqStream, count: int) -> list[Item]:
    return take_until(stream, lambda items: len(items) >= count)


class Followed:
    """What an ordered stream said, in order."""

    def __init__(self, stream: ZmqStream) -> None:
        self.ordered = OrderedStream(stream, decode_batch, ReplayTurns())
        self.steps: list[tuple[Origin, object]] = []

    def until(self, is_enough: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_enough():
            assert time.monotonic() < deadline, f"it stays at {self.of(GapOpened)} and {len(self.applied)} applied"
            self.steps += self.ordered.next_steps(0.1)

    def of(self, kind: type) -> list:
        return [step for _, step in self.steps if isinstance(step, kind)]

    @property
    def applied(self) -> list[int]:
        return [step.seq for step in self.of(Apply)]
