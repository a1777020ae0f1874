"""The JSON of the API: what every answer is made of. Only shapes; who fills them stands in `views`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.figure import Figure

Time = str
Seq = str


class Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class DatabaseView(Answer):
    """The event log."""

    url_scheme: str = Field(description="sqlite or postgresql.")
    schema_: str = Field(alias="schema", description="Revision of the schema.")
    queue_bytes: int = Field(description="Bytes that wait to be committed.")
    stored_events: int = Field(description="Events stored, of all epochs.")
    failed: str | None = Field(description="One sentence while the database refuses writes, else null.")


class HealthView(Answer):
    """How the backend itself is."""

    status: Literal["ok", "degraded"] = Field(description="degraded while the database refuses writes.")
    version: str = Field(description="Version of kvxray.")
    uptime_s: float = Field(description="Seconds since the backend started.")
    sources: int = Field(description="Sources it is told to follow.")
    viewers: int = Field(description="Open live feeds.")
    database: DatabaseView = Field(description="The event log.")


class EpochView(Answer):
    """One life of a source."""

    epoch: int = Field(description="Its number, from 1 on.")
    incarnation: str = Field(description="The name this life gave itself.")
    started_at: Time | None = Field(description="When it was first followed.")
    ended_at: Time | None = Field(description="When the next one began; null while it lasts.")
    first_seq: Seq | None = Field(description="First event stored.")
    last_seq: Seq | None = Field(description="Last event stored or followed.")
    unfinished_import: bool = Field(description="An import of it began and did not end: only a part is stored.")


class SourceView(Answer):
    """One source and how it is followed."""

    source: str = Field(description="Its name.")
    labels: dict[str, str] = Field(description="What it says of itself: cluster, node, model, role and the like.")
    kind: Literal["blocks", "hashes", "metrics"] = Field(
        default="blocks",
        description="blocks: tells of blocks; hashes: tells of hashes only; metrics: no events at all.",
    )
    engine: str = Field(description="The engine that it is a rank of; its own name where it is the only one.")
    make: str = Field(default="kvxray", description="kvxray, vllm, sglang, trtllm, dynamo, router or other.")
    state: Literal["waiting", "joining", "connected", "stale", "no_stream", "past"] = Field(
        description="waiting: never heard; joining: heard, no snapshot yet; connected; stale: silent for 3 s, of "
        "engines that tell of hashes for 60 s without being known to idle; no_stream: it tells no events; past: as it "
        "was at the moment asked for."
    )
    since: Time | None = Field(description="Since when it is so; for stale, when it was last heard.")
    epoch: int | None = Field(description="The epoch followed; null before it was joined.")
    incarnation: str | None = Field(description="The name of that epoch.")
    last_seq: Seq | None = Field(description="Last event folded; null before the first.")
    wire_seq: int | None = Field(description="Last message folded; null before the first.")
    step: int | None = Field(description="The engine's step then.")
    gaps: int = Field(description="Gaps in this epoch, those made good by a snapshot included.")
    drops: int | None = Field(description="Messages the engine's recorder has dropped; null where it does not tell.")
    bad_messages: int = Field(description="Frames that could not be read since the backend started.")
    lag_s: Figure = Field(description="Seconds from the engine's hand-over to the backend, of the last message.")
    descriptor: dict[str, Any] | None = Field(description="Blocks, block size, pools, model of the epoch.")
    epochs: list[EpochView] = Field(description="All its epochs, oldest first.")


class SourcesView(Answer):
    """All sources."""

    sources: list[SourceView] = Field(description="In the order they are configured.")


class StateView(Answer):
    """A source's cache at one moment, in numbers."""

    source: str = Field(description="The source.")
    at: str = Field(description="The moment asked for.")
    epoch: int = Field(description="The epoch.")
    seq: Seq | None = Field(description="The last event it includes; null before the first.")
    step: int = Field(description="The engine's step.")
    time: Time = Field(description="Time of the last event; before the first, when the engine was last heard.")
    engine_time: Time = Field(
        description="The newest time that the engine told, by events or heartbeats: ages are counted from it."
    )
    watched_since: Time | None = Field(
        description="Since when its events are followed, or the last minute's: rates and ratios are of no time before."
    )
    usable_blocks: int = Field(description="Blocks that can hold tokens: all but the null block.")
    block_size: int = Field(description="Tokens a block.")
    bytes_per_block: int = Field(description="Bytes a block; 0 where the source does not say.")
    counts: dict[str, Figure] = Field(description="Usable blocks by state; they add up to usable_blocks.")
    figures: dict[str, Figure] = Field(description="The figures of the page, by name.")
    findings: list[str] = Field(description="Ids of open findings; at most a hundred, of every kind some.")


