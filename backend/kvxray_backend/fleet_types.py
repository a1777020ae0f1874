"""The JSON of `/api/engines`. Only shapes; who fills them stands in `fleet.py`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvxray_backend.analysis.verdict_signs import Status
from kvxray_backend.api_types import Answer, Time
from kvxray_backend.coverage import CoverageCount
from kvxray_backend.figure import Figure
from kvxray_backend.residency.answers import Kind, MetricsStateView, State


class EngineLine(Answer):
    """One engine on the page of all."""

    name: str = Field(description="Its name.")
    make: str = Field(description="kvxray, vllm, sglang, trtllm, dynamo, router or other; empty where only stored.")
    kind: Kind = Field(description="blocks, hashes or metrics: what it tells of.")
    role: Literal["both", "prefill", "decode"] = Field(description="both, prefill or decode.")
    model: str = Field(description="The model it serves; empty where nobody tells.")
    labels: dict[str, str] = Field(description="cluster, namespace, pod, node and others.")
    sources: list[str] = Field(description="Its sources, one a rank.")
    state: State = Field(description="waiting, joining, connected, stale, no_stream or past.")
    since: Time | None = Field(description="Since when.")
    origin: Literal["settings", "file", "page"] = Field(description="Who named it: settings, a file, or this page.")
    removable: bool = Field(description="Whether it can be removed here.")
    status: Status = Field(description="healthy, warning, critical or cannot_tell.")
    sentence: str = Field(description="The verdict, one sentence.")
    figures: dict[str, Figure] = Field(
        description="usage, hit_rate, evictions_per_s, cached_blocks, capacity_blocks, running and waiting."
    )
    coverage: CoverageCount = Field(description="How many panels are how sure.")
    num_findings: int = Field(description="Open findings.")
    metrics: MetricsStateView = Field(description="How its metrics are read.")


class ProblemView(Answer):
    """Why an engine that somebody named is not watched."""

    where: str = Field(description="The file, name or setting that it is about.")
    sentence: str = Field(description="One sentence for people.")
    since: Time | None = Field(description="Since when.")


class EnginesView(Answer):
    """All engines, of every make."""

    engines: list[EngineLine] = Field(description="Engines of ours, then those that are watched, then stored ones.")
    problems: list[ProblemView] = Field(description="What of the configuration could not be followed.")
