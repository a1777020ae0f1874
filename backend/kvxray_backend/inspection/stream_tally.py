"""What one recorded stream told, counted as its batches are applied: events, times, lives, and what came back."""

from __future__ import annotations

from typing import Final

from kvxray_backend.inspection.dialect import Encoding
from kvxray_backend.inspection.inspection_report import EventCount
from kvxray_backend.inspection.returns import Returns
from kvxray_backend.sources.foreign.told import Batch, Cleared, Created, Moved, Removed, Stored, Told

_KINDS: Final[tuple[tuple[type[Told], str], ...]] = (
    (Stored, "stored"),
    (Removed, "removed"),
    (Moved, "moved"),
    (Cleared, "cleared"),
    (Created, "created"),
)


class StreamTally:
    """`first_seq`, `last_seq`: of the batches of this life, by number. `began_s`, `ended_s`: the earliest and the
    latest time told, Unix seconds, or (`is_elapsed`) since the recording began. `returns`: over all lives.
    """

    def __init__(self) -> None:
        self.num_batches = 0
        self.num_lives = 1
        self.returns = Returns()
        self.first_seq: int | None = None
        self.last_seq: int | None = None
        self.began_s: float | None = None
        self.ended_s: float | None = None
        self.is_elapsed = False
        self.encodings: frozenset[Encoding] = frozenset()
        self.widths: frozenset[int] = frozenset()
        self._events = dict.fromkeys((name for _, name in _KINDS), EventCount())

    @property
    def events(self) -> dict[str, EventCount]:
        """By kind; kinds that were not told are left out."""
        return {name: count for name, count in self._events.items() if count.events}

    def begin_life(self) -> None:
        self.num_lives += 1
        self.first_seq = self.last_seq = None
        self.returns.forget()

    def note_batch(self, seq: int, batch: Batch) -> None:
        """One that is applied."""
        self.num_batches += 1
        self.first_seq = seq if self.first_seq is None else min(seq, self.first_seq)
        self.last_seq = seq if self.last_seq is None else max(seq, self.last_seq)
        self._note_time(batch)
        for event in batch.events:
            hashes = event.hashes if isinstance(event, Stored | Removed | Moved) else ()
            if hashes and len(hashes[0]) not in self.widths:
                self.widths |= {len(hashes[0])}
            name = next(name for kind, name in _KINDS if isinstance(event, kind))
            self.returns.note(event)
            before = self._events[name]
            self._events[name] = EventCount(before.events + 1, before.hashes + len(hashes))

    def _note_time(self, batch: Batch) -> None:
        time_s = batch.elapsed_s if batch.ts is None else batch.ts
        self.is_elapsed |= batch.ts is None and batch.elapsed_s is not None
        if time_s is None or not 0 <= time_s < float(1 << 33):
            return
        self.began_s = time_s if self.began_s is None else min(time_s, self.began_s)
        self.ended_s = time_s if self.ended_s is None else max(time_s, self.ended_s)