class HolderView(Answer):
    """Who keeps a block referenced: one entry a hold."""

    holder: int = Field(description="Ordinal of the holder in the epoch.")
    request_id: str = Field(description="Its id.")
    kind: str = Field(description="request, sequence, pin, lease or transfer.")
    status: str = Field(description="Status of the request.")
    leaked: bool = Field(description="Whether the hold outlived its holder.")


class EventView(Answer):
    """One event."""

    seq: Seq = Field(description="Its number.")
    time: Time = Field(description="When it happened, by the engine's clock.")
    step: int = Field(description="The engine's step.")
    kind: str = Field(description="What happened.")
    cause: str = Field(description="Why.")
    request_id: str | None = Field(description="Whom it concerns.")
    block_id: int | None = Field(description="The block.")
    value: int | None = Field(description="For kinds that have one: references after, slots written, source block.")
    a0: int = Field(description="First argument, as the kind defines it.")
    a1: int = Field(description="Second argument, as the kind defines it.")
    taker_id: str | None = Field(default=None, description="Of a preemption, the request that its blocks went to.")
    hash: str | None = Field(default=None, description="The hash, in hexadecimal, of an event that tells of one.")
    parent: str | None = Field(default=None, description="The hash before it in its chain, where that is known.")
    medium: str | None = Field(default=None, description="As the engine calls it; all: a clear that names none.")
    group: int | None = Field(default=None, description="Index of its group; null where the event names none.")


class EventsView(Answer):
    """Events, oldest first."""

    events: list[EventView] = Field(description="Events in the order they happened.")
    next: Seq | None = Field(description="Ask from here for what follows; null when nothing is stored.")


class RequestRow(Answer):
    """One request in the table."""

    request_id: str = Field(description="Its id.")
    ordinal: int = Field(description="Its ordinal in the epoch.")
    status: str = Field(description="waiting, running, preempted, finished, aborted or failed.")
    prompt_tokens: int | None = Field(description="Tokens of the prompt; null when they were not told.")
    output_tokens: int | None = Field(description="Tokens generated; null when they were not told.")
    hit_tokens: int | None = Field(description="Prompt tokens found in the prefix cache; null when not told.")
    blocks: int | None = Field(description="Blocks it holds; null where holders are not known and none was seen.")
    shared_blocks: int | None = Field(description="Those of them that others hold too; null likewise.")
    leaked_blocks: int | None = Field(description="Blocks it keeps after its end; null likewise.")
    arrived_at: Time | None = Field(description="When it arrived; null when that was not seen.")
    ended_at: Time | None = Field(description="When it finished, was aborted or failed; null while it has not.")
    ttft_s: Figure = Field(description="Seconds from arrival to first token.")
    preemptions: int = Field(description="Times it was preempted.")


class RequestView(RequestRow):
    """One request in full."""

    block_table: list[int] = Field(description="Blocks it holds, in the order of their chain as far as hashes tell it.")
    queried_tokens: int | None = Field(description="Tokens looked up in the prefix cache; null when not told.")
    waiting_s: Figure = Field(description="Seconds from arrival until it was scheduled; null once it was preempted.")
    prefill_s: Figure = Field(description="Seconds from then to its first token; null once it was preempted.")
    decode_s: Figure = Field(description="Seconds from its first to its last token so far, preemptions included.")
    findings: list[Finding] = Field(description="Open findings about it; at most a hundred.")


class RequestsView(Answer):
    """Requests: what leaks first, then the living, then the ended, newest first."""

    requests: list[RequestRow] = Field(description="At most `limit` of them.")
    total: int = Field(description="How many there are that fit.")


class TextView(Answer):
    """What a request has generated, straight from the engine; never stored."""

    request_id: str = Field(description="The request.")
    text: str = Field(description="Text so far.")
    finished: bool = Field(description="Whether it is over.")


class FindingsView(Answer):
    """Findings, newest first."""

    findings: list[Finding] = Field(description="At most a thousand.")
    total: int = Field(description="How many there are in all.")


class MomentView(Answer):
    """A moment of the past."""

    at: Seq = Field(description="EPOCH.SEQ: just after that event.")
    time: Time = Field(description="When it was.")
    step: int = Field(description="The engine's step then.")


class Summary(Answer):
    """A text frame of the live feed."""

    type: Literal["summary"] = Field(default="summary", description="What kind of frame it is.")
    state: StateView | None = Field(description="Null before the source was joined.")
    source: SourceView = Field(description="How it is followed.")
    requests: list[RequestRow] = Field(description="The first rows of the table.")
    events: list[EventView] = Field(
        description="The newest events, 30 of the kinds that tokens cause and 30 of the others; newest first."
    )
    findings: list[Finding] = Field(description="Open findings; at most a hundred, of every kind the newest.")
    num_findings: int = Field(description="How many are open.")
    leaking_requests: int = Field(description="How many holders the open leaks are about.")
