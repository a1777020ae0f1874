"""What the API answers where engines are attached and tried."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvxray_backend.api_types import Answer
from kvxray_backend.coverage import PanelCoverage


class AttachedView(Answer):
    """An engine that is watched now."""

    name: str = Field(description="Its name.")


class GroupFound(Answer):
    """One group of KV caches, as events told it."""

    kind: str = Field(description="full_attention, sliding_window, mamba and others; empty where it was not told.")
    window: int | None = Field(description="Tokens of its window; null: none, or not told.")


class EventsFound(Answer):
    """What was heard of an engine's events."""

    state: Literal["heard", "silent", "refused", "none"] = Field(
        description="heard; silent: connected, and nothing came; refused: no connection; none: none are asked for."
    )
    sentence: str = Field(description="What was found, in words.")
    batches: int = Field(default=0, description="Batches heard.")
    dialect: str = Field(default="", description="How they are written; empty where none was heard.")
    ranks: list[int] = Field(default_factory=list, description="Data-parallel ranks that were heard.")
    groups: list[GroupFound] = Field(default_factory=list, description="Groups that events told of.")
    media: list[str] = Field(default_factory=list, description="Media that events told of, as the engine calls them.")
    block_size: int | None = Field(default=None, description="Tokens a block; null: not told.")
    replay: Literal["answers", "silent", "none"] = Field(
        default="none", description="Whether the replay address answers; none: there is none."
    )


class MetricsFound(Answer):
    """What was read of an engine's metrics."""

    state: Literal["read", "failed", "none"] = Field(description="read, failed, or none: none are asked for.")
    sentence: str = Field(description="What was found, in words.")
    make: str = Field(default="", description="Whose metrics they are; empty where nobody's that are known.")
    signals: int = Field(default=0, description="Signals that they tell.")
    capacity_blocks: int | None = Field(default=None, description="Blocks of the cache; null: not told.")
    block_size: int | None = Field(default=None, description="Tokens a block; null: not told.")


class ConnectionView(Answer):
    """What was found when an engine was tried."""

    reachable: bool = Field(description="Whether anything of it was reached.")
    sentence: str = Field(description="What that comes to, in words.")
    events: EventsFound = Field(description="Its events.")
    metrics: MetricsFound = Field(description="Its metrics.")
    coverage: list[PanelCoverage] = Field(description="For every panel, how sure it would be, and why.")
    findings: list[str] = Field(description="What is wrong with it, a sentence each.")
