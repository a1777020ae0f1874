"""Messages from before the snapshot that a source was joined by, fetched by replay for the history alone.

Pure: told what arrives, it says what to ask for and, in the end, what to store in which order. The live state needs
none of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvxray_engine.stream.codec import Message

from kvxray_backend.sources.sequencer import Gap, Sequencer

MAX_WAIT_NS: Final = 2_000_000_000


class Backfill:
    """Wants messages `first` up to, not including, `end`."""

    def __init__(self, first: int, end: int, next_seq: int, end_seq: int, *, goes_on: bool, now_ns: int) -> None:
        """next_seq, end_seq: numbers of the first event wanted and of the first after the last.

        goes_on: earlier messages are stored, so that what is missing at the beginning is a gap; else history begins
        where it can.
        """
        self._end = end
        self._end_seq = end_seq
        self._goes_on = goes_on
        self._deadline_ns = now_ns + MAX_WAIT_NS
        self._sequencer = Sequencer(first, next_seq)
        self._sequencer.hear(end - 1, now_ns)
        self._got: list[Message | Gap] = []
        self._is_over = first >= end

    def covers(self, wire_seq: int) -> bool:
        """Whether a replayed message belongs here."""
        return not self._is_over and wire_seq < self._end

    def offer(self, message: Message, num_bytes: int, now_ns: int) -> None:
        self._sequencer.offer(message, num_bytes, now_ns)

    def wanted(self) -> tuple[int, int]:
        """What to ask replay for."""
        return self._sequencer.next_wire_seq, self._end - 1

    def answer_ended(self, asked_from: int, now_ns: int) -> None:
        """The answer to a request from `asked_from` on is complete: holes before what it brought stay, nothing new is
        the end.
        """
        self._collect(now_ns)
        while (hole := self._sequencer.hole()) is not None and not hole.is_tail:
            self._note_gap(self._sequencer.give_up(now_ns))
            self._collect(now_ns)
        if self._sequencer.next_wire_seq >= self._end or self._sequencer.next_wire_seq == asked_from:
            self._is_over = True

    def is_over(self, now_ns: int) -> bool:
        return self._is_over or now_ns >= self._deadline_ns

    def finish(self, now_ns: int) -> Iterator[Message | Gap]:
        """Everything to store, in order, the last gap reaching up to the snapshot."""
        self._is_over = True
        self._collect(now_ns)
        while (hole := self._sequencer.hole()) is not None:
            gap = self._sequencer.give_up(now_ns)
            end_seq = self._end_seq - 1 if hole.is_tail else gap.seq1
            self._note_gap(Gap(gap.wire_seq0, gap.wire_seq1, gap.seq0, end_seq))
            self._collect(now_ns)
        yield from self._got

    def _collect(self, now_ns: int) -> None:
        self._got += self._sequencer.take(now_ns)

    def _note_gap(self, gap: Gap) -> None:
        if self._goes_on or self._got:
            self._got.append(gap)
