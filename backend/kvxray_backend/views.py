"""Answers of the API out of a source's live state. Each call takes the state's lock, so that what it says is of one
moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.schema import NO_ORDINAL, UNKNOWN_U4, BlockState, Descriptor, Name, RequestStatus
from kvxray_storage.event_rows import EventRow

from kvxray_backend.api_types import EpochView, EventView, HolderView, SourceView, StateView, Summary
from kvxray_backend.block_types import BlockView
from kvxray_backend.engine_clock import age_s
from kvxray_backend.figure import Figure, Unit
from kvxray_backend.figures import SPOILS_BLOCKS, SPOILS_UNKNOWN_BLOCKS, Reading, figures_of, state_counts
from kvxray_backend.live_state import EpochSpan, LiveState
from kvxray_backend.live_tail import OTHER_KINDS, TOKEN_KINDS
from kvxray_backend.moments import Point, iso_time, iso_time_or_none
from kvxray_backend.request_table_view import requests_view
from kvxray_backend.told_findings import about_block, the_most_telling

SUMMARY_REQUESTS = 40
SUMMARY_EVENTS = 30


def reading_of(live: LiveState, block_map: BlockMap) -> Reading:
    """What figures are made from, now. Call with the lock held."""
    return Reading(
        block_map=block_map,
        windows=live.windows,
        epoch=live.epoch or 0,
        since_seq=live.known_since_seq,
        now_ns=live.engine_time.t_ns,
        leaked=int(np.count_nonzero(live.picture.leaked)),
        leaked_only=int(np.count_nonzero(live.picture.leaked_only)),
        findings=live.open_findings.found,
        lives=live.lives,
    )


def state_view(live: LiveState) -> StateView | None:
    """The summary of the cache; None before the source was joined."""
    with live.lock:
        block_map = live.block_map
        if block_map is None:
            return None
        reading, descriptor = reading_of(live, block_map), block_map.descriptor
        return StateView(
            source=live.source,
            at=live.at,
            epoch=reading.epoch,
            seq=last_seq_of(live),
            step=block_map.step,
            time=iso_time(live.state_ns),
            engine_time=iso_time(reading.now_ns),
            watched_since=iso_time_or_none(live.windows.watched_from_ns),
            usable_blocks=descriptor.usable_blocks,
            block_size=descriptor.block_size,
            bytes_per_block=descriptor.bytes_per_block,
            counts=state_counts(reading),
            figures=figures_of(reading),
            findings=[finding.id for finding in the_most_telling(live.open_findings.found)],
        )


def source_view(live: LiveState) -> SourceView:
    """How the source is followed."""
    with live.lock:
        block_map, epoch, last = live.block_map, live.epoch, last_seq_of(live)
        descriptor = block_map.descriptor if block_map is not None else None
        return SourceView(
            source=live.source,
            engine=live.source,
            labels=dict(descriptor.labels) if descriptor else {},
            state=live.connection,
            since=iso_time_or_none(live.since_ns),
            epoch=epoch,
            incarnation=block_map.incarnation if block_map is not None else None,
            last_seq=last,
            # One less than the first: nothing has been folded yet.
            wire_seq=live.wire_seq if live.wire_seq != -1 else None,
            step=block_map.step if block_map is not None else None,
            gaps=live.counters.gaps,
            drops=live.counters.drops,
            bad_messages=live.counters.bad_messages,
            lag_s=Figure(value=live.lag_s, unit="seconds", certainty="derived", taints=_stale(live)),
            descriptor=descriptor_view(descriptor) if descriptor else None,
            epochs=[epoch_view(span, last if span.epoch == epoch else None) for span in live.epochs],
        )


def _stale(live: LiveState) -> tuple[str, ...]:
    """Ids of findings that say that nothing is heard."""
    return tuple(finding.id for finding in live.open_findings.found if finding.kind == "stale")


def last_seq_of(live: LiveState) -> str | None:
    """The last event folded; None where there is none."""
    return str(Point(live.epoch, live.seq)) if live.epoch is not None and live.seq is not None else None


def descriptor_view(descriptor: Descriptor) -> dict[str, Any]:
    """The descriptor as JSON."""
    view: dict[str, Any] = msgspec.to_builtins(descriptor)
    return view


def epoch_view(span: EpochSpan, last_seq: str | None) -> EpochView:
    return EpochView(
        epoch=span.epoch,
        incarnation=span.incarnation,
        started_at=iso_time_or_none(span.started_ns),
        ended_at=iso_time_or_none(span.ended_ns),
        first_seq=str(Point(span.epoch, span.first_seq)) if span.first_seq is not None else None,
        last_seq=last_seq or (str(Point(span.epoch, span.last_seq)) if span.last_seq is not None else None),
        unfinished_import=span.is_unfinished,
    )


def event_views(rows: Iterable[EventRow], epoch: int) -> list[EventView]:
    """Events as JSON, in the order given."""
    return [
        EventView(
            seq=str(Point(epoch, row.seq)),
            time=iso_time(row.t_ns),
            step=row.step,
            kind=row.kind.name,
            cause=row.cause.name,
            request_id=row.request_id,
            block_id=row.block_id,
            value=row.value,
            a0=row.a0,
            a1=row.a1,
            taker_id=row.taker_id,
        )
        for row in rows
    ]


def summary(live: LiveState) -> Summary:
    """Everything a page shows beside the map."""
    with live.lock:
        found = live.open_findings.found
        leaks = [finding for finding in found if finding.kind == "leak"]
        return Summary(
            state=state_view(live),
            source=source_view(live),
            requests=requests_view(live, SUMMARY_REQUESTS).requests,
            events=event_views(_tail_of_summary(live), live.epoch or 0),
            findings=live.open_findings.tell(the_most_telling(found)),
            num_findings=len(found),
            leaking_requests=len({request for leak in leaks for request in leak.subjects.requests}),
        )


def _tail_of_summary(live: LiveState) -> list[EventRow]:
    """The newest events of the kinds that tokens cause and of all others, as many of each: those would leave no room
    for these.
    """
    names = holder_ids(live)
    rows = [row for kinds in (OTHER_KINDS, TOKEN_KINDS) for row in live.tail.newest(SUMMARY_EVENTS, names, kinds)]
    return sorted(rows, key=lambda row: row.seq, reverse=True)


def holder_ids(live: LiveState) -> Mapping[int, str]:
    """Ids of the holders that the fold remembers, by ordinal, looked up as asked for."""
    return _HolderIds(live.block_map.requests.names if live.block_map is not None else {})


class _HolderIds(Mapping[int, str]):
    """Ids out of names; nothing is copied."""

    def __init__(self, names: Mapping[int, Name]) -> None:
        self._names = names

    def __getitem__(self, ordinal: int) -> str:
        return self._names[ordinal].id

    def __iter__(self) -> Iterator[int]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def block_view(live: LiveState, block_id: int, history: Iterable[EventRow]) -> BlockView | None:
    """One block; None when the source does not have it, or was not joined."""
    with live.lock:
        block_map = live.block_map
        if block_map is None or not 0 <= block_id < block_map.num_blocks:
            return None
        reading = reading_of(live, block_map)
        ref, ordinal = int(block_map.ref[block_id]), int(block_map.hash_ordinal[block_id])
        is_unknown = block_map.state[block_id] == BlockState.unknown
        allocated, last = int(block_map.t_alloc[block_id]), int(block_map.t_last[block_id])
        spoils = SPOILS_UNKNOWN_BLOCKS if is_unknown else SPOILS_BLOCKS
        leaking = {leak.holder for leak in live.leaks}
        found, about = live.open_findings.found, leaking.intersection(block_map.holders_of(block_id))
        spoils_holders = spoils if block_map.holders_known else SPOILS_UNKNOWN_BLOCKS

        def figure(value: float | None, unit: Unit) -> Figure:
            return reading.figure(value, unit, spoils, "exact")

        return BlockView(
            block_id=block_id,
            state=BlockState(int(block_map.state[block_id])).name,
            ref_cnt=figure(ref if ref != UNKNOWN_U4 else None, "references"),
            slots=figure(None if is_unknown else int(block_map.slots[block_id]), "tokens"),
            block_hash=_hex(live, ordinal),
            parent_block_hash=_hex(live, int(block_map.parent_ordinal[block_id])) if ordinal < UNKNOWN_U4 else None,
            group=int(block_map.group[block_id]),
            medium=_medium(block_map.descriptor, block_id),
            holders=holders_of(live, block_map, [block_id]),
            allocated_at=iso_time_or_none(allocated),
            last_event_at=iso_time_or_none(last),
            age_s=figure(age_s(reading.now_ns, allocated), "seconds"),
            idle_s=figure(age_s(reading.now_ns, last), "seconds"),
            history=event_views(history, reading.epoch),
            taints=tuple(finding.id for finding in found if finding.kind in spoils_holders),
            findings=live.open_findings.tell(about_block(found, block_id, about)),
        )


def _hex(live: LiveState, ordinal: int) -> str | None:
    if ordinal in (NO_ORDINAL, UNKNOWN_U4):
        return None
    data = live.hash_bytes(ordinal)
    return data.hex() if data is not None else None


def _medium(descriptor: Descriptor, block_id: int) -> str | None:
    for pool in descriptor.pools:
        if pool.first_block_id <= block_id < pool.first_block_id + pool.num_blocks:
            return pool.medium
    return None


def holders_of(live: LiveState, block_map: BlockMap, blocks: list[int]) -> list[HolderView]:
    """Who holds these blocks: one entry a hold of one block, one a holder of several. Call with the lock held."""
    leaking = {leak.holder for leak in live.leaks}
    holders = [ordinal for block in blocks for ordinal in block_map.holders_of(block)]
    return [
        _holder(block_map, ordinal, ordinal in leaking)
        for ordinal in (holders if len(blocks) == 1 else dict.fromkeys(holders))
    ]


def _holder(block_map: BlockMap, ordinal: int, leaked: bool) -> HolderView:
    name = block_map.requests.names.get(ordinal) or Name(f"#{ordinal}")
    request = block_map.requests.get(ordinal)
    status = request.status if request is not None else RequestStatus.unknown
    return HolderView(holder=ordinal, request_id=name.id, kind=name.kind, status=status.name, leaked=leaked)
