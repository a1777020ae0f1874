"""How much of what is held and of what is cached is whose, as far as names of requests or of stores tell. Pure.

A name's tenant is what it calls so, else its salt, its adapter, its session: the first that it tells, or the one of
these that is asked for. What several have together is counted once, as shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.columns import I8, U4
from kvxray_engine.stream.holder_log import HolderLog
from kvxray_engine.stream.schema import UNKNOWN_U4, Name
from numpy.typing import NDArray

from kvxray_backend.analysis.block_owners import BlockOwners
from kvxray_backend.block_tenants import (
    FIRST,
    MOST_TENANTS,
    NOBODY,
    NOT_TOLD,
    SEVERAL,
    UNKNOWN,
    codes_of_blocks,
)

ToldBy = Literal["tenant", "salt", "lora", "session"]
TOLD_BY: Final[tuple[ToldBy, ...]] = ("tenant", "salt", "lora", "session")

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Tenant:
    """Who it is, by that field of its name: a digest, or the name of an adapter."""

    told_by: ToldBy
    name: str


@dataclass(frozen=True, slots=True)
class Shares:
    """`tenants`: those that have most, the largest first; `others`: what the rest of them have, `num_others` in number.
    `several`: what more than one has. `not_told`: of names that tell no tenant. `unknown`: nothing tells whose it is.
    """

    tenants: tuple[tuple[Tenant, int], ...]
    others: int
    several: int
    not_told: int
    unknown: int
    num_others: int = 0

    @property
    def total(self) -> int:
        return sum(amount for _, amount in self.tenants) + self.others + self.several + self.not_told + self.unknown


@dataclass(frozen=True, slots=True)
class BlockShares:
    """`held`: blocks that somebody holds. `cached`: blocks with a hash, whether held or not; those that nobody holds
    any more are of who allocated them. `unknown_blocks`: it is not known whether they are held, nor their hash.
    """

    held: Shares
    cached: Shares
    unknown_blocks: int


@dataclass(frozen=True, slots=True, eq=False)
class HeldBlocks:
    """What is read of a fold of blocks, so that it may move on meanwhile."""

    ref: U4
    hash_ordinal: U4
    t_alloc: I8
    holders: HolderLog
    holders_known: bool
    names: Mapping[int, Name]
    null_block: int

    @property
    def is_usable(self) -> Bools:
        usable: Bools = np.arange(len(self.ref)) != self.null_block
        return usable

    @property
    def is_held(self) -> Bools:
        return self.is_usable & (self.ref > 0) & (self.ref < UNKNOWN_U4)

    @property
    def is_cached(self) -> Bools:
        return self.is_usable & (self.hash_ordinal < UNKNOWN_U4)


@dataclass(frozen=True, slots=True, eq=False)
class Tenancy:
    """Whose each thing is: a code of `block_tenants` each, in which `tenants` stand in this order from FIRST on."""

    codes: U4
    tenants: Sequence[Tenant]

    def code_of(self, tenant: Tenant) -> int | None:
        """None: nothing is known to be its."""
        return FIRST + self.tenants.index(tenant) if tenant in self.tenants else None


def copied(block_map: BlockMap) -> HeldBlocks:
    """Call with the lock held that guards it."""
    return HeldBlocks(
        block_map.ref.copy(),
        block_map.hash_ordinal.copy(),
        block_map.t_alloc.copy(),
        block_map.holders.copy(),
        block_map.holders_known,
        dict(block_map.requests.names),
        block_map.descriptor.null_block,
    )


def tenant_of(name: Name, by: ToldBy | None = None) -> Tenant | None:
    """by: what alone counts; None: the first that it tells."""
    for told_by in TOLD_BY if by is None else (by,):
        told: str = getattr(name, told_by)
        if told:
            return Tenant(told_by, told)
    return None


def told_by_any(names: Mapping[int, Name]) -> tuple[ToldBy, ...]:
    """What any of them tells, in order."""
    return tuple(told_by for told_by in TOLD_BY if any(getattr(name, told_by) for name in names.values()))


def tenancy_of_blocks(told: HeldBlocks, owners: BlockOwners | None = None, by: ToldBy | None = None) -> Tenancy:
    """Of every block. Who allocated what is cached and nobody holds stands in for its holder. Costs one pass over the
    holds.
    """
    names = told.names if owners is None else {**owners.names, **told.names}
    labels, tenants = labelled(names, by)
    blocks, holders = told.holders.holds() if told.holders_known else (np.zeros(0, np.uint32), np.zeros(0, np.uint32))
    if owners is not None:
        left = np.flatnonzero(told.is_cached & (told.ref == 0) & owners.knows(told.t_alloc)).astype(np.uint32)
        blocks, holders = np.append(blocks, left), np.append(holders, owners.holders[left])
        order = np.argsort(blocks)
        blocks, holders = blocks[order], holders[order]
    codes, known = codes_of_blocks(told.ref == 0, blocks, holders, labels)
    return Tenancy(codes, [tenants[word] for word in known])


def shares_of_blocks(told: HeldBlocks, owners: BlockOwners | None = None, by: ToldBy | None = None) -> BlockShares:
    """The null block is nobody's. owners: as far as events were read that tell of them."""
    whose = tenancy_of_blocks(told, owners, by)
    is_unknown = told.is_usable & ((told.ref == UNKNOWN_U4) | (told.hash_ordinal == UNKNOWN_U4))
    held, cached = (counted_shares(whose.codes[here], whose.tenants) for here in (told.is_held, told.is_cached))
    return BlockShares(held, cached, int(is_unknown.sum()))


def counted_shares(codes: U4, tenants: Sequence[Tenant]) -> Shares:
    """As codes of a `Tenancy`."""
    counts = np.bincount(codes, minlength=FIRST + len(tenants)).tolist()
    amounts = ((tenant, counts[FIRST + place]) for place, tenant in enumerate(tenants))
    ranked = sorted((one for one in amounts if one[1]), key=lambda one: (-one[1], one[0].told_by, one[0].name))
    rest = ranked[MOST_TENANTS:]
    unknown = counts[UNKNOWN] + counts[NOBODY]
    others = sum(amount for _, amount in rest)
    return Shares(tuple(ranked[:MOST_TENANTS]), others, counts[SEVERAL], counts[NOT_TOLD], unknown, len(rest))


def labelled(names: Mapping[int, Name], by: ToldBy | None) -> tuple[dict[int, Name], dict[str, Tenant]]:
    """The names as `block_tenants` reads them, with one word for each tenant, and whom each word means."""
    labels, tenants = dict[int, Name](), dict[str, Tenant]()
    for ordinal, name in names.items():
        tenant = tenant_of(name, by)
        word = f"{tenant.told_by}:{tenant.name}" if tenant is not None else ""
        if tenant is not None:
            tenants[word] = tenant
        labels[ordinal] = Name(name.id, parent=name.parent, tenant=word)
    return labels, tenants
