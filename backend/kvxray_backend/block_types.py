"""The JSON of one block, its chain of hashes, and the prefix that a hash stands for."""

from __future__ import annotations

from pydantic import Field

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.api_types import Answer, EventView, HolderView, Time
from kvxray_backend.figure import Figure


class BlockView(Answer):
    """One block in full."""

    block_id: int = Field(description="Its id.")
    state: str = Field(description="unknown, empty, free, cached, active or shared.")
    ref_cnt: Figure = Field(description="References.")
    slots: Figure = Field(description="Tokens written.")
    block_hash: str | None = Field(
        description="Hash of what it caches, in hexadecimal; null when it has none or unknown."
    )
    parent_block_hash: str | None = Field(description="Hash of the block before it in the chain.")
    group: int = Field(description="KV cache group.")
    medium: str | None = Field(
        description="Where it lives: GPU, CPU, DISK or REMOTE; null where the source does not say."
    )
    holders: list[HolderView] = Field(description="Who holds it.")
    allocated_at: Time | None = Field(description="When it was last allocated.")
    last_event_at: Time | None = Field(description="When anything last happened to it.")
    age_s: Figure = Field(description="Seconds since its allocation.")
    idle_s: Figure = Field(description="Seconds since its last event.")
    history: list[EventView] = Field(description="What happened to it, newest first.")
    taints: tuple[str, ...] = Field(description="Ids of open findings that spoil this, its holders included.")
    findings: list[Finding] = Field(description="Open findings about it; at most a hundred.")


class ChainView(Answer):
    """The chain of hashes through a block; empty where it has no hash."""

    block_id: int = Field(description="Its id.")
    before: list[int] = Field(description="Blocks from the first of the prompt to this one.")
    after: list[int] = Field(description="Blocks that only come after it, of whatever prompt, in order of id.")


class ChainLinkView(Answer):
    """A block of a chain of hashes."""

    block_id: int = Field(description="Its id; where several carry its hash, one of them.")
    block_hash: str | None = Field(description="Its hash; null where nothing tells it any more.")
    ref_cnt: int = Field(description="References on it.")


class BranchView(ChainLinkView):
    """A block that follows on a prefix, for all that go on through it."""

    blocks: int = Field(description="Blocks at and beyond it.")


class PrefixView(Answer):
    """The prefix that a block hash stands for, as it is in the cache."""

    block_hash: str = Field(description="The hash asked for.")
    blocks: list[int] = Field(description="Blocks that carry it; none when it is not in the cache.")
    holders: list[HolderView] = Field(description="Who holds them.")
    tokens: Figure = Field(description="Tokens from the beginning to the end of its block; null when not whole.")
    is_whole: bool = Field(description="Whether the chain reaches the beginning of a prompt, nothing of it evicted.")
    before: list[ChainLinkView] = Field(description="The chain up to it, from the beginning; the last `limit` of it.")
    num_before: int = Field(description="How many blocks come before it.")
    branches: list[BranchView] = Field(description="What follows on it, the largest first; at most `limit`.")
    num_branches: int = Field(description="How many different blocks follow on it.")
    taints: tuple[str, ...] = Field(description="Ids of open findings that spoil this.")
