"""The JSON of `/api/overview`. Only shapes; who fills them stands in `overview.py`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvxray_backend.analysis.finding import Finding, Severity
from kvxray_backend.analysis.verdict_signs import Cause, Status
from kvxray_backend.api_types import Answer, Time
from kvxray_backend.figure import Figure


class EvidenceView(Answer):
    """A figure that a verdict rests on."""

    name: str = Field(description="The figure's name.")
    label: str = Field(description="What it is, in a few words.")
    figure: Figure = Field(description="What it was.")
    page: Literal["live", "timelines"] = Field(description="The page that shows more of it.")
    query: dict[str, str] = Field(description="What that page is to be asked for, beside the source and the moment.")


class VerdictView(Answer):
    """Whether a cache is healthy and, if not, why."""

    status: Status = Field(description="healthy, warning, critical or cannot_tell.")
    cause: Cause | None = Field(description="kv, compute, queue or transfer; null where all is well, or none is sure.")
    rule: str = Field(description="The rule that it comes from.")
    sentence: str = Field(description="One sentence for people.")
    advice: str = Field(description="What to do about it; may be empty.")
    evidence: list[EvidenceView] = Field(description="What it rests on.")
    also: list[str] = Field(description="What else is wrong, as sentences, the worst first.")
    not_judged: list[str] = Field(description="What could not be looked at, and why.")


class EngineView(Answer):
    """One source on the overview."""

    source: str = Field(description="Its name.")
    engine: str = Field(description="The engine that it is a rank of; its own name where it is the only one.")
    make: str = Field(default="kvxray", description="kvxray, vllm, sglang, trtllm, dynamo, router or other.")
    kind: Literal["blocks", "hashes", "metrics"] = Field(default="blocks", description="What it tells of.")
    labels: dict[str, str] = Field(description="What it says of itself.")
    model: str = Field(description="The model it serves; empty where it does not say.")
    state: Literal["waiting", "joining", "connected", "stale", "no_stream", "past"] = Field(
        description="As in /api/sources."
    )
    since: Time | None = Field(description="Since when.")
    at: str = Field(description="The moment that this is of: live, or EPOCH.SEQ.")
    time: Time | None = Field(description="Time of its last event; null before the first.")
    epoch: int | None = Field(description="Its epoch.")
    verdict: VerdictView = Field(description="How it is.")
    usable_blocks: int | None = Field(description="Blocks that can hold tokens; null where they are not known.")
    block_size: int | None = Field(description="Tokens a block.")
    bytes_per_block: int | None = Field(description="Bytes a block; 0 where the source does not say.")
    media: list[str] = Field(description="Where its pools live: GPU, CPU, DISK, REMOTE.")
    counts: dict[str, Figure] = Field(description="Usable blocks by state; empty before it was joined.")
    figures: dict[str, Figure] = Field(description="The figures of the overview, by name.")
    gaps: int = Field(description="Gaps in this epoch.")
    drops: int | None = Field(description="Messages dropped at the engine's recorder; null where it does not tell.")
    bad_messages: int = Field(description="Frames that could not be read.")
    findings: list[Finding] = Field(
        description="Open findings, the newest first; at most a hundred, of every kind the newest."
    )
    num_findings: int = Field(description="How many are open.")
    looked_at: Time | None = Field(
        default=None,
        description="When they were looked for last: twice a second at most; null: not yet, or of the past.",
    )
    lately: list[Finding] = Field(description="The last findings that are over, at most five, the newest first.")


class FleetView(Answer):
    """All engines together."""

    figures: dict[str, Figure] = Field(description="usage mean, max and spread, requests running and waiting.")
    worst: str | None = Field(description="The source that heads the list; null where there is none.")
    fullest: str | None = Field(description="The source with most of its cache in use; null where none is known.")
    sentence: str = Field(description="What is wrong between them; empty where nothing is known to be.")


class ActiveAlertView(Answer):
    """An alert that fires now, in short."""

    id: str = Field(description="Names it.")
    rule: str = Field(description="The rule that fired.")
    severity: Severity = Field(description="info, warning or critical.")
    engine: str = Field(description="The engine, or the fleet, that it is about.")
    since: Time = Field(description="Since when its condition holds.")
    sentence: str = Field(description="Who or what is to blame; what is wrong, where nobody is known to be.")
    link: str = Field(description="All of it, on the page of alerts; relative to the page.")


class OverviewView(Answer):
    """Every source with its verdict, the worst first."""

    engines: list[EngineView] = Field(description="The worst first, those that are only stored last.")
    fleet: FleetView = Field(description="All that are followed, together.")
    alerts: list[ActiveAlertView] = Field(
        default=[], description="Those that fire now, the gravest first, at most ten; none at a past moment."
    )
    num_alerts: int | None = Field(default=None, description="How many fire now; null at a past moment.")
