"""What is cached, place by place: one group on one medium each. Pure."""

from __future__ import annotations

import numpy as np
from kvxray_engine.stream.residency_descriptor import group_of, medium_of
from kvxray_engine.stream.schema import Descriptor, Pool

from kvxray_backend.figure import Certainty, Figure
from kvxray_backend.residency.answers import DescriptorView, GroupView, MediumView, PlaceView
from kvxray_backend.residency.columns import ResidencyColumns
from kvxray_backend.residency.figures import since_of
from kvxray_backend.residency.foreign_source import ForeignMoment
from kvxray_backend.residency.measures import Reach, num_certain, num_copies
from kvxray_backend.residency.picture import ResidencyPicture
from kvxray_backend.residency.taints import SPOILS_CHAINS, SPOILS_COUNTS, figure, not_observable
from kvxray_backend.sources.foreign.media import tier_of


def places_view(moment: ForeignMoment) -> list[PlaceView]:
    """By number of the place."""
    picture = moment.picture
    return [] if picture is None else [_place(moment, picture, *told) for told in sorted(picture.reach.items())]


def descriptor_view(moment: ForeignMoment) -> DescriptorView | None:
    if moment.columns is None:
        return None
    told = moment.columns.descriptor
    return DescriptorView(
        groups=[GroupView(kind=group.kind, window=group.window) for group in told.groups],
        media=[
            MediumView(name=pool.name, tier=tier_of_pool(pool), num_blocks=_capacity(moment, pool))
            for pool in told.pools
        ],
        block_sizes=[size for size in told.block_sizes if size],
        model=told.model,
    )


def tier_of_pool(pool: Pool) -> str | None:
    return tier_of(pool.name)


def _capacity(moment: ForeignMoment, pool: Pool) -> int | None:
    if tier_of_pool(pool) == "GPU" and moment.capacity is not None:
        return moment.capacity
    return pool.num_blocks or None


def _capacity_figure(moment: ForeignMoment, capacity: int) -> Figure:
    is_of_then = capacity != moment.capacity or moment.is_capacity_of_then
    return Figure(value=capacity, unit="blocks", certainty="exact" if is_of_then else "derived")


def _place(moment: ForeignMoment, picture: ResidencyPicture, place: int, reach: Reach) -> PlaceView:
    columns = picture.columns
    where = columns.places == place
    descriptor, group = columns.descriptor, group_of(place)
    pool = descriptor.pools[medium_of(place)]
    copies, certain = num_copies(columns, where), num_certain(columns, where)
    sure: Certainty = "exact" if columns.is_whole else "derived"

    def count(value: int, sure: Certainty = sure) -> Figure:
        return figure(value, "blocks", moment.findings, SPOILS_COUNTS, sure, since_of(moment))

    def chain(value: int | None) -> Figure:
        if value is None:
            return not_observable("blocks")
        return figure(value, "blocks", moment.findings, SPOILS_CHAINS, sure, since_of(moment))

    capacity = _capacity(moment, pool)
    return PlaceView(
        place=place,
        medium=pool.name,
        tier=tier_of_pool(pool),
        group=group,
        kind=descriptor.groups[group].kind,
        block_size=block_size_of(columns, where, descriptor),
        copies=count(copies, sure if certain == copies or columns.counts_copies else "derived"),
        hashes=count(reach.hashes),
        certain=certain,
        maybe=copies - certain,
        reachable=chain(reach.reachable),
        unreachable=chain(reach.unreachable),
        capacity=not_observable("blocks") if capacity is None else _capacity_figure(moment, capacity),
    )


def block_size_of(columns: ResidencyColumns, where: np.ndarray, descriptor: Descriptor) -> int | None:
    """Tokens of most of its blocks; None where that is not told."""
    told = columns.block_sizes[where]
    told = told[told > 0]
    return int(descriptor.block_sizes[int(np.bincount(told).argmax())]) if len(told) else None
