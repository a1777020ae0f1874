"""Which messages an earlier process of kvxray has stored already, when an engine tells them again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvxray_engine.stream.codec import Message

IsStored = Callable[[Message], bool]


@dataclass(frozen=True, slots=True)
class HashesTold:
    """The bytes of hashes from ordinal `first` on."""

    first: int
    width: int
    data: bytes

    @staticmethod
    def of(message: Message) -> HashesTold:
        header = message.header
        return HashesTold(header.hash0, header.hash_width, bytes(message.columns.hashes))

    def agrees(self, message: Message) -> bool:
        """Whether the message tells the same of those that both tell."""
        begin, told = (message.header.hash0 - self.first) * self.width, message.columns.hashes
        if not told or begin < 0 or begin + len(told) > len(self.data):
            return True
        return message.header.hash_width == self.width and self.data[begin : begin + len(told)] == told


@dataclass(frozen=True, slots=True)
class StoredLife:
    """One life of an engine as it is stored: its last message, and the hashes with which each of its epochs begins."""

    last: int
    told: tuple[HashesTold, ...]


class StoredUntil:
    """By time, of an engine that tells the time: what one tells that began anew is new."""

    def __init__(self, until_ns: int) -> None:
        self._until_ns = until_ns
        self._incarnation: str | None = None

    def __call__(self, message: Message) -> bool:
        header = message.header
        self._incarnation = self._incarnation or header.incarnation
        return header.incarnation == self._incarnation and header.t0_wall_ns <= self._until_ns


class StoredNumbers:
    """By number, of a recording that is read from its beginning. It may hold several lives, which count alike: another
    one than is told had other hashes under the same ordinals.
    """

    def __init__(self, lives: Sequence[StoredLife]) -> None:
        self._stored = lives
        self._possible = list(lives)
        self._incarnation = ""

    def __call__(self, message: Message) -> bool:
        header = message.header
        if header.incarnation != self._incarnation:
            self._incarnation, self._possible = header.incarnation, list(self._stored)
        self._possible = [life for life in self._possible if all(told.agrees(message) for told in life.told)]
        return any(header.wire_seq <= life.last for life in self._possible)
