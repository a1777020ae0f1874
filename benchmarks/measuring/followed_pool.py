"""A backend's thread that follows one engine, run by hand: messages are decoded, put in order, joined and folded into
the live state, with all analyses or with none, and nothing is stored. Its time is the processor's: what else runs on
the machine takes no part in it, and idle time is made up.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from kvxray_backend.analysis.inspector import Begun, Inspector
from kvxray_backend.live_state import LiveState
from kvxray_backend.sources.joined_epoch import JoinedEpoch
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import decode
from kvxray_engine.stream.schema import Descriptor

if TYPE_CHECKING:
    from kvxray_backend.analysis.block_lives import BlockLives
    from kvxray_backend.sources.epoch_history import EpochHistory

AT_ONCE = 4
"""Messages that have arrived when the thread looks: as many as it joins."""


class BusyClock:
    """Goes on while this is at work, in processor time, and while it waits, in no time at all."""

    def __init__(self) -> None:
        self._offset_ns = 0
        self._stopped_ns: int | None = 0

    def wall_ns(self) -> int:
        return time.time_ns()

    def mono_ns(self) -> int:
        return self._offset_ns + time.thread_time_ns() if self._stopped_ns is None else self._stopped_ns

    def go_on(self) -> None:
        assert self._stopped_ns is not None, "it goes already"
        self._offset_ns, self._stopped_ns = self._stopped_ns - time.thread_time_ns(), None

    def stop(self) -> None:
        self._stopped_ns = self.mono_ns()

    def wait_until(self, at_ns: int) -> None:
        self._offset_ns += max(0, at_ns - self.mono_ns())


class Nothing:
    """Stands for a history that stores nothing, and for analyses that look for nothing."""

    cursor = None
    known_gaps = 0

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


@dataclass(slots=True)
class Followed:
    """What came of it. busy_s: all of its work; looking_s: each inspection that looked; looked_at_s: when those were
    over; lag_s: of each batch, from its arrival to its end.
    """

    rows: int = 0
    busy_s: float = 0.0
    looking_s: list[float] = field(default_factory=list)
    looked_at_s: list[float] = field(default_factory=list)
    lag_s: list[float] = field(default_factory=list)
    ended_s: float = 0.0


class FollowedPool:
    """`live` is what a page would show."""

    def __init__(self, descriptor: Descriptor, incarnation: str, *, with_analyses: bool) -> None:
        self.clock = BusyClock()
        self.live = LiveState("engine")
        self.with_analyses = with_analyses
        block_map = BlockMap(descriptor, source="engine", incarnation=incarnation)
        self.live.begin(1, block_map, heard_ns=1)
        if not with_analyses:
            self.live.lives = cast("BlockLives", Nothing())
        self._inspector = cast(
            "Inspector", Inspector(self.live, self.clock, lambda _: None) if with_analyses else Nothing()
        )
        self._inspector.began(Begun(1, 1), 0, is_new_epoch=True, is_exact=True, is_asked=False)
        history = cast("EpochHistory", Nothing())
        self._joined = JoinedEpoch(self.live, self._inspector, history, block_map, None, 0)
        self._due_ns = 0

    def follow(self, payloads: Sequence[bytes], rows_per_s: float = 0.0) -> Followed:
        """rows_per_s: how fast they arrive; 0: all of them are there."""
        told, clock = Followed(), self.clock
        clock.go_on()
        began_ns = clock.mono_ns()
        self._due_ns = max(self._due_ns, began_ns)
        for at in range(0, len(payloads), AT_ONCE):
            if rows_per_s:
                clock.wait_until(self._due_ns)
            started_ns, arrived_ns = clock.mono_ns(), self._due_ns
            rows = self._hear(payloads[at : at + AT_ONCE])
            self._look(told)
            now_ns = clock.mono_ns()
            told.rows += rows
            told.busy_s += (now_ns - started_ns) / 1e9
            if rows_per_s:
                told.lag_s.append((now_ns - arrived_ns) / 1e9)
                self._due_ns += int(rows / rows_per_s * 1e9)
        told.ended_s = clock.mono_ns() / 1e9
        clock.stop()
        return told

    def _hear(self, payloads: Sequence[bytes]) -> int:
        now_ns, rows = self.clock.mono_ns(), 0
        for payload in payloads:
            message = decode(payload)
            rows += message.header.n
            self._joined.offer(message, len(payload), now_ns)
        self._joined.advance(now_ns)
        return rows

    def _look(self, told: Followed) -> None:
        if not self.with_analyses:
            return
        began_ns = self.clock.mono_ns()
        inspected_ns = self._inspected_ns
        self._inspector.inspect(began_ns)
        if self._inspected_ns != inspected_ns:
            now_ns = self.clock.mono_ns()
            told.looking_s.append((now_ns - began_ns) / 1e9)
            told.looked_at_s.append(now_ns / 1e9)

    @property
    def _inspected_ns(self) -> int:
        return self._inspector._inspected_ns
