"""A publisher that loses, reorders and repeats messages, or stands still. Its own fold stays right: what it says when
asked for a snapshot is true.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kvxray_engine.faults.dice import dice_of
from kvxray_engine.faults.fault import Fault
from kvxray_engine.stream.handover import RecordedMessage
from kvxray_engine.stream.publisher import Publisher

FROZEN_S: Final = 10.0


class FaultyPublisher(Publisher):
    """`frozen_s`: for how long it stands still, heartbeats and answers included; then it goes on where it was.

    `loses`, `reorders`, `repeats`, `freezes`: the dice of each fault, where it was asked for.
    """

    def __init__(self, faults: Iterable[Fault], *args: Any, frozen_s: float = FROZEN_S, **options: Any) -> None:
        super().__init__(*args, **options)
        self.frozen_s = frozen_s
        faults = tuple(faults)
        self.loses = dice_of(faults, "lost-messages")
        self.reorders = dice_of(faults, "reordered-messages")
        self.repeats = dice_of(faults, "duplicated-messages")
        self.freezes = dice_of(faults, "frozen-publisher")
        self._held_back: bytes | None = None
        self._message = -1  # under way

    def _send(self, recorded: RecordedMessage) -> None:
        if self.freezes is not None and self.freezes.falls():
            self.freezes.tell(message=recorded.wire_seq)
            self._stand_still()
        super()._send(recorded)

    def _emit(self, wire_seq: int, payload: bytes) -> None:
        if self.loses is not None and self.loses.falls():
            self.loses.tell(message=wire_seq)
            return
        self._message = wire_seq
        super()._emit(wire_seq, payload)

    def _publish(self, payload: bytes) -> None:
        before, self._held_back = self._held_back, None
        if before is None and self.reorders is not None and self.reorders.falls():
            self.reorders.tell(message=self._message)
            self._held_back = payload
            return
        super()._publish(payload)
        if self.repeats is not None and self.repeats.falls():
            self.repeats.tell(message=self._message)
            super()._publish(payload)
        if before is not None:
            super()._publish(before)

    def _stand_still(self) -> None:
        self._stopping.wait(self.frozen_s)

    def _send_heartbeat(self) -> None:
        super()._send_heartbeat()
        held, self._held_back = self._held_back, None
        if held is not None:  # no next one came
            super()._publish(held)
