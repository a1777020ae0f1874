"""An engine with faults under load and all of kvxray behind it, in the engine's own time: scheduler, pool, recorder,
publisher, sockets, follower, event log, analyses and rules are the product's; only the threads are turned by hand, so
that a minute takes no minute and each run is like the next.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from kvxray_backend.alerts.alert_watch import LOOK_EVERY_S
from kvxray_backend.analysis.inspector import Inspector
from kvxray_backend.live_state import Counters, LiveState
from kvxray_backend.sources.archive import Archive
from kvxray_backend.sources.follower import Follower
from kvxray_backend.sources.privacy import NameFilter
from kvxray_engine.clock import VirtualClock
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.faults.dice import Dice
from kvxray_engine.faults.fault import Fault
from kvxray_engine.faults.faulty_manager import FaultyManager
from kvxray_engine.faults.faulty_pool import FaultyPool
from kvxray_engine.null_model import NullModel
from kvxray_engine.request import NewRequest
from kvxray_engine.step_batch import SamplingParams
from kvxray_engine.stream.codec import decode
from kvxray_engine.stream.recorder import Recorder
from kvxray_engine.stream.schema import Name
from kvxray_engine.stream.subscriber import Published, Received, ReplayEnded, SnapshotAnswered, Subscriber
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog

from tests.faults.alert_desk import AlertDesk
from tests.faults.stepped_publisher import SteppedPublisher

SECOND = 1_000_000_000
STEP_NS = 100_000_000
BEAT_NS = SECOND
ARRIVES_S = 60.0
"""Of our time: what was sent to this very machine arrives, or the test is wrong."""
SOURCE = "engine"


class NamingRecorder(Recorder):
    """Remembers who is meant by an ordinal."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.name_of: dict[int, str] = {}

    def new_holder(self, name: Name) -> int:
        ordinal = super().new_holder(name)
        self.name_of[ordinal] = name.id
        return ordinal


