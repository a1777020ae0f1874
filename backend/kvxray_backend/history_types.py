"""The JSON of what is told of the past: what became different, where a hash was, what is missing, bookmarks."""

from __future__ import annotations

from pydantic import Field

from kvxray_backend.api_types import Answer, EventView, Seq, Time


class HolderChange(Answer):
    """A holder whose holds are not what they were."""

    holder: int = Field(description="Ordinal of the holder in the epoch.")
    request_id: str = Field(description="Its id.")
    gained: int = Field(description="Holds that it has and had not.")
    lost: int = Field(description="Holds that it had and has not.")


class DiffView(Answer):
    """What became different between two moments of one epoch. A block may be in several kinds of change."""

    source: str = Field(description="The source.")
    from_seq: Seq | None = Field(description="The one moment; null before the first event.")
    to_seq: Seq | None = Field(description="The other.")
    counts: dict[str, int] = Field(description="Blocks by kind of change.")
    blocks: dict[str, list[int]] = Field(description="Their ids, at most `limit` of each kind.")
    changed: int = Field(description="Blocks that are in any of them.")
    holders: list[HolderChange] | None = Field(
        description="Who gained or lost holds, most changed first, at most `limit`; null while holders are not known."
    )


class HashStayView(Answer):
    """A block carried a hash for a while."""

    block_id: int = Field(description="The block.")
    hits: int = Field(description="How often it was referenced meanwhile.")
    since: EventView = Field(description="The event that gave it the hash.")
    until: EventView | None = Field(description="The event that took it away; null while it still has it.")
    lost_after: str | None = Field(
        description="The event after which messages are missing, or the pool changed: from there on nothing is known."
    )


class HashStaysView(Answer):
    """Where a hash was, the newest stay first."""

    block_hash: str = Field(description="The hash asked for.")
    epoch: int = Field(description="The epoch looked through.")
    stays: list[HashStayView] = Field(description="At most `limit`.")


class GapView(Answer):
    """Events that are not stored, or were not for a while."""

    from_seq: Seq = Field(description="The first of them.")
    to_seq: Seq | None = Field(description="The last of them; null when nothing told where they end.")
    time: Time = Field(description="When they were missed.")
    reason: str = Field(description="Why they are missing.")
    repaired: bool = Field(description="Whether they were stored after all.")


class OverTime(Answer):
    """A stretch of time in buckets: one entry a bucket in every list."""

    begin: Time = Field(description="Where it begins.")
    end: Time = Field(description="Where it ends.")
    seconds: int = Field(description="Length of a bucket.")
    t: list[int] = Field(description="Unix seconds at which each bucket begins.")
    epoch: list[int] = Field(description="The epoch that each is of.")
    gaps: list[GapView] = Field(description="What is missing, the newest first; at most 200 of them.")
    num_gaps: int = Field(description="How many are missing in all.")


class TimelineView(OverTime):
    """Figures over time. A bucket in which nothing happened has none."""

    series: dict[str, list[float | None]] = Field(
        description="Values by name; null where there is nothing to say. Gauges also have _min and _max."
    )


class BookmarkView(Answer):
    """A moment that somebody marked."""

    id: str = Field(description="Its id.")
    source: str = Field(description="The source.")
    at: Seq = Field(description="The moment.")
    time: Time = Field(description="When it was.")
    note: str = Field(description="What somebody wrote of it.")
    created_at: Time = Field(description="When it was marked.")


class BookmarksView(Answer):
    """Bookmarks, the newest moment first."""

    bookmarks: list[BookmarkView] = Field(description="At most a thousand.")
