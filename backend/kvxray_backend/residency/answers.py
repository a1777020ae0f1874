"""The JSON of `/api/residency`: what is cached of an engine that tells of hashes. Only shapes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.api_types import Answer, EventView, Seq, Time
from kvxray_backend.figure import Figure

Kind = Literal["blocks", "hashes", "metrics"]
State = Literal["waiting", "joining", "connected", "stale", "no_stream", "past"]


class MetricsStateView(Answer):
    """How its metrics are read."""

    state: Literal["none", "reading", "failing"] = Field(description="none: no address is given; reading; failing.")
    sentence: str = Field(description="One sentence for people; empty where there is nothing to say.")
    last: Time | None = Field(description="When a page was read last; null for never.")


class GroupView(Answer):
    """One KV cache group."""

    kind: str = Field(description="full_attention, sliding_window, mamba and the like; empty where it is not told.")
    window: int = Field(description="Tokens of its window; 0 for none.")


class MediumView(Answer):
    """One memory that blocks lie in."""

    name: str = Field(description="What the engine calls it; empty where it tells none, which means the GPU.")
    tier: str | None = Field(description="GPU, CPU, DISK or REMOTE; null where nobody has named it here.")
    num_blocks: int | None = Field(description="Blocks that it has; null where nobody tells.")


class DescriptorView(Answer):
    """What the engine is, as its events tell."""

    groups: list[GroupView] = Field(description="By group index.")
    media: list[MediumView] = Field(description="By medium index.")
    block_sizes: list[int] = Field(description="Tokens a block, all that were told.")
    model: str = Field(description="The model; empty where it is not told.")


class PlaceView(Answer):
    """What is cached in one group on one medium."""

    place: int = Field(description="Its number in /api/residency/map: group | medium << 8.")
    medium: str = Field(description="As the engine calls it.")
    tier: str | None = Field(description="GPU, CPU, DISK or REMOTE; null where nobody has named it here.")
    group: int = Field(description="Index of the group.")
    kind: str = Field(description="Kind of the group; empty where it is not told.")
    block_size: int | None = Field(description="Tokens a block; null where it is not told.")
    copies: Figure = Field(description="Blocks that hold something.")
    hashes: Figure = Field(description="Different hashes among them.")
    certain: int = Field(description="Copies that are there even if every repeated store only reported a use.")
    maybe: int = Field(description="Copies that reports of use could explain.")
    reachable: Figure = Field(description="Hashes whose whole chain is there.")
    unreachable: Figure = Field(description="Hashes that no prompt can reach: a block before them is gone.")
    capacity: Figure = Field(description="Blocks of the medium, all groups together.")


class ExplanationView(Answer):
    """Where two numbers rightly differ."""

    panel: str = Field(description="The panel it belongs to.")
    sentence: str = Field(description="One sentence for people.")


class ResidencyView(Answer):
    """What is cached of one source at one moment."""

    source: str = Field(description="The source.")
    engine: str = Field(description="The engine that it is of.")
    make: str = Field(description="vllm, sglang, trtllm, dynamo, router or other; empty where only stored.")
    kind: Kind = Field(description="hashes, or metrics where it tells no events.")
    at: str = Field(description="The moment asked for: live, or EPOCH.SEQ.")
    time: Time | None = Field(description="Time of the last event; null before the first.")
    epoch: int | None = Field(description="The epoch; null before the first event.")
    seq: Seq | None = Field(description="The last event it includes; null before the first.")
    state: State = Field(description="As in /api/engines.")
    since: Time | None = Field(description="Since when.")
    known_since: Seq | None = Field(description="From which event on all is known; null where it began before us.")
    trouble: str = Field(description="Why no event of its can be heard now; empty where nothing is known to be wrong.")
    gaps: int | None = Field(description="Gaps in its batches, those made good included; null of the past.")
    late: int | None = Field(description="Batches that came late; null of the past.")
    bad_messages: int | None = Field(description="Batches with something that could not be read; null of the past.")
    metrics: MetricsStateView = Field(description="How its metrics are read.")
    descriptor: DescriptorView | None = Field(description="What the engine is; null before the first event.")
    places: list[PlaceView] = Field(description="Where something is cached, or was.")
    figures: dict[str, Figure] = Field(description="The figures of the page, by name.")
    explanations: list[ExplanationView] = Field(description="Where two of the numbers rightly differ.")
    findings: list[Finding] = Field(description="Open findings; at most a hundred, of every kind the newest.")
    num_findings: int = Field(description="How many are open.")


class LinkView(Answer):
    """A hash beside another in a chain."""

    hash: str | None = Field(description="In hexadecimal; null where its bytes are not known any more.")
    ordinal: int = Field(description="Its ordinal in the epoch.")
    is_here: bool = Field(description="Whether it is cached anywhere.")


class HashPlaceView(Answer):
    """One hash in one place."""

    place: int = Field(description="As in /api/residency.")
    medium: str = Field(description="As the engine calls it.")
    tier: str | None = Field(description="GPU, CPU, DISK or REMOTE; null where nobody has named it here.")
    group: int = Field(description="Index of the group.")
    kind: str = Field(description="Kind of the group.")
    copies: int = Field(description="Copies there.")
    certainty: Literal["gone", "maybe", "certain"] = Field(description="Whether it is there.")
    block_size: int | None = Field(description="Tokens a block; null where it is not told.")
    first: Time | None = Field(description="Since when it is there, or was the last time.")
    last: Time | None = Field(description="Time of its last event there.")
    stores: int = Field(description="How often it was stored.")
    removals: int = Field(description="How often it was removed.")
    reuses: int = Field(description="Stores that reported a use.")


class ResidencyHashView(Answer):
    """One hash in full."""

    source: str = Field(description="The source.")
    hash: str = Field(description="In hexadecimal.")
    ordinal: int = Field(description="Its ordinal in the epoch.")
    copies: int = Field(description="Copies in all places.")
    certainty: Literal["gone", "maybe", "certain"] = Field(description="Whether it is cached anywhere.")
    places: list[HashPlaceView] = Field(description="Where it is, or was.")
    parent: LinkView | None = Field(description="The block before it; null for the first of a prompt, or not told.")
    is_root: bool | None = Field(description="Whether it begins a prompt; null where it was not told.")
    children: list[LinkView] = Field(description="What goes on from it; at most 100.")
    num_children: int = Field(description="How many go on from it.")
    chain_length: int = Field(description="Blocks up to it, itself included, as far as they are remembered.")
    session: str = Field(description="Keyed digest of the session it was stored for; empty for none.")
    lora: str = Field(description="Name of the adapter; empty for none.")
    salt: str = Field(description="Keyed digest of the salt; empty for none.")
    findings: list[Finding] = Field(description="Open findings about it; at most a hundred.")
    history: list[EventView] = Field(
        default=[],
        description="Its stored events in this epoch, the newest first; at most `history`.",
    )
