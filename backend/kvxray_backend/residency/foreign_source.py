"""Sources that tell of hashes, or of nothing but metrics: which one a request means, and what it is at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.moments import Point
from kvxray_backend.observed.engine import ObservedEngine, ObservedRank
from kvxray_backend.residency.columns import ResidencyColumns
from kvxray_backend.residency.metrics_then import MetricsThen
from kvxray_backend.residency.picture import ResidencyPicture
from kvxray_backend.stored_source import stored_hash_sources, tells_hashes

if TYPE_CHECKING:
    from kvxray_backend.backend import Backend, Source

Kind = Literal["blocks", "hashes", "metrics"]
State = Literal["waiting", "joining", "connected", "stale", "no_stream", "past"]


@dataclass(frozen=True, slots=True)
class ForeignSource:
    """`engine` None: only stored, nobody watches it. `rank` None: nothing was heard of it yet, or it has no stream."""

    name: str
    engine: ObservedEngine | None
    rank: ObservedRank | None

    @property
    def engine_name(self) -> str:
        return self.engine.spec.name if self.engine is not None else self.name

    @property
    def make(self) -> str:
        """Empty where nothing but what is stored tells of it."""
        return self.engine.spec.make if self.engine is not None else ""

    @property
    def kind(self) -> Kind:
        if self.engine is None or self.rank is not None or self.engine.spec.events is not None:
            return "hashes"
        return "metrics"


@dataclass(frozen=True, slots=True)
class Lately:
    """How often a hash was evicted, and how often one came back, in the minute up to the last event."""

    evicted: int
    returned: int


@dataclass(frozen=True, slots=True, eq=False)
class ForeignMoment:
    """A source just after one event, or as it is (`at` live). `picture` None: nothing is known of what is cached.
    `now_ns`: by the engine's clock. `epoch` None: none was joined. `since_ns`: as long as it has been in this state.
    `metrics`: what they told then, of a moment of the past; None: nothing is kept of that, or it is the present.
    `is_capacity_of_then`: False for that of a later life of the engine. `lately`: None of the past.
    """

    source: ForeignSource
    at: str
    state: State
    since_ns: int | None
    epoch: int | None
    picture: ResidencyPicture | None
    now_ns: int
    capacity: int | None
    findings: tuple[Finding, ...]
    metrics: MetricsThen | None = None
    is_capacity_of_then: bool = True
    lately: Lately | None = None

    @property
    def columns(self) -> ResidencyColumns | None:
        return self.picture.columns if self.picture is not None else None

    @property
    def seq(self) -> str | None:
        """The last event it includes."""
        if self.columns is None or self.epoch is None or self.columns.next_seq <= 0:
            return None
        return str(Point(self.epoch, self.columns.next_seq - 1))


def find_foreign(backend: Backend, name: str | None) -> ForeignSource | None:
    """The source of that name; for None the first, where there is none that tells of blocks. None: it tells of blocks,
    or there is none.
    """
    if name is None:
        return next(iter(all_foreign(backend)), None) if not of_blocks(backend) else None
    found = backend.observed.rank(name)
    if found is not None:
        return ForeignSource(name, *found)
    return ForeignSource(name, None, None) if _is_stored(backend, name) else None


def of_blocks(backend: Backend) -> dict[str, Source]:
    """Sources that tell of blocks, in their order. What is watched wins over what is stored under its name."""
    return {
        name: source
        for name, source in backend.sources.items()
        if source.native is not None or (backend.observed.rank(name) is None and not _is_stored(backend, name))
    }


def all_foreign(backend: Backend) -> list[ForeignSource]:
    """Those that are watched, rank by rank, then those that are only stored."""
    return [*(source for engine in backend.observed.all for source in sources_of(engine)), *stored_only(backend)]


def stored_only(backend: Backend) -> list[ForeignSource]:
    """Those that tell of hashes and that nobody watches, in the order in which they were first watched."""
    names = stored_hash_sources(backend.database)
    return [ForeignSource(name, None, None) for name in names if backend.observed.rank(name) is None]


def _is_stored(backend: Backend, name: str) -> bool:
    source = backend.sources.get(name)
    return (source is None or source.native is None) and tells_hashes(backend.database, name)


def sources_of(engine: ObservedEngine) -> list[ForeignSource]:
    """Those that were heard, in order of their rank; the engine itself before any was."""
    with engine.lock:
        ranks = sorted(engine.ranks.values(), key=lambda rank: rank.rank or 0)
    if not ranks:
        return [ForeignSource(engine.spec.name, engine, None)]
    return [ForeignSource(rank.name, engine, rank) for rank in ranks]


def findings_about(engine: ObservedEngine, source: str) -> tuple[Finding, ...]:
    """Open ones of a source, and those of its engine as a whole."""
    names = {source, engine.spec.name}
    return tuple(
        finding
        for finding in engine.findings
        if finding.state == "open" and (finding.source in names or names & set(finding.subjects.sources))
    )


def capacity_of(engine: ObservedEngine, rank: ObservedRank | None) -> int | None:
    """Blocks of its GPU cache; metrics tell of all ranks together, so only where there is one. None: nobody tells."""
    if rank is not None and rank.followed.num_blocks is not None:
        return rank.followed.num_blocks
    if engine.spec.num_blocks is not None:
        return engine.spec.num_blocks
    return engine.watch.num_blocks if engine.watch is not None and len(engine.ranks) <= 1 else None
