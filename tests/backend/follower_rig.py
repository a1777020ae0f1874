"""A follower with everything real but the thread: sockets, event log, analysis; pumped by the test until something is
so.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.inspector import Inspector
from kvxray_backend.live_state import LiveState
from kvxray_backend.sources.archive import Archive
from kvxray_backend.sources.follower import Follower
from kvxray_backend.sources.privacy import NameFilter
from kvxray_backend.stored_findings import finding_of, row_of
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import decode
from kvxray_engine.stream.subscriber import Published, Received, Subscriber
from kvxray_storage import history
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog
from kvxray_storage.records import EpochKey

from tests.backend.shifted_clock import ShiftedClock
from tests.backend.small_engine import SmallEngine


class FollowerRig:
    """Follows `engine` into a database in `folder`. `wire_loss`: share of the published messages that never arrive."""

    def __init__(
        self,
        folder: Path,
        engine: SmallEngine,
        *,
        wire_loss: float = 0.0,
        snapshots: bool = True,
        replay: bool = True,
        seed: int = 1,
        clock: ShiftedClock | None = None,
    ) -> None:
        """clock: shared with the engine where time is to pass for both."""
        self.database = open_database(f"sqlite:///{folder / 'events.db'}")
        self.log = EventLog(self.database, chunk_seconds=0.02)
        self.live = LiveState("engine")
        still_open = [finding_of(row) for row in history.findings(self.database, "engine", "open")]
        self.changes: list[Finding] = []
        self.clock = clock or ShiftedClock()
        self.inspector = Inspector(self.live, self.clock, self._store, still_open, lambda: self.log.failed)
        self.wire_loss = wire_loss
        self.num_lost = 0
        self._random = random.Random(seed)
        self._options = {"snapshots": snapshots, "replay": replay}
        self.connect(engine)

    def connect(self, engine: SmallEngine) -> None:
        """Follows this engine from now on, as if it had come up at the same address."""
        if hasattr(self, "subscriber"):
            self.subscriber.close()
        self.engine = engine
        self.subscriber = Subscriber(engine.publisher.events_address, engine.publisher.replay_address)
        archive, names = Archive(self.database, self.log, self.clock), NameFilter(b"key")
        if not hasattr(self, "follower"):
            self.follower = Follower(
                self.live, archive, self.inspector, names, self, self.clock, **self._options
            )  # fmt: skip

    def request_snapshot(self) -> None:
        self.subscriber.request_snapshot()

    def request_replay(self, first: int, last: int) -> None:
        self.subscriber.request_replay(first, last)

    def __enter__(self) -> FollowerRig:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.subscriber.close()
        self.log.close()
        self.database.close()

    @property
    def block_map(self) -> BlockMap:
        assert self.live.block_map is not None, "the source has not been joined"
        return self.live.block_map

    @property
    def key(self) -> EpochKey:
        """Where the followed epoch is in the event log."""
        assert self.follower.joined is not None, "the source has not been joined"
        return self.follower.joined.history.key

    def pump(self, wait_s: float = 0.005, extra: list[Received] | None = None) -> None:
        """One turn of what the source's thread does."""
        items = [item for item in self.subscriber.receive(wait_s) if not self._is_lost(item)]
        now_ns = self.clock.mono_ns()
        self.follower.receive([*items, *(extra or [])], now_ns)
        self.follower.advance(now_ns)
        self.inspector.inspect(now_ns)
        self.follower.check_integrity()

    def pump_until(self, condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, "it did not come about"
            self.pump()

    def pump_until_caught_up(self, hurry_s: float = 0.0) -> None:
        """Until the last message that the engine took is folded or given up. hurry_s: time to pass at each turn."""
        last = self.engine.recorder.next_wire_seq - 1

        def is_caught_up() -> bool:
            if self.live.wire_seq is not None and self.live.wire_seq >= last:
                return True
            self.let_time_pass(hurry_s)
            return False

        self.pump_until(is_caught_up)

    def let_time_pass(self, seconds: float) -> None:
        """For the follower, and for an engine that has the same clock."""
        self.clock.ahead_ns += int(seconds * 1e9)

    def hear_nothing(self) -> None:
        """The engine's address answers no more."""
        self.subscriber.close()
        self.subscriber = Subscriber("inproc://nobody", "inproc://nobody-either")

    def open_kinds(self) -> set[str]:
        return {finding.kind for finding in self.live.findings}

    def _is_lost(self, item: Received) -> bool:
        if not isinstance(item, Published) or not self.wire_loss:
            return False
        if decode(item.payload).header.type == "heartbeat" or self._random.random() >= self.wire_loss:
            return False
        self.num_lost += 1
        return True

    def _store(self, finding: Finding) -> None:
        self.changes.append(finding)
        self.log.finding(row_of(finding))
