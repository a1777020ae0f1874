"""`/api/prefixes/{hash}`: the prefix that a block hash stands for: who holds it, what leads to it and what follows."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from kvxray_storage.hash_history import ordinals_told
from kvxray_storage.hash_lookup import hashes_of

from kvxray_backend.backend import Backend, Source
from kvxray_backend.block_types import PrefixView
from kvxray_backend.live_state import LiveState
from kvxray_backend.prefix_view import prefix_view
from kvxray_backend.routes.dependencies import BackendDep, SourceDep, StateDep, not_joined
from kvxray_backend.routes.stays import HashText, hash_of

router = APIRouter(tags=["state"])

MAX_ORDINALS = 100


@router.get("/prefixes/{block_hash}")
def prefix(
    backend: BackendDep,
    source: SourceDep,
    state: StateDep,
    block_hash: HashText,
    limit: Annotated[int, Query(ge=0, le=1000, description="Links of the chain, and branches, at most.")] = 40,
) -> PrefixView:
    """Blocks that carry the hash, their holders, the chain up to them and what goes on from them."""
    wanted = hash_of(block_hash)
    stored = [] if state is source.live else _told_by_log(backend, source, state, wanted)
    with state.lock:
        if state.block_map is None:
            raise not_joined(state)
        ordinals = {*state.block_map.hashes.ordinals_of(wanted), *stored}
        lookup = _Lookup(backend, source, state)
        return prefix_view(state, state.block_map, block_hash, ordinals, lookup.hashes_of, limit)


def _told_by_log(backend: Backend, source: Source, state: LiveState, wanted: bytes) -> list[int]:
    """States of the past bring the bytes of few hashes: the log tells under which ordinals this one was told."""
    if not wanted or state.epoch is None:
        return []
    key = backend.past.epoch(source.live.source, state.epoch).key
    return ordinals_told(backend.database, key, wanted, MAX_ORDINALS)


class _Lookup:
    """Bytes of hashes: those that the state has, and of the past what the log tells."""

    def __init__(self, backend: Backend, source: Source, state: LiveState) -> None:
        self._backend, self._source, self._state = backend, source, state

    def hashes_of(self, ordinals: list[int]) -> dict[int, bytes]:
        block_map = self._state.block_map
        assert block_map is not None, "there is a state"
        told = {ordinal: block_map.hash_bytes(ordinal) for ordinal in ordinals}
        found = {ordinal: data for ordinal, data in told.items() if data is not None}
        missing = told.keys() - found.keys()
        if not missing or self._state is self._source.live or self._state.epoch is None:
            return found
        key = self._backend.past.epoch(self._source.live.source, self._state.epoch).key
        return found | hashes_of(self._backend.database, key, missing)
