"""The sources of one engine that is watched: which rank a batch is of, what it is called, what is known of it now."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from kvxray_backend.live_tail import LiveTail
from kvxray_backend.observed.rank_findings import RankFindings
from kvxray_backend.observed.rank_log import RankLog
from kvxray_backend.sources.foreign.batch_steps import Step
from kvxray_backend.sources.foreign.followed_source import FollowedSource
from kvxray_backend.sources.foreign.hand_over import Publisher
from kvxray_backend.sources.foreign.offline import source_name
from kvxray_backend.sources.foreign.ordered_stream import Delivery, Origin
from kvxray_backend.sources.foreign.stream_records import EpochBegan, Kept, StreamRecord

MAX_TOPIC_CHARS: Final = 100


@dataclass(slots=True)
class ObservedRank:
    """One source: an engine, or one data-parallel rank of it. `tail`: the newest events of its present epoch."""

    name: str
    rank: int
    followed: FollowedSource
    tail: LiveTail
    log: RankLog
    findings: RankFindings

    @property
    def epoch(self) -> int:
        """Its number in the event log."""
        return self.followed.epoch


@dataclass(frozen=True, slots=True)
class Recording:
    """Where what one source tells goes to: into its tail, and on its way into the event log."""

    tail: LiveTail
    log: RankLog

    def __call__(self, record: StreamRecord) -> None:
        if isinstance(record, EpochBegan):
            self.tail.clear()
        elif isinstance(record, Kept) and not record.is_late:
            self.tail.add(record.message)
        self.log.put(record)


class ObservedRanks:
    """`by_name`: in the order in which they were first heard. Read and written under the engine's lock."""

    def __init__(self, engine: str, make: Callable[[str, Origin], ObservedRank]) -> None:
        """make: makes the source of that name."""
        self.by_name: dict[str, ObservedRank] = {}
        self._engine = engine
        self._make = make
        self._by_origin: dict[tuple[Publisher, int], ObservedRank] = {}

    def unknown(self, steps: Iterable[tuple[Origin, Step[Delivery]]]) -> list[Origin]:
        """From where something comes for the first time, each once; needs no lock in the thread that takes."""
        origins = dict.fromkeys(origin for origin, _ in steps)
        by_number = {_key(origin): origin for origin in reversed(origins) if _key(origin) not in self._by_origin}
        return list(reversed(by_number.values()))

    def made(self, origin: Origin) -> ObservedRank:
        """A source for what comes from there, to be met before that is taken. May wait: not under the lock."""
        return self._make(self._free_name(rank_number(origin), origin.publisher.topic), origin)

    def meet(self, origin: Origin, rank: ObservedRank) -> None:
        self._by_origin[_key(origin)] = self.by_name[rank.name] = rank

    def take(self, steps: Iterable[tuple[Origin, Step[Delivery]]]) -> None:
        """All of them come from where something was met before."""
        for origin, group in groupby(steps, key=lambda one: one[0]):
            self._by_origin[_key(origin)].followed.take(*(step for _, step in group))

    def flush(self) -> None:
        """What waits goes to the event log: not under the lock."""
        for rank in list(self.by_name.values()):
            rank.log.flush()

    def forget(self) -> None:
        """Nothing is followed any more: whatever is heard next begins anew."""
        self.by_name.clear()
        self._by_origin.clear()

    def _free_name(self, number: int, topic: bytes) -> str:
        """Named after its rank, where that is taken by another topic after its topic too."""
        plain = source_name(self._engine, number)
        if plain not in self.by_name:
            return plain
        told = topic.decode(errors="replace")[:MAX_TOPIC_CHARS]
        name = by_topic = f"{plain}/{''.join(char if char.isprintable() else '?' for char in told)}"
        tries = 1
        while name in self.by_name:
            tries += 1
            name = f"{by_topic}/{tries}"
        return name


def _key(origin: Origin) -> tuple[Publisher, int]:
    return origin.publisher, rank_number(origin)


def rank_number(origin: Origin) -> int:
    """Engines without data parallelism tell rank 0, or none; those with a port for each rank may tell none either."""
    return origin.rank or origin.publisher.line
