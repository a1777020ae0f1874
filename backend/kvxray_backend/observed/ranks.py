"""The sources of one engine that is watched: which rank a batch is of, what it is called, what is known of it now."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from kvxray_backend.live_tail import LiveTail
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_backend.sources.foreign.batch_steps import Step
from kvxray_backend.sources.foreign.followed_source import FollowedSource
from kvxray_backend.sources.foreign.hand_over import Publisher
from kvxray_backend.sources.foreign.ordered_stream import Delivery, Origin

MAX_TOPIC_CHARS: Final = 100


@dataclass(slots=True)
class ObservedRank:
    """One source: an engine, or one data-parallel rank of it. `epoch`: its number in the event log."""

    name: str
    rank: int | None
    followed: FollowedSource
    tail: LiveTail = field(default_factory=LiveTail)
    epoch: int | None = None


class ObservedRanks:
    """`by_name`: in the order in which they were first heard. Read and written under the engine's lock."""

    def __init__(self, spec: ObserveSpec, follow: Callable[[str, int], FollowedSource]) -> None:
        """follow: makes what follows a source of that name and rank."""
        self.by_name: dict[str, ObservedRank] = {}
        self._spec = spec
        self._follow = follow
        self._by_origin: dict[tuple[Publisher, int], ObservedRank] = {}

    def take(self, steps: Iterable[tuple[Origin, Step[Delivery]]]) -> None:
        for origin, step in steps:
            self.of(origin).followed.take(step)

    def of(self, origin: Origin) -> ObservedRank:
        """The source whose batches come from there. Engines without data parallelism tell rank 0, or none; those with
        a port for each rank may tell none either.
        """
        number = origin.rank or origin.publisher.line
        key = (origin.publisher, number)
        if key not in self._by_origin:
            name = self._free_name(number, origin.publisher.topic)
            rank = self._by_origin[key] = ObservedRank(name, number, self._follow(name, number))
            self.by_name[name] = rank
        return self._by_origin[key]

    def forget(self) -> None:
        """Nothing is followed any more: whatever is heard next begins anew."""
        self.by_name.clear()
        self._by_origin.clear()

    def _free_name(self, number: int, topic: bytes) -> str:
        """Named after its rank, where that is taken by another topic after its topic too."""
        plain = source_name(self._spec.name, number)
        if plain not in self.by_name:
            return plain
        told = topic.decode(errors="replace")[:MAX_TOPIC_CHARS]
        by_topic = f"{plain}/{''.join(char if char.isprintable() else '?' for char in told)}"
        tries = 1
        name = by_topic
        while name in self.by_name:
            tries += 1
            name = f"{by_topic}/{tries}"
        return name


def source_name(engine: str, rank: int) -> str:
    """Of a rank that is not the first, with its number."""
    return engine if rank == 0 else f"{engine}/{rank}"
