"""The JSON of `/api/tenants`: how much of a cache is whose, and who pushed whom out of it. Only shapes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvxray_backend.analysis.tenant_shares import ToldBy
from kvxray_backend.api_types import Answer, Seq, Time
from kvxray_backend.figure import Certainty

Whose = Literal["tenant", "salt", "lora", "session", "several", "not_told", "unknown"]
"""A tenant by what tells it, or why it is none."""


class TenantView(Answer):
    """Who it is."""

    tenant: str = Field(description="The digest of its name, salt or session, or the name of its adapter (lora).")
    told_by: ToldBy = Field(description="tenant, salt, lora or session: what of its names tells it.")


class TenantShareView(TenantView):
    """What one tenant has alone."""

    amount: int = Field(description="Blocks or hashes that it has and no other.")
    share: float = Field(description="Its part of the total, from 0 to 1.")


class SharesView(Answer):
    """Whose something is; all amounts together are the total."""

    certainty: Certainty = Field(description="exact: as the holders say; derived: concluded, see `cached`.")
    total: int = Field(description="Blocks or hashes in all.")
    tenants: list[TenantShareView] = Field(description="Those that have most, the largest first, 64 at most.")
    others: int = Field(description="What all further tenants have, each alone.")
    num_others: int = Field(description="How many further tenants those are.")
    several: int = Field(description="What several tenants have together, counted once.")
    not_told: int = Field(description="Of requests, or stores, that do not tell what is asked for.")
    unknown: int = Field(
        description="Nothing tells whose it is: blocks that nobody holds any more and whose allocation is not among "
        "the events read, holders that are not known, hashes whose chain begins where nothing was told."
    )


class TenantTurnoverView(TenantView):
    """What was evicted of one tenant, and for it."""

    lost: int = Field(description="Blocks allocated for it that were evicted to make room.")
    lost_to_others: int = Field(description="Of these, those evicted for another tenant that is known.")
    took: int = Field(description="Blocks that were evicted to make room for it, whosever they were.")


class EvictedForView(Answer):
    """Who pushed whom out."""

    lost: TenantView = Field(description="Whose blocks were evicted.")
    took: TenantView = Field(description="For whom.")
    blocks: int = Field(description="How many.")


class TenantEvictionsView(Answer):
    """Evictions that made room, by whose blocks they were and for whom they went."""

    certainty: Certainty = Field(description="exact: of every event of that time; whose a block was is derived.")
    since: Time = Field(description="Counted from then on.")
    until: Seq = Field(description="The last event counted: the last that is stored, before the next that was lost.")
    until_time: Time = Field(description="When that was.")
    seconds: float = Field(description="Over how long: 60, or less where the engine, or what was read, is shorter.")
    num: int = Field(description="Evictions in all.")
    tenants: list[TenantTurnoverView] = Field(description="Those of most, the largest first, 64 at most.")
    num_others: int = Field(description="How many further tenants lost or took any.")
    pairs: list[EvictedForView] = Field(description="Who lost to whom, both known and not the same, 64 at most.")
    lost_not_told: int = Field(description="Blocks of requests that do not tell what is asked for.")
    lost_unknown: int = Field(description="Blocks whose allocation is not among the events read.")
    took_not_told: int = Field(description="Evicted for requests that do not tell what is asked for.")
    took_unknown: int = Field(description="Evicted for nobody that is named.")


class TenantsView(Answer):
    """How much is whose at one moment."""

    source: str = Field(description="Its source.")
    seq: Seq | None = Field(description="The last event it includes; null before any.")
    time: Time | None = Field(description="When that was.")
    unit: Literal["blocks", "hashes"] = Field(description="What is counted.")
    by: ToldBy | None = Field(description="What was asked for; null: of each name the first that it tells.")
    told: list[ToldBy] = Field(description="What any name tells, of tenant, salt, lora and session.")
    held: SharesView | None = Field(
        description="Blocks that somebody holds; null where it is not told who holds what, as of all engines that "
        "tell of hashes."
    )
    cached: SharesView = Field(
        description="Blocks with a hash, held or not, by who holds them, and those that nobody holds by who allocated "
        "them; of hashes, all that are cached, by who stored them or the beginning of their chain."
    )
    unknown_blocks: int = Field(description="Blocks of which it is not known whether they are held or cached.")
    evictions: TenantEvictionsView | None = Field(description="Null where it is not told: `no_evictions` says why.")
    no_evictions: str = Field(description="Why evictions are not told, one sentence; empty where they are.")


class TenantBlocksView(Answer):
    """All that one tenant has."""

    source: str = Field(description="Its source.")
    seq: Seq | None = Field(description="The last event it includes.")
    unit: Literal["blocks", "hashes"] = Field(description="What is told: ids of blocks, or ordinals of hashes.")
    num: int = Field(description="How many.")
    runs: list[tuple[int, int]] = Field(description="First and how many, in order: 5, 3 means 5, 6 and 7.")
    left_out: int = Field(description="Of `num`, those beyond 65,536 runs, which are not told.")
