"""Foreign streams followed without sockets or database: payloads in, sources and findings out, many engines at once.

The same decoder, sequencer, interning, fold and analysis as for live streams; time is a number handed in, so that a
recording of hours is followed as fast as it can be read.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Final

from kvxray_engine.stream.residency_state import StoreSemantics

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.seed_mismatch import HashesByTokens, seed_mismatch_findings
from kvxray_backend.metrics.exposition import Page
from kvxray_backend.sources.foreign.batch_sequencer import BatchSequencer
from kvxray_backend.sources.foreign.batch_steps import Step
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.followed_source import FollowedSource
from kvxray_backend.sources.foreign.hand_over import Heard, Publisher
from kvxray_backend.sources.foreign.metrics_watch import MetricsWatch
from kvxray_backend.sources.foreign.ordered_stream import Delivery, read_batch
from kvxray_backend.sources.foreign.pages_and_events import findings_of_pages, tell_capacity
from kvxray_backend.sources.foreign.rank_lanes import Rank, RankLanes
from kvxray_backend.sources.foreign.token_chains import TokenChains
from kvxray_backend.sources.foreign.told import Batch
from kvxray_backend.sources.privacy import NameFilter

MAX_SOURCES: Final = 1_024


@dataclass(slots=True)
class _Engine:
    """`lanes`: by topic. `pages`: None before the first page of metrics."""

    name: str
    chains: TokenChains
    by_tokens: HashesByTokens = field(default_factory=HashesByTokens)
    lanes: dict[bytes, RankLanes[Delivery]] = field(default_factory=dict)
    by_rank: dict[tuple[bytes, Rank], FollowedSource] = field(default_factory=dict)
    pages: MetricsWatch | None = None

    @property
    def sources(self) -> list[FollowedSource]:
        return list(self.by_rank.values())


class OfflineSession:
    """For one thread. `num_refused`: batches of more sources than are told apart; `num_unplaced`: payloads that no
    decoder understood on a stream of several ranks, so that nobody can say whose they were.
    """

    def __init__(
        self,
        key: bytes | None = None,
        *,
        hold_for_replay: bool = True,
        store_semantics: StoreSemantics = "unknown",
        num_blocks: int | None = None,
    ) -> None:
        """key: for digests of tokens, salts and sessions; None: one of this session alone. hold_for_replay: whether
        batches behind a hole wait for what is missing (2 s). num_blocks: of each source's GPU cache, None: not known.
        """
        self.num_refused = 0
        self.num_unplaced = 0
        self._key = key if key is not None else secrets.token_bytes(32)
        self._names = NameFilter(self._key)
        self._hold_for_replay = hold_for_replay
        self._semantics: StoreSemantics = store_semantics
        self._num_blocks = num_blocks
        self._engines: dict[str, _Engine] = {}
        self._now_ns = 0

    @property
    def sources(self) -> list[FollowedSource]:
        """One for each rank of each engine, in the order in which they were first heard."""
        return [source for engine in self._engines.values() for source in engine.sources]

    def pages(self, engine: str) -> MetricsWatch | None:
        """The metrics of an engine; None where it told none."""
        known = self._engines.get(engine)
        return known.pages if known is not None else None

    def shares_numbers(self, engine: str) -> bool:
        """Whether ranks of that engine number their batches together."""
        known = self._engines.get(engine)
        return known is not None and any(lanes.num_counts < len(lanes) for lanes in known.lanes.values())

    def feed(self, engine: str, topic: bytes, seq: int, payload: bytes, now_ns: int) -> None:
        """One message of an engine's stream, as its frames tell it; never raises for what comes from outside."""
        self._now_ns = max(self._now_ns, now_ns)
        followed = self._engine(engine)
        batch = read_batch(payload, lambda one: decode_batch(one, followed.chains), self._lanes(followed, topic))
        if batch is None:
            self.num_unplaced += 1
        else:
            self.feed_batch(engine, topic, seq, batch, payload, now_ns)

    def feed_batch(self, engine: str, topic: bytes, seq: int, batch: Batch, payload: bytes, now_ns: int) -> None:
        """The same for a dialect that is decoded elsewhere; `payload` counts by its size alone."""
        self._now_ns = max(self._now_ns, now_ns)
        followed = self._engine(engine)
        if not self._can_follow(followed, topic, batch.rank or 0):
            self.num_refused += 1
            return
        heard = Heard(Publisher(0, topic), seq, payload, now_ns)
        lanes = self._lanes(followed, topic)
        self._follow(followed, topic, lanes.offer(seq, Delivery(batch, heard), len(payload), now_ns))

    def take_page(self, engine: str, page: Page, now_ns: int) -> None:
        """A page of an engine's metrics."""
        self._now_ns = max(self._now_ns, now_ns)
        followed = self._engine(engine)
        if followed.pages is None:
            followed.pages = MetricsWatch(engine)
        followed.pages.take(now_ns / 1e9, page)

    def advance(self, now_ns: int) -> None:
        """What time alone brings: holes that are given up, silence that is noticed."""
        self._now_ns = max(self._now_ns, now_ns)
        for engine in self._engines.values():
            for topic, lanes in engine.lanes.items():
                self._follow(engine, topic, lanes.advance(now_ns))
            for source in engine.sources:
                source.advance(now_ns, work=engine.pages.work if engine.pages is not None else None)

    def finish(self) -> None:
        """Nothing more will come: what is held is applied, what is missing is told."""
        for engine in self._engines.values():
            for topic, lanes in engine.lanes.items():
                self._follow(engine, topic, lanes.finish(self._now_ns))

    def findings(self) -> list[Finding]:
        """Everything found up to now, what is over included; costs a pass over all that is cached."""
        found: list[Finding] = []
        for engine in self._engines.values():
            if self._num_blocks is None:
                tell_capacity(engine.pages, engine.sources)
            for source in engine.sources:
                found += [*source.findings.all, *source.state_findings()]
            found += findings_of_pages(engine.pages, engine.sources, found)
        by_tokens = {name: engine.by_tokens for name, engine in self._engines.items()}
        return found + seed_mismatch_findings(by_tokens, self._now_ns)

    def check_integrity(self) -> None:
        """Asserts the invariants of every part."""
        for engine in self._engines.values():
            for lanes in engine.lanes.values():
                lanes.check_integrity()
            for source in engine.sources:
                source.check_integrity()

    def _engine(self, name: str) -> _Engine:
        if name not in self._engines:
            self._engines[name] = _Engine(name, TokenChains(self._key))
        return self._engines[name]

    def _lanes(self, engine: _Engine, topic: bytes) -> RankLanes[Delivery]:
        if topic not in engine.lanes:
            holds = self._hold_for_replay
            engine.lanes[topic] = RankLanes(lambda: BatchSequencer(None, hold_for_replay=holds), _rank_of)
        return engine.lanes[topic]

    def _can_follow(self, engine: _Engine, topic: bytes, rank: int) -> bool:
        """False: there are too many already."""
        if (topic, rank) in engine.by_rank:
            return True
        if sum(len(one.by_rank) for one in self._engines.values()) >= MAX_SOURCES:
            return False
        engine.by_rank[topic, rank] = FollowedSource(
            source_name(engine.name, rank),
            self._names,
            engine.by_tokens,
            store_semantics=self._semantics,
            num_blocks=self._num_blocks,
        )
        return True

    def _follow(self, engine: _Engine, topic: bytes, steps: list[tuple[Rank, Step[Delivery]]]) -> None:
        for rank, step in steps:
            engine.by_rank[topic, rank].take(step)


def _rank_of(delivery: Delivery) -> int:
    return delivery.batch.rank or 0


def source_name(engine: str, rank: int) -> str:
    """Engines without data parallelism tell rank 0, or none."""
    return engine if rank == 0 else f"{engine}/{rank}"