class WatchedEngine:
    """Requests share a prefix, grow, end, are cancelled and evict each other, in a pool of 64 blocks. seed: of the
    load. Use as a context.
    """

    def __init__(self, folder: Path, faults: tuple[Fault, ...], seed: int) -> None:
        self.clock = VirtualClock()
        self.recorder = NamingRecorder(self.clock)
        model = NullModel(65, 16, clock=self.clock, step_ns=STEP_NS, token_ns=0)
        limits = EngineConfig(max_num_seqs=8, max_num_batched_tokens=128, faults=faults)
        self.engine = LLMEngine(model, limits, self.recorder, self.clock)
        self.publisher = SteppedPublisher(
            faults, self.recorder, self.engine.descriptor({"engine": "kvxray"}), SOURCE, "tcp://127.0.0.1:*",
            "tcp://127.0.0.1:*", meanwhile=self.work,
        )  # fmt: skip
        self.desk = AlertDesk(SOURCE, "blocks")
        self.live = LiveState(SOURCE)
        self._database = open_database(f"sqlite:///{folder / 'events.db'}")
        self._log = EventLog(self._database, chunk_seconds=0.5)
        self._inspector = Inspector(self.live, self.clock, self.desk.note, storage_failure=lambda: self._log.failed)
        self._subscriber = Subscriber(self.publisher.events_address, self.publisher.replay_address)
        archive, names = Archive(self._database, self._log, self.clock), NameFilter(b"key")
        self._follower = Follower(self.live, archive, self._inspector, names, self, self.clock)
        self._rng = random.Random(seed)
        self._num_requests = self._heard = self._asked = 0
        self._beat_ns = self._look_ns = 0
        self.on_tick: Callable[[], object] = lambda: None
        """Called at the end of each."""

    def __enter__(self) -> WatchedEngine:
        self._join()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._subscriber.close()
        self.publisher.close()
        self._log.close()
        self._database.close()

    @property
    def now_ns(self) -> int:
        return self.clock.wall_ns()

    def dice_of(self, fault: str) -> Dice:
        """Those that decided when it happened, with its account of what it did."""
        engine, publisher = self.engine, self.publisher
        asked = [ending.dice for ending in engine.manager.endings] if isinstance(engine.manager, FaultyManager) else []
        asked += [engine.pool.stale_dice] if isinstance(engine.pool, FaultyPool) else []
        asked += [publisher.loses, publisher.reorders, publisher.repeats, publisher.freezes]
        (found,) = (dice for dice in asked if dice is not None and dice.fault.name == fault)
        return found

    def assert_nothing_is_lost(self) -> None:
        """What was folded is the engine's own state, and everything came."""
        block_map, dump = self.live.block_map, self.engine.dump_state()
        assert block_map is not None, "the engine has not been joined"
        assert self.live.wire_seq == self.recorder.next_wire_seq - 1, "the last messages are not folded"
        assert self.live.counters == Counters(), "something went wrong on the way"
        assert block_map.ref.tolist() == dump.ref_cnt, "references differ"
        held = zip(*(column.tolist() for column in block_map.holds()), strict=True)
        assert sorted(held) == sorted(dump.holds), "holds differ"

    def work(self, seconds: float) -> None:
        """Under load, for so long of the engine's time."""
        end_ns = self.now_ns + round(seconds * SECOND)
        while self.now_ns < end_ns:
            self._come_and_go()
            self._tick()

    def finish(self) -> None:
        """Until nothing is left to do."""
        while self.engine.has_work:
            self._tick()

    def idle(self, seconds: float) -> None:
        """Nothing to do, for so long."""
        end_ns = self.now_ns + round(seconds * SECOND)
        while self.now_ns < end_ns:
            self._tick()

    # What the follower asks; answered with the next turn that the publisher takes.

    def request_snapshot(self) -> None:
        self._asked += 1
        self._subscriber.request_snapshot()

    def request_replay(self, first: int, last: int) -> None:
        self._asked += 1
        self._subscriber.request_replay(first, last)

    def _join(self) -> None:
        """A subscription takes a moment: what is sent before is heard by nobody, and after it everything."""
        deadline_s = time.monotonic() + ARRIVES_S
        while not self._hears_the_last_beat():
            assert time.monotonic() < deadline_s, "the publisher is not heard"
        self._heard = self.publisher.sent
        while self.live.connection != "connected":
            self._tick()

    def _hears_the_last_beat(self) -> bool:
        self.clock.advance_ns(1000)
        self.publisher.beat()
        came = self._subscriber.receive(0.02)
        self._follower.receive(came, self.clock.mono_ns())
        told_ns = [decode(item.payload).header.t0_wall_ns for item in came if isinstance(item, Published)]
        return self.now_ns in told_ns

    def _come_and_go(self) -> None:
        living = [*self.engine.scheduler.requests()]
        if len(living) < 10 and self._rng.random() < 0.3:
            self._num_requests += 1
            own = self._rng.choices(range(1000, 9000), k=self._rng.randint(4, 90))
            prompt = [*range(1, 41), *own] if self._rng.random() < 0.7 else own
            sampling = SamplingParams(max_tokens=self._rng.randint(2, 40), ignore_eos=True)
            self.engine.add_request(NewRequest(f"request-{self._num_requests}", prompt, sampling))
        if living and self._rng.random() < 0.02:
            self.engine.abort_request(self._rng.choice(living).request_id)

    def _tick(self) -> None:
        if self.engine.has_work:
            self.engine.step()
        else:
            self.clock.advance_ns(STEP_NS)
        if not self.publisher.is_still:
            self._publish()
        self._follow()
        if self.now_ns >= self._look_ns:
            self._look_ns = self.now_ns + round(LOOK_EVERY_S * SECOND)
            self.desk.look(self.now_ns, self.live.findings)
        self.on_tick()

    def _publish(self) -> None:
        self.publisher.turn()
        if self.now_ns >= self._beat_ns:
            self._beat_ns = self.now_ns + BEAT_NS
            self.publisher.beat()

    def _follow(self) -> None:
        now_ns = self.clock.mono_ns()
        self._follower.receive([*self._arrived(), *self._answers()], now_ns)
        self._follower.advance(now_ns)
        self._inspector.inspect(now_ns)

    def _arrived(self) -> list[Received]:
        """All that was sent."""
        return self._receive(lambda: self._heard == self.publisher.sent)

    def _answers(self) -> list[Received]:
        """To all that was asked."""
        came: list[Received] = []
        while self._asked and not self.publisher.is_still:
            self.publisher.answer()
            asked = self._asked
            came += self._receive(lambda: self._asked < asked)  # noqa: B023
        return came

    def _receive(self, is_all: Callable[[], bool]) -> list[Received]:
        came: list[Received] = []
        deadline_s = time.monotonic() + ARRIVES_S
        while not is_all():
            assert time.monotonic() < deadline_s, "what was sent does not arrive"
            for item in self._subscriber.receive(0.01):
                self._heard += isinstance(item, Published)
                self._asked -= isinstance(item, ReplayEnded | SnapshotAnswered)
                came.append(item)
        return came
