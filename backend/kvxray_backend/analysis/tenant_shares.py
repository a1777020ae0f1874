"""How much of what is held and of what is cached is whose, as far as names of requests or of stores tell. Pure.

A name's tenant is what it calls so, else its salt, its adapter, its session: the first that it tells. What several have
together is counted once, as shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.holder_log import HolderLog
from kvxray_engine.stream.schema import UNKNOWN_U4, Name
from numpy.typing import NDArray

from kvxray_backend.block_tenants import FIRST, NOBODY, NOT_TOLD, OTHERS, SEVERAL, UNKNOWN, tenants_of_blocks

ToldBy = Literal["tenant", "salt", "lora", "session"]
TOLD_BY: Final[tuple[ToldBy, ...]] = ("tenant", "salt", "lora", "session")


@dataclass(frozen=True, slots=True)
class Tenant:
    """Who it is, by that field of its name: a digest, or the name of an adapter."""

    told_by: ToldBy
    name: str


@dataclass(frozen=True, slots=True)
class Shares:
    """`tenants`: those that have most, the largest first; `others`: what the rest of them have. `several`: what more
    than one has. `not_told`: of names that tell no tenant. `unknown`: nothing tells whose it is.
    """

    tenants: tuple[tuple[Tenant, int], ...]
    others: int
    several: int
    not_told: int
    unknown: int

    @property
    def total(self) -> int:
        return sum(amount for _, amount in self.tenants) + self.others + self.several + self.not_told + self.unknown


@dataclass(frozen=True, slots=True)
class BlockShares:
    """`held`: blocks that somebody holds. `cached`: blocks with a hash, whether held or not: whose those are that
    nobody holds any more is unknown. `unknown_blocks`: it is not known whether they are held, nor their hash.
    """

    held: Shares
    cached: Shares
    unknown_blocks: int


@dataclass(frozen=True, slots=True, eq=False)
class HeldBlocks:
    """What is read of a fold of blocks, so that it may move on meanwhile."""

    ref: NDArray[np.uint32]
    hash_ordinal: NDArray[np.uint32]
    holders: HolderLog
    holders_known: bool
    names: Mapping[int, Name]
    null_block: int


def copied(block_map: BlockMap) -> HeldBlocks:
    """Call with the lock held that guards it."""
    return HeldBlocks(
        block_map.ref.copy(),
        block_map.hash_ordinal.copy(),
        block_map.holders.copy(),
        block_map.holders_known,
        dict(block_map.requests.names),
        block_map.descriptor.null_block,
    )


def tenant_of(name: Name) -> Tenant | None:
    for told_by in TOLD_BY:
        told: str = getattr(name, told_by)
        if told:
            return Tenant(told_by, told)
    return None


def shares_of_blocks(told: HeldBlocks) -> BlockShares:
    """The null block is nobody's. Costs one pass over the holds."""
    labels, tenants = _labelled(told.names)
    ref, hashes, usable = told.ref, told.hash_ordinal, np.arange(len(told.ref)) != told.null_block
    holds = told.holders.holds() if told.holders_known else (np.zeros(0, np.uint32), np.zeros(0, np.uint32))
    classes, ranked = tenants_of_blocks(ref == 0, *holds, labels)
    largest = [tenants[label] for label in ranked]
    is_held, is_cached = usable & (ref > 0) & (ref < UNKNOWN_U4), usable & (hashes < UNKNOWN_U4)
    is_unknown = usable & ((ref == UNKNOWN_U4) | (hashes == UNKNOWN_U4))
    return BlockShares(
        counted_shares(classes[is_held], largest), counted_shares(classes[is_cached], largest), int(is_unknown.sum())
    )


def counted_shares(classes: NDArray[np.uint8], tenants: Iterable[Tenant]) -> Shares:
    """Of the classes of `block_tenants`, in which the tenants stand in this order from FIRST on."""
    told = tuple(tenants)
    counts = np.bincount(classes, minlength=FIRST + len(told)).tolist()
    amounts = ((tenant, counts[FIRST + place]) for place, tenant in enumerate(told))
    largest = sorted((one for one in amounts if one[1]), key=lambda one: (-one[1], one[0].told_by, one[0].name))
    return Shares(tuple(largest), counts[OTHERS], counts[SEVERAL], counts[NOT_TOLD], counts[UNKNOWN] + counts[NOBODY])


def _labelled(names: Mapping[int, Name]) -> tuple[dict[int, Name], dict[str, Tenant]]:
    """The names as `block_tenants` reads them, with one word for each tenant, and whom each word means."""
    labels, tenants = dict[int, Name](), dict[str, Tenant]()
    for ordinal, name in names.items():
        tenant = tenant_of(name)
        word = f"{tenant.told_by}:{tenant.name}" if tenant is not None else ""
        if tenant is not None:
            tenants[word] = tenant
        labels[ordinal] = Name(name.id, parent=name.parent, tenant=word)
    return labels, tenants
