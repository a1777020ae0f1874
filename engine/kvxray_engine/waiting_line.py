"""The line of those that wait to be admitted, in the order of the scheduling policy.

First come, first served: arrivals join at the end, preempted requests return to the head, since they came before
everybody who waits. By priority: the most urgent first, and of equals the one that came first, preempted or not.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import Protocol

from kvxray_engine.request import Request


class SchedulingPolicy(Enum):
    """vLLM's names."""

    fcfs = "fcfs"  # first come, first served
    priority = "priority"  # a lower number is served first, and preempted last


def urgency(request: Request) -> tuple[int, int]:
    """The smaller, the sooner served. Ordinals are given at arrival."""
    return request.priority, request.ordinal


class WaitingLine(Protocol):
    """What the scheduler does with the line."""

    def join(self, request: Request) -> None:
        """A request arrived."""

    def rejoin(self, request: Request) -> None:
        """A running request was preempted."""

    def head(self) -> Request:
        """The next to be admitted; somebody must wait."""

    def leave(self, request: Request) -> None:
        """It is admitted, or it ended."""

    def __iter__(self) -> Iterator[Request]: ...

    def __len__(self) -> int: ...


class ArrivalLine:
    """First come, first served. Invariant: preempted requests stand before all others."""

    def __init__(self) -> None:
        self._line: deque[Request] = deque()

    def join(self, request: Request) -> None:
        self._line.append(request)

    def rejoin(self, request: Request) -> None:
        self._line.appendleft(request)

    def head(self) -> Request:
        return self._line[0]

    def leave(self, request: Request) -> None:
        self._line.remove(request)  # from the head on: an admission looks at one entry

    def __iter__(self) -> Iterator[Request]:
        return iter(self._line)

    def __len__(self) -> int:
        return len(self._line)


class PriorityLine:
    """By urgency. Invariant: sorted, the least urgent first, so that the head leaves from the end of the list."""

    def __init__(self) -> None:
        self._line: list[Request] = []

    def join(self, request: Request) -> None:
        insort(self._line, request, key=_patience)

    rejoin = join

    def head(self) -> Request:
        return self._line[-1]

    def leave(self, request: Request) -> None:
        if self._line[-1] is request:
            self._line.pop()
        else:
            self._line.remove(request)

    def __iter__(self) -> Iterator[Request]:
        return reversed(self._line)

    def __len__(self) -> int:
        return len(self._line)


def _patience(request: Request) -> tuple[int, int]:
    priority, ordinal = urgency(request)
    return -priority, -ordinal


def make_line(policy: SchedulingPolicy) -> WaitingLine:
    return PriorityLine() if policy is SchedulingPolicy.priority else ArrivalLine()
