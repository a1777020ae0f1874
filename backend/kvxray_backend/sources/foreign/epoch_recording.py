"""What of one stream is handed on to be kept: before the first message of an epoch the state that no message tells."""

from __future__ import annotations

from collections.abc import Callable

from kvxray_engine.stream import residency_snapshot
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.residency_map import ResidencyMap
from kvxray_engine.stream.schema import Header

from kvxray_backend.sources.foreign.stream_records import EpochBegan, Kept, Mended, StateBefore, StreamRecord


class EpochRecording:
    """`record` takes what is to be kept, in order; nothing is where there is nobody to take it."""

    def __init__(
        self, record: Callable[[StreamRecord], object] | None, is_stored: Callable[[Message], bool] | None
    ) -> None:
        """is_stored: what an earlier epoch has already, and is only folded when it is told again."""
        self.record = record or _ignore
        self._keeps = record is not None
        self._is_stored = is_stored
        self._is_recorded = not self._keeps
        self._has_skipped = False

    def begin(self, began: EpochBegan) -> None:
        self._is_recorded = not self._keeps
        self._has_skipped = False
        self.record(began)

    def lacks_state(self, message: Message) -> bool:
        """Whether the state before this message has to be told, since it is the first of its epoch that is kept."""
        return not self._is_recorded and not (self._is_stored is not None and self._is_stored(message))

    def tell_state(self, fold: ResidencyMap, header: Header) -> None:
        """fold: before the message of this header."""
        self._is_recorded = True
        seq, wire_seq = (header.seq0, header.wire_seq) if self._has_skipped else (0, 0)
        state, names = residency_snapshot.dump(fold), dict(fold.names.names)
        self.record(StateBefore(state, names, seq, wire_seq, fold.t_ns or header.t0_wall_ns))

    def keep(self, message: Message, *, is_late: bool) -> None:
        if self._is_recorded:
            self.record(Kept(message, is_late))
        else:
            self._has_skipped = True
        if is_late:
            self.record(Mended(message.header.wire_seq, message.header.wire_seq))


def _ignore(_: StreamRecord) -> None:
    return
