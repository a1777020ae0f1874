"""The one type for everything that analysis finds: leaks, gaps, restarts, contradictions. Pure data, the same in REST
and database.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, computed_field

from kvxray_backend.figure import Certainty
from kvxray_backend.moments import iso_time, iso_time_or_none

Severity = Literal["info", "warning", "critical"]
FindingState = Literal["open", "ended"]
MAX_SUBJECTS = 1000


class Subjects(BaseModel):
    """What a finding is about; at most a thousand of each are listed, `numbers` counts them all."""

    model_config = ConfigDict(frozen=True)

    blocks: tuple[int, ...] = Field(default=(), description="Block ids.")
    requests: tuple[str, ...] = Field(default=(), description="Request ids.")
    hashes: tuple[str, ...] = Field(default=(), description="Block hashes, hexadecimal.")
    sources: tuple[str, ...] = Field(default=(), description="Sources, where it is about several.")


class Finding(BaseModel):
    """One thing found. `seq0`..`seq1` are the events it rests on; `sentence` says it to a person."""

    model_config = ConfigDict(frozen=True)

    id: str = Field(description="Names the finding for good; `taints` of figures hold these.")
    kind: str = Field(
        description="leak, stuck_pin, stale_hash, stale_hit, cross_tenant_prefix, gap, no_snapshot, restart, stale, "
        "drops, malformed, ref_underflow, double_free, audit, ref_mismatch, preemption_loop, admission_stuck or "
        "storage; of engines that tell of hashes: seq_gap, duplicate_batch, late_batch, engine_restart, "
        "joined_midstream, "
        "stale_stream, late_reset, unknown_or_partial_event, orphan_parent, store_on_missing_parent, duplicate_store, "
        "remove_unknown, block_size_changed, token_count_mismatch, sparse_group, hash_namespace_collision, "
        "resident_over_capacity, unreachable_resident, thrash or hash_seed_mismatch; of metrics: counter_reset, "
        "metrics_contradiction, conservation_violation, hit_rate_suspect or config."
    )
    severity: Severity = Field(description="info, warning or critical.")
    source: str = Field(description="The source it was found in.")
    epoch: int = Field(description="The epoch it was found in.")
    seq0: int = Field(description="First event it rests on.")
    seq1: int = Field(description="Last event it rests on.")
    time_ns: int = Field(exclude=True)
    ended_ns: int | None = Field(default=None, exclude=True)
    state: FindingState = Field(
        default="open", description="open or ended; what has ended taints nothing after its end."
    )
    subjects: Subjects = Field(default=Subjects(), description="Blocks and requests it is about.")
    numbers: dict[str, int | float] = Field(default_factory=dict, description="Its measures, by name.")
    certainty: Certainty = Field(default="exact", description="exact or derived.")
    sentence: str = Field(description="One sentence for people.")
    mark: str = Field(
        default="",
        description="What to say of the moment it began: nothing that was so only later. Empty: its sentence.",
    )
    # Take its place once the finding has ended, by itself or with its engine; {lasted} stands for how long it was open.
    sentence_when_over: str = Field(default="", exclude=True)
    sentence_when_engine_ended: str = Field(default="", exclude=True)

    @computed_field(description="When it began, by the events' clock (ISO-8601).")  # type: ignore[prop-decorator]
    @property
    def time(self) -> str:
        return iso_time(self.time_ns)

    @computed_field(description="When it ended; null while it is open.")  # type: ignore[prop-decorator]
    @property
    def ended_at(self) -> str | None:
        return iso_time_or_none(self.ended_ns)

    def went_on(self, found: Finding) -> Finding:
        """The same finding as it was found again: it keeps its beginning."""
        return found.model_copy(update={"time_ns": self.time_ns, "seq0": self.seq0, "seq1": self.seq1})

    def ended(self, ended_ns: int, *, with_engine: bool = False) -> Finding:
        """The same finding, over since `ended_ns`; with_engine: because the engine that it was about is over."""
        ended_ns = max(ended_ns, self.time_ns)
        lasted_s = (ended_ns - self.time_ns) / 1e9
        told = self.sentence_when_engine_ended if with_engine else self.sentence_when_over
        sentence = told.format(lasted=f"{lasted_s:.0f} s") if told else self.sentence
        return self.model_copy(update={"state": "ended", "ended_ns": ended_ns, "sentence": sentence})
