"""Cuts a growing text at the first stop string. Knows text only: no tokens, no requests."""

from __future__ import annotations

from collections.abc import Sequence


class StopStrings:
    """Hands on text that can no longer become part of a stop string.

    Invariant: what is held back is the longest end of the text so far that is the beginning of a stop string.
    """

    def __init__(self, stop: Sequence[str]) -> None:
        assert all(stop), "an empty stop string would stop everything"
        self._stop = tuple(stop)
        self._held = ""
        self.matched: str | None = None

    def add(self, text: str) -> str:
        """The text to hand on; once `matched` is set, nothing follows. Of several, the one that begins first counts."""
        if self.matched is not None:
            return ""
        text = self._held + text
        found = [(at, stop) for stop in self._stop if (at := text.find(stop)) >= 0]
        if found:
            at, self.matched = min(found, key=lambda pair: (pair[0], -len(pair[1])))
            self._held = ""
            return text[:at]
        keep = self._length_held(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> str:
        """What was held back, at the end of the text."""
        held, self._held = self._held, ""
        return held

    def _length_held(self, text: str) -> int:
        longest = max((len(stop) - 1 for stop in self._stop), default=0)
        for length in range(min(longest, len(text)), 0, -1):
            end = text[-length:]
            if any(stop.startswith(end) for stop in self._stop):
                return length
        return 0
