"""An engine in virtual time with kvxray behind it, without sockets and threads: its messages as bytes, the fold, all
analyses and all rules. So hours of traffic take minutes.
"""

from __future__ import annotations

import msgspec
from kvxray_backend.alerts.alert_watch import LOOK_EVERY_S
from kvxray_backend.analysis.inspector import INSPECT_EVERY_NS, Begun, Inspector
from kvxray_backend.live_state import LiveState
from kvxray_backend.sources.joined_epoch import FOLD_ROWS
from kvxray_engine.clock import VirtualClock
from kvxray_engine.engine import LLMEngine
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import Message, decode
from kvxray_engine.stream.joining import can_join, join
from kvxray_engine.stream.recorded import encode_recorded
from kvxray_engine.stream.recorder import Recorder
from kvxray_engine.stream.schema import Header, Kind

from tests.faults.alert_desk import AlertDesk

LIFE = "life-1"
HASH_BYTES = 32
BEAT_NS = 1_000_000_000


class FoldedEngine:
    """`follow` after each step. `rows`: blocks told of so far."""

    def __init__(self, name: str, engine: LLMEngine, recorder: Recorder, clock: VirtualClock) -> None:
        self.rows = 0
        self.desk = AlertDesk(name, "blocks")
        self.live = LiveState(name)
        self._recorder, self.clock = recorder, clock
        self._inspector = Inspector(self.live, clock, self.desk.note)
        self._waiting: list[Message] = []
        self._last: Header | None = None
        self._inspect_ns = self._beat_ns = self._look_ns = 0
        now_ns = clock.wall_ns()
        block_map = BlockMap(engine.descriptor({"engine": "kvxray"}), source=name, incarnation=LIFE)
        self.live.begin(1, block_map, heard_ns=now_ns)
        self._inspector.began(Begun(now_ns, now_ns), 0, is_new_epoch=True, is_exact=True, is_asked=True)

    def follow(self) -> None:
        recorded, _ = self._recorder.handover.take()
        for one in recorded:
            self._take(decode(encode_recorded(one, self.live.source, LIFE, HASH_BYTES)))
        now_ns = self.clock.wall_ns()
        if now_ns >= self._beat_ns:
            self._beat_ns = now_ns + BEAT_NS
            self._beat(now_ns)
        if now_ns >= self._inspect_ns:
            self._inspect_ns = now_ns + INSPECT_EVERY_NS
            self._fold()
            self._inspector.inspect(self.clock.mono_ns())
        if now_ns >= self._look_ns:
            self._look_ns = now_ns + round(LOOK_EVERY_S * 1e9)
            self.desk.look(now_ns, self.live.findings)

    def _take(self, message: Message) -> None:
        self.rows += message.columns.num_rows
        self._last = message.header
        waiting = self._waiting
        starts = message.columns.kind
        joins = waiting and starts[0] == Kind.StepStarted and can_join(waiting[0], waiting[-1], message)
        if waiting and (not joins or sum(one.columns.num_rows for one in waiting) >= FOLD_ROWS):
            self._fold()
        self._waiting.append(message)

    def _fold(self) -> None:
        if self._waiting:
            joined = join(self._waiting)
            self._waiting = []
            self._inspector.folded(joined, self.live.fold(joined))

    def _beat(self, now_ns: int) -> None:
        if self._last is None:
            return
        self._fold()
        told = {"type": "heartbeat", "t0_wall_ns": now_ns, "t0_mono_ns": self.clock.mono_ns()}
        self.live.hear(msgspec.structs.replace(self._last, **told))
        self._inspector.heard(now_ns)
