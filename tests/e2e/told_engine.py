"""An engine without a model whose minutes pass in seconds, followed by the real backend and page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvxray_engine.clock import SystemClock

from tests.backend.small_engine import SmallEngine
from tests.e2e.demo_rig import DemoRig, free_ports, until

STEP_NS = 500_000_000
BEGAN_S = 900


class HurriedClock(SystemClock):
    """The machine's clock, begun some minutes ago and moved on by hand."""

    def __init__(self) -> None:
        self.ahead_ns = -BEGAN_S * 1_000_000_000

    def wall_ns(self) -> int:
        return super().wall_ns() + self.ahead_ns

    def mono_ns(self) -> int:
        return super().mono_ns() + BEGAN_S * 1_000_000_000 + self.ahead_ns


class ToldEngine:
    """Lives one life after the other on the same ports; `work` tells so many half seconds of it."""

    def __init__(self, rig: DemoRig, num_blocks: int = 65) -> None:
        self.rig = rig
        self.num_blocks = num_blocks
        self.clock = HurriedClock()
        events, replay = free_ports(2)
        self.ports = {"events": f"tcp://127.0.0.1:{events}", "replay": f"tcp://127.0.0.1:{replay}"}
        rig.source = f"engine={self.ports['events']},{self.ports['replay']}"
        self.engine: SmallEngine | None = None
        self.lives = 0

    def begin(self, *, leak: bool = False, seed: int = 0) -> SmallEngine:
        """A new life, of which something is in the event log."""
        self.end()
        self.engine = SmallEngine(num_blocks=self.num_blocks, leak=leak, seed=seed, clock=self.clock, **self.ports)
        self.engine.__enter__()
        self.lives += 1
        until(self._is_followed)
        stored = self._num_stored()
        self.work(1)
        until(lambda: self._num_stored() > stored)
        return self.engine

    def _num_stored(self) -> int:
        return int(self.rig.get("health")["database"]["stored_events"])

    def _is_followed(self) -> bool:
        source = self.rig.get("sources")["sources"][0]
        return (source["state"], source["epoch"]) == ("connected", self.lives)

    def work(self, steps: int) -> None:
        assert self.engine is not None, "begin first"
        for _ in range(steps):
            self.engine.work(1)
            self.clock.ahead_ns += STEP_NS

    def wait(self, seconds: float) -> None:
        """Time in which nothing happens."""
        self.clock.ahead_ns += int(seconds * 1e9)

    def caught_up(self) -> None:
        """Waits until the backend has all that was told."""
        assert self.engine is not None, "begin first"
        last = self.engine.recorder.next_wire_seq - 1
        until(lambda: self.rig.get("sources")["sources"][0]["wire_seq"] == last)

    def end(self) -> None:
        if self.engine is not None:
            self.engine.__exit__(None, None, None)
        self.engine = None


@contextmanager
def told_engine(folder: Path, num_blocks: int = 65) -> Iterator[ToldEngine]:
    """An engine, a backend that follows it, and nothing told yet."""
    rig = DemoRig(folder)
    engine = ToldEngine(rig, num_blocks)
    try:
        rig.start_backend()
        yield engine
    finally:
        engine.end()
        rig.close()
