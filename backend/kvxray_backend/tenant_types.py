"""The JSON of `/api/tenants`: how much of a cache is whose. Only shapes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvxray_backend.analysis.tenant_shares import ToldBy
from kvxray_backend.api_types import Answer, Seq


class TenantShareView(Answer):
    """What one tenant has alone."""

    tenant: str = Field(description="The digest of its name, salt or session, or the name of its adapter (lora).")
    told_by: ToldBy = Field(description="tenant, salt, lora or session: the first of these that its names tell.")
    amount: int = Field(description="Blocks or hashes that it has and no other.")
    share: float = Field(description="Its part of the total, from 0 to 1.")


class SharesView(Answer):
    """Whose something is; all amounts together are the total."""

    total: int = Field(description="Blocks or hashes in all.")
    tenants: list[TenantShareView] = Field(description="Those that have most, the largest first, 64 at most.")
    others: int = Field(description="What all further tenants have, each alone.")
    several: int = Field(description="What several tenants have together, counted once.")
    not_told: int = Field(description="Of requests, or stores, that tell no tenant, salt, adapter or session.")
    unknown: int = Field(
        description="Nothing tells whose it is: blocks that nobody holds any more, holders that are not known, hashes "
        "whose chain begins where nothing was told."
    )


class TenantsView(Answer):
    """How much is whose at one moment."""

    source: str = Field(description="Its source.")
    seq: Seq | None = Field(description="The last event it includes; null before any.")
    unit: Literal["blocks", "hashes"] = Field(description="What is counted.")
    held: SharesView | None = Field(
        description="Blocks that somebody holds; null where it is not told who holds what, as of all engines that "
        "tell of hashes."
    )
    cached: SharesView = Field(
        description="Blocks with a hash, whether held or not, by who holds them; of hashes, all that are cached, by "
        "who stored them."
    )
    unknown_blocks: int = Field(description="Blocks of which it is not known whether they are held or cached.")
