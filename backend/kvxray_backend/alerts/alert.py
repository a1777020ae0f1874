"""An alert: a rule that fired for an engine, from then until it was over, with the evidence. Pure data, the same in
REST, database and what is sent.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, computed_field

from kvxray_backend.analysis.finding import Finding, Severity
from kvxray_backend.moments import Point, iso_time, iso_time_or_none

MAX_FINDINGS = 20
"""Of thousands of leaks the first few are kept; `num_findings` counts them all."""
MAX_SUBJECTS = 1_000
"""Blocks, requests, hashes and sources of all its findings together."""


class AlertMoment(BaseModel):
    """When it fired, as an address of the page takes it: the event of the source where it has any, else the time."""

    model_config = ConfigDict(frozen=True)

    source: str = Field(description="The source whose page shows it; empty: there is none.")
    epoch: int | None = Field(description="The epoch of that source; null: it tells of no events.")
    seq: int | None = Field(description="Its last event by then.")
    time_ns: int = Field(exclude=True)

    @computed_field(description="The moment as text: EPOCH.SEQ, or a time.")  # type: ignore[prop-decorator]
    @property
    def at(self) -> str:
        if self.epoch is not None and self.seq is not None and self.seq >= 0:
            return str(Point(self.epoch, self.seq))
        return iso_time(self.time_ns)


class AlertNumber(BaseModel):
    """What a condition compared when the rule fired."""

    model_config = ConfigDict(frozen=True)

    words: str = Field(description="What it is, in the words of the rule's page.")
    value: float | None = Field(description="What it was; null: it could not be told.")
    limit: float | None = Field(description="What it was compared with.")


class Alert(BaseModel):
    """`engine`: the engine, or the fleet (model and role), that it is about. Times are wall nanoseconds.

    Invariant: of one rule and engine at most one alert fires at a time.
    """

    model_config = ConfigDict(frozen=True)

    id: str = Field(description="Names the alert for good.")
    rule: str = Field(description="The rule that fired.")
    severity: Severity = Field(description="info, warning or critical.")
    engine: str = Field(description="The engine it is about; of a rule that compares engines: their model and role.")
    labels: dict[str, str] = Field(default_factory=dict, description="cluster, namespace, pod, model, role and others.")
    state: Literal["firing", "over"] = Field(description="firing, or over.")
    began_ns: int = Field(exclude=True)
    fired_ns: int = Field(exclude=True)
    ended_ns: int | None = Field(default=None, exclude=True)
    moment: AlertMoment = Field(description="When it fired, where replay shows it.")
    sentence: str = Field(description="What is wrong: the rule's sentence.")
    culprit: str = Field(default="", description="Who or what is to blame, one sentence; empty: the rule knows nobody.")
    findings: tuple[Finding, ...] = Field(
        default=(), description="The first of those that made it fire, with a thousand subjects in all."
    )
    num_findings: int = Field(default=0, description="How many findings made it fire.")
    numbers: tuple[AlertNumber, ...] = Field(default=(), description="What its conditions compared when it fired.")
    over_because: str = Field(
        default="", description="Why it is over though nobody saw its condition end, one sentence; else empty."
    )

    @computed_field(description="Since when its condition holds (ISO-8601).")  # type: ignore[prop-decorator]
    @property
    def began(self) -> str:
        return iso_time(self.began_ns)

    @computed_field(description="When it fired.")  # type: ignore[prop-decorator]
    @property
    def fired(self) -> str:
        return iso_time(self.fired_ns)

    @computed_field(description="When it was over; null while it fires.")  # type: ignore[prop-decorator]
    @property
    def ended(self) -> str | None:
        return iso_time_or_none(self.ended_ns)
