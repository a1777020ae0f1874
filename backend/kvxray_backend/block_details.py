"""What the frames of the map do not carry of each block: how old it is, who holds it, and for which tenant. Asked for
beside them, by maps that are coloured by it. Layout in docs/architecture.md.

Little endian: a header of 32 bytes, a u4 column of ages, a u4 column of holders, where requests name tenants a u1
column of those, and a JSON object with the ids of the holders and the tenants of most blocks, and, where asked for, the
sets of holders that hold most blocks together. Pure but for the lock of the state it reads.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from functools import partial
from typing import Final

import numpy as np
from kvxray_engine.stream.holder_log import ANONYMOUS
from kvxray_engine.stream.schema import UNKNOWN_U4, Name
from numpy.typing import NDArray

from kvxray_backend.block_sharers import NO_SHARERS, Sharers, sharers_of_blocks
from kvxray_backend.block_tenants import are_told, tenants_of_blocks
from kvxray_backend.engine_clock import SET_BACK_NS
from kvxray_backend.live_state import LiveState

MAGIC: Final = b"KVXD"
VERSION: Final = 3
HEADER: Final = struct.Struct("<4sBB2xIIdI4x")

FLAG_HOLDERS_KNOWN: Final = 1
FLAG_TENANTS_TOLD: Final = 2

AGE_UNKNOWN: Final = 0xFFFFFFFF
AGE_MOST: Final = 0xFFFFFFFE
HOLDER_NOBODY: Final = 0xFFFFFFFF
HOLDER_SEVERAL: Final = 0xFFFFFFFE
HOLDER_UNKNOWN: Final = 0xFFFFFFFD
HOLDER_SETS: Final = 0x80000000
"""From here on the place of a set of holders, below it ordinals."""

NAMES_TOLD: Final = 64
_NS_A_TICK: Final = 10_000_000

U4 = NDArray[np.uint32]


def details_frame(live: LiveState, *, with_sharers: bool = False) -> tuple[float, bytes] | None:
    """`picture_seq` and the details of every block; None before the source was joined.

    with_sharers: tell sets of holders, which take time to find; else all blocks of several are held by several.
    """
    with live.lock:
        if live.block_map is None:
            return None
        block_map, seq, epoch, now_ns = live.block_map, live.picture_seq, live.epoch or 0, live.state_ns
        # Arrays are changed in place under the lock; the log of holders never is.
        t_alloc, ref, log = block_map.t_alloc.copy(), block_map.ref.copy(), block_map.holders.copy()
        known, names = block_map.holders_known, dict(block_map.requests.names)
    holds = log.holds() if known else (np.zeros(0, np.uint32), np.zeros(0, np.uint32))
    holders = _holders(ref, *holds)
    flags, tenants = FLAG_HOLDERS_KNOWN if known else 0, b""
    sharers = sharers_of_blocks(*holds) if with_sharers else NO_SHARERS
    told: dict[str, object] = {"holders": _names(names, holders), "tenants": [], "together": sharers.sets}
    told["sharers"] = _names_of_sharers(names, sharers)
    holders[sharers.blocks] = HOLDER_SETS + sharers.of_set
    if known and are_told(names):
        classes, told["tenants"] = tenants_of_blocks(ref == 0, *holds, names)
        flags, tenants = flags | FLAG_TENANTS_TOLD, classes.tobytes()
    text = json.dumps(told).encode()
    head = HEADER.pack(MAGIC, VERSION, flags, epoch, len(ref), now_ns / 1e9, len(text))
    columns = _ages(t_alloc, ref, now_ns).tobytes(), holders.astype("<u4").tobytes(), tenants
    return seq, b"".join((head, *columns, text))


details_with_sharers: Final = partial(details_frame, with_sharers=True)


def _ages(t_alloc: NDArray[np.int64], ref: U4, now_ns: int) -> U4:
    """Hundredths of a second since each block was last allocated; not known where that is of a clock set back since."""
    ticks = np.clip((now_ns - t_alloc) // _NS_A_TICK, 0, AGE_MOST)
    unknown = (t_alloc == 0) | (t_alloc > now_ns + SET_BACK_NS) | (ref == UNKNOWN_U4)
    ages: U4 = np.where(unknown, AGE_UNKNOWN, ticks).astype("<u4")
    return ages


def _holders(ref: U4, blocks: U4, holders: U4) -> U4:
    """The one holder of each block, or why there is not one. blocks, holders: one entry a hold, sorted by block."""
    found: U4 = np.where(ref == 0, HOLDER_NOBODY, HOLDER_UNKNOWN).astype(np.uint32)
    found[blocks] = np.where(holders == ANONYMOUS, HOLDER_UNKNOWN, holders)
    again = np.flatnonzero((blocks[1:] == blocks[:-1]) & (holders[1:] != holders[:-1]))
    found[blocks[again]] = HOLDER_SEVERAL
    return found


def _names(names: Mapping[int, Name], holders: U4) -> dict[str, str]:
    """Ids of the holders that most blocks are held by alone."""
    ordinals, counts = np.unique(holders[holders < HOLDER_SETS], return_counts=True)
    return _of_most(names, ordinals, counts)


def _names_of_sharers(names: Mapping[int, Name], sharers: Sharers) -> dict[str, str]:
    """Ids of the holders that hold most blocks together with others."""
    blocks = np.bincount(sharers.of_set, minlength=len(sharers.sets))
    members = np.array([member for members in sharers.sets for member in members], np.uint32)
    ordinals, at = np.unique(members, return_inverse=True)
    counts = np.bincount(at, np.repeat(blocks, [len(members) for members in sharers.sets]), len(ordinals))
    return _of_most(names, ordinals, counts)


def _of_most(names: Mapping[int, Name], ordinals: U4, counts: NDArray[np.number]) -> dict[str, str]:
    most = ordinals[np.argsort(-counts, kind="stable")[:NAMES_TOLD]].tolist()
    return {str(ordinal): names[ordinal].id for ordinal in most if ordinal in names}
