"""An engine of somebody else's to be watched: where its events and its metrics are, and what it is called."""

from __future__ import annotations

from typing import Literal

from kvxray_engine.stream.residency_state import StoreSemantics
from pydantic import BaseModel, ConfigDict, Field

Make = Literal["vllm", "sglang", "trtllm", "dynamo", "router", "other"]
Role = Literal["both", "prefill", "decode"]


class ObserveSpec(BaseModel):
    """One engine. Without `events` it is known by its metrics alone."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="The name of the engine in the API and on the page.")
    make: Make = Field(default="vllm", description="What it is: vllm, sglang, trtllm, dynamo, router or other.")
    events: str | None = Field(default=None, description="Where its cache events are, for example tcp://host:5557.")
    replay: str | None = Field(default=None, description="Where it answers replay, for example tcp://host:5558.")
    topic: str = Field(default="", description="Only topics that begin so.")
    ranks: int = Field(default=1, ge=1, le=1024, description="Data-parallel ranks, each one port further.")
    bind: bool = Field(default=False, description="Listen at `events` instead of dialling it.")
    metrics: str | None = Field(default=None, description="URL of its metrics page.")
    prometheus: str | None = Field(default=None, description="URL of a Prometheus that has its metrics.")
    match: dict[str, str] = Field(default_factory=dict, description="Labels that choose the engine in Prometheus.")
    every_s: float = Field(default=5.0, ge=1.0, le=300.0, description="Seconds between two readings of its metrics.")
    role: Role = Field(default="both", description="both, prefill or decode; a decode engine tells no events.")
    labels: dict[str, str] = Field(default_factory=dict, description="cluster, namespace, pod, node, model and others.")
    store_semantics: StoreSemantics = Field(
        default="unknown", description="What a repeated store means: copies, reuse (a hit), or unknown."
    )
    num_blocks: int | None = Field(default=None, gt=0, description="Blocks of its cache, where nothing tells.")
