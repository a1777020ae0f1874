"""Blocks that requests of two tenants hold at once though both told a salt, which is to part what they share. Pure.

Salts promise that no two of them share a block. Who tells none promises nothing, so tenants without salts share on
purpose, as requests and sessions of one tenant do. Adapters are no tenants: what two of them share is not judged here.
A block that one gave back before the other took it is not seen: who held it before is not in the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.columns import U4
from kvxray_engine.stream.schema import Name
from numpy.typing import NDArray

from kvxray_backend.analysis.finding import MAX_SUBJECTS, Finding, Subjects
from kvxray_backend.analysis.leaks import name_of
from kvxray_backend.analysis.stream_health import Place
from kvxray_backend.block_sharers import held_by_several
from kvxray_backend.quantities import counted

_DIGITS: Final = 16
"""Of a digest, in a sentence."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """`blocks`: each once. `holders`: those with a salt that hold them. `salts`: theirs, in order."""

    blocks: U4
    holders: U4
    salts: tuple[str, ...]


def cross_tenant_finding(place: Place, block_map: BlockMap) -> Finding | None:
    """Open while there is any such block."""
    crossing = find_crossing(block_map)
    if crossing is None:
        return None
    num, requests = len(crossing.blocks), dict.fromkeys(name_of(block_map, int(one)) for one in crossing.holders)
    first, second = (salt[:_DIGITS] for salt in crossing.salts[:2])
    more = f" and {len(crossing.salts) - 2:,} more" if len(crossing.salts) > 2 else ""
    what = counted(num, "block")
    return place.finding(
        "cross_tenant_prefix",
        "critical",
        f"{what} {'is' if num == 1 else 'are'} held at once by requests whose salts differ ({first}, {second}{more}): "
        "one tenant reads what another computed.",
        subjects=Subjects(
            blocks=tuple(crossing.blocks[:MAX_SUBJECTS].tolist()),
            requests=tuple(requests)[:MAX_SUBJECTS],
            hashes=_hashes(block_map, crossing.blocks[:MAX_SUBJECTS].tolist()),
        ),
        numbers={"blocks": num, "requests": len(requests), "salts": len(crossing.salts)},
        mark="Requests whose salts differ hold the same blocks from now on.",
        sentence_when_over=f"{what} {'was' if num == 1 else 'were'} held at once by requests whose salts differ, for "
        "{lasted}.",
        sentence_when_engine_ended=f"{what} {'was' if num == 1 else 'were'} held at once by requests whose salts "
        "differ, until the engine ended.",
    )


def find_crossing(block_map: BlockMap) -> Crossing | None:
    """At this moment. Costs nothing but a look at the names where fewer than two salts are told, else one pass over the
    holds; the rest is done for blocks of several holders.
    """
    names = block_map.requests.names
    if not block_map.holders_known or len({name.salt for name in names.values()} - {""}) < 2:
        return None
    blocks, holders = held_by_several(*block_map.holds())
    ordinals, at = np.unique(holders, return_inverse=True)
    owners = [_salted(names, ordinal) for ordinal in ordinals.tolist()]
    counts = np.array([bool(name.salt) for name in owners], bool)[at] & (blocks != block_map.descriptor.null_block)
    blocks, holders, at = blocks[counts], holders[counts], at[counts]
    if not len(blocks):
        return None
    firsts = np.flatnonzero(np.append(True, blocks[1:] != blocks[:-1]))
    # Of holders of a block, two that differ in both exist if and only if they differ in each.
    crosses = _differ([name.salt for name in owners], at, firsts) & _differ([_party(one) for one in owners], at, firsts)
    if not crosses.any():
        return None
    theirs = np.repeat(crosses, np.diff(firsts, append=len(blocks)))
    salts = sorted({owners[one].salt for one in np.unique(at[theirs]).tolist()})
    return Crossing(blocks[firsts[crosses]], np.unique(holders[theirs]), tuple(salts))


def _salted(names: Mapping[int, Name], holder: int) -> Name:
    """Who tells the salt of a holder: a sequence's is its request's."""
    name = names.get(holder, _NOBODY)
    return names.get(name.parent, name) if not name.salt and name.parent >= 0 else name


def _party(name: Name) -> tuple[str, str]:
    """Whose it is: one tenant may have several salts."""
    return ("tenant", name.tenant) if name.tenant else ("salt", name.salt)


def _differ(
    told: list[str] | list[tuple[str, str]], at: NDArray[np.intp], firsts: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """Of each block, whether its holders tell different things. at: of each hold, whose it is."""
    places = {one: place for place, one in enumerate(dict.fromkeys(told))}
    codes = np.array([places[one] for one in told], np.int64)[at]
    found: NDArray[np.bool_] = np.minimum.reduceat(codes, firsts) != np.maximum.reduceat(codes, firsts)
    return found


def _hashes(block_map: BlockMap, blocks: list[int]) -> tuple[str, ...]:
    told = (block_map.hash_bytes(int(block_map.hash_ordinal[block])) for block in blocks)
    return tuple(dict.fromkeys(data.hex() for data in told if data is not None))


_NOBODY: Final = Name("")
