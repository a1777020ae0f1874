"""The last messages as they were sent, for subscribers that missed some: bounded in number and bytes."""

from __future__ import annotations

from collections import deque


class ReplayBuffer:
    """(wire_seq, payload) in order; gaps are where the recorder dropped."""

    def __init__(self, max_messages: int = 10_000, max_bytes: int = 64 << 20) -> None:
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self._held: deque[tuple[int, bytes]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def add(self, wire_seq: int, payload: bytes) -> None:
        self._held.append((wire_seq, payload))
        self._bytes += len(payload)
        while len(self._held) > self.max_messages or self._bytes > self.max_bytes:
            self._bytes -= len(self._held.popleft()[1])

    def between(self, first: int, last: int, max_bytes: int = 16 << 20) -> list[tuple[int, bytes]]:
        """What is held of first..last (inclusive), oldest first, up to `max_bytes`; at least one if there is one."""
        found: list[tuple[int, bytes]] = []
        room = max_bytes
        for wire_seq, payload in self._held:
            if wire_seq > last or (found and room < len(payload)):
                break
            if wire_seq >= first:
                found.append((wire_seq, payload))
                room -= len(payload)
        return found

    def check_integrity(self) -> None:
        assert self._bytes == sum(len(payload) for _, payload in self._held), "the byte count is off"
        numbers = [wire_seq for wire_seq, _ in self._held]
        assert numbers == sorted(set(numbers)), "messages out of order"
