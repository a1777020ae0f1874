"""Records what an ordered stream hears until a limit or a sign to end, and says in plain words what that was."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from kvxray_backend.sources.foreign.batch_steps import Apply, Step
from kvxray_backend.sources.foreign.blank_tokens import blank_tokens
from kvxray_backend.sources.foreign.caps import BadBatch
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.heard_tally import HeardTally, batches, named
from kvxray_backend.sources.foreign.ordered_stream import Delivery, OrderedStream, Origin
from kvxray_backend.sources.foreign.recording import Frame, Recorder
from kvxray_backend.sources.foreign.replay_turns import ReplayTurns
from kvxray_backend.sources.foreign.zmq_stream import ZmqStream

MOST_TOLD: Final = 50
_WAIT_S: Final = 0.2
_FLUSH_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """None: none."""

    seconds: float | None = None
    batches: int | None = None


class RecordingSession:
    """One recording of one stream; both are the caller's to close."""

    def __init__(self, stream: ZmqStream, recorder: Recorder, say: Callable[[str], None], *, with_tokens: bool) -> None:
        """say: takes one sentence at a time."""
        self._stream = stream
        self._ordered = OrderedStream(stream, decode_batch, ReplayTurns())
        self._recorder = recorder
        self._say = say
        self._with_tokens = with_tokens
        self._tally = HeardTally()
        self._max_lines: int | None = None
        self._num_origins = 0
        self._num_zeros = 0
        self._num_unwritten = 0

    def run(self, limits: Limits, has_to_end: Callable[[], bool]) -> None:
        """Raises `UserError` when it cannot be written."""
        self._max_lines = limits.batches
        self._stream.start()
        began_s = flushed_s = time.monotonic()
        while not (has_to_end() or self._is_full):
            now_s = time.monotonic()
            if limits.seconds is not None and now_s - began_s >= limits.seconds:
                break
            if now_s - flushed_s >= _FLUSH_S:
                self._recorder.flush()
                flushed_s = now_s
            self._note(self._ordered.next_steps(_WAIT_S))
        self._note(self._ordered.finish())

    def tell(self) -> None:
        """Says what was heard."""
        for sentence in self._tally.sentences()[:MOST_TOLD]:
            self._say(sentence)
        self._tell_oddities()
        if self._recorder.num_lines:
            tokens = "all token ids as they are" if self._with_tokens else f"{self._num_zeros:,} token ids made zeros"
            self._say(f"{batches(self._recorder.num_lines)} in {self._recorder.path}, {tokens}")

    @property
    def _is_full(self) -> bool:
        return self._max_lines is not None and self._recorder.num_lines >= self._max_lines

    def _note(self, steps: Iterable[tuple[Origin, Step[Delivery]]]) -> None:
        for origin, step in steps:
            if self._is_full:
                return
            if self._tally.note(origin, step):
                self._num_origins += 1
                if self._num_origins <= MOST_TOLD:
                    self._say(f"heard {named(origin)}")
            if isinstance(step, Apply):
                self._write(step.batch)

    def _write(self, delivery: Delivery) -> None:
        heard = delivery.heard
        payload = heard.payload
        if not self._with_tokens:
            try:
                payload, num_zeros = blank_tokens(payload)
            except BadBatch:
                self._num_unwritten += 1
                return
            self._num_zeros += num_zeros
        publisher = heard.publisher
        self._recorder.write(Frame(publisher.topic, heard.seq, payload, heard.received_ns / 1e9, publisher.line))

    def _tell_oddities(self) -> None:
        if self._num_unwritten:
            self._say(
                f"{batches(self._num_unwritten)} could not be freed of token ids and were left out; "
                "--with-tokens writes them as they are"
            )
        if malformed := sum(self._stream.malformed.values()):
            reason, _ = self._stream.malformed.most_common(1)[0]
            self._say(f"{malformed:,} of the messages are none that an engine sends, most often: {reason}")
        if self._stream.num_dropped:
            self._say(f"{batches(self._stream.num_dropped)} came faster than they could be written")
        if refused := self._stream.num_refused + self._ordered.num_refused:
            self._say(f"{batches(refused)} came from more publishers than are told apart")
