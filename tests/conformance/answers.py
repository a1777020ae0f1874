"""What the product says after a case, under the words that cases use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.metrics.hit_rates import hit_rate
from kvxray_backend.metrics.signals import SIGNALS
from kvxray_backend.sources.foreign.followed_source import FollowedSource
from kvxray_engine.stream.columns import U4
from kvxray_engine.stream.residency_descriptor import place_of
from kvxray_engine.stream.residency_state import Certainty
from kvxray_engine.stream.schema import BlockState

from tests.conformance.case import NotBuilt
from tests.conformance.engine_steps import BlockEngine
from tests.conformance.hashes import of_bytes, of_hex
from tests.conformance.world import World

SETTINGS = {"note", "medium", "group_idx", "capacity"}
"""Not asked for: remarks, and what the case is run with."""
_CONFIDENCES = ("exact", "degraded", "stale")


def answer(world: World, key: str) -> Any:
    """Raises NotBuilt for what nothing here answers yet."""
    asked = _ANSWERS.get(key)
    if asked is None:
        raise NotBuilt(f"the answer to {key}")
    return asked(world)


def codes(finding: Finding) -> list[str]:
    """`kind:argument`, as cases name a finding; one for each block or hash that it is about."""
    hashes, blocks = finding.subjects.hashes, finding.subjects.blocks
    if blocks:
        return [f"{finding.kind}:{block}" for block in blocks]
    return [f"{finding.kind}:{of_hex(digits)}" for digits in hashes] if hashes else [_code(finding)]


def _code(finding: Finding) -> str:
    numbers = {name: f"{value:.0f}" for name, value in finding.numbers.items()}
    told = {
        "seq_gap": "{first}-{last}",
        "duplicate_batch": "{batch}",
        "late_batch": "{batch}",
        "joined_midstream": "{batch}",
        "resident_over_capacity": "{resident}>{capacity}",
        "block_size_changed": "{before}->{after}",
        "sparse_group": "{group}",
    }
    argument = told.get(finding.kind, "").format(**numbers)
    if finding.kind in ("metrics_contradiction", "conservation_violation", "hit_rate_suspect", "config"):
        argument = finding.id.rpartition(":")[2]
    if finding.kind == "preemption_loop":
        argument = finding.subjects.requests[0]
    if finding.subjects.sources:
        argument = ",".join(finding.subjects.sources)
    return f"{finding.kind}:{argument}" if argument else finding.kind


def _group(world: World) -> int:
    return int(world.case.setting("group_idx", 0))


def _medium(world: World) -> str:
    return str(world.case.setting("medium", "GPU"))


def _places(source: FollowedSource) -> Iterator[tuple[str, int, int]]:
    """Medium, group and place of everything described."""
    descriptor = source.fold.descriptor
    for medium, pool in enumerate(descriptor.pools):
        for group in range(len(descriptor.groups)):
            yield pool.name.upper(), group, place_of(group, medium)


def _hashes(source: FollowedSource, ordinals: U4) -> list[str]:
    found = [source.fold.hash_bytes(ordinal) for ordinal in ordinals.tolist()]
    return [of_bytes(data) for data in found if data is not None]


def _residents(world: World, medium: str, group: int, wanted: Certainty) -> list[str]:
    found: set[str] = set()
    for source in world.sources:
        for told, number, place in _places(source):
            if (told, number) == (medium.upper(), group):
                ordinals = source.fold.residents(place)
                is_wanted = source.fold.certainty_of(ordinals, place) == wanted
                found.update(_hashes(source, ordinals[is_wanted]))
    return sorted(found)


def _certain(world: World) -> list[str]:
    return _residents(world, _medium(world), _group(world), Certainty.certain)


def _maybe(world: World) -> list[str]:
    return _residents(world, _medium(world), _group(world), Certainty.maybe)


def _split(world: World, keys: set[str], of_key: Callable[[str], tuple[str, int]]) -> dict[str, list[str]]:
    found = {key: _residents(world, *of_key(key), Certainty.certain) for key in keys}
    return {key: hashes for key, hashes in found.items() if hashes}


def _by_medium(world: World) -> dict[str, list[str]]:
    media = {medium for source in world.sources for medium, _, _ in _places(source)}
    return _split(world, media, lambda medium: (medium, _group(world)))


def _by_group(world: World) -> dict[str, list[str]]:
    groups = {str(group) for source in world.sources for _, group, _ in _places(source)}
    return _split(world, groups, lambda group: (_medium(world), int(group)))


def _reachable(world: World) -> list[str]:
    found: set[str] = set()
    for source in world.sources:
        for medium, group, place in _places(source):
            if (medium, group) == (_medium(world).upper(), _group(world)):
                found.update(_hashes(source, source.fold.reachable(place)))
    return sorted(found)


def _reuses(world: World) -> dict[str, int]:
    found: Counter[str] = Counter()
    for source in world.sources:
        entries = source.fold.entries
        for row in np.flatnonzero(entries["reuses"] > 0).tolist():
            ordinal = int(entries.index.keys_by_row()[row]) >> 16
            data = source.fold.hash_bytes(ordinal)
            if data is not None:
                found[of_bytes(data)] += int(entries["reuses"][row])
    return dict(found)


def _confidence(world: World) -> str:
    return max((source.confidence for source in world.sources), key=_CONFIDENCES.index, default="exact")


def _block_sizes(world: World) -> int | None:
    if world.blocks is not None:
        return int(world.case.setting("block_size", 16))
    return next((source.fold.descriptor.block_size for source in world.sources), None)


def _diagnosis(world: World) -> str | None:
    pages = world.session.pages(world.engine_name)
    if pages is None:
        return None
    kinds = {group.kind for source in world.sources for group in source.fold.descriptor.groups if group.kind}
    size = max((source.fold.descriptor.block_size for source in world.sources), default=0)
    return next((reason.code for reason in pages.reasons(size, kinds)), None)


def _hit_rate(world: World) -> float | None:
    pages = world.session.pages(world.engine_name)
    found = hit_rate(pages.book, "prefix", None) if pages is not None else None
    return found.value if found is not None else None


def _values(world: World) -> list[float]:
    pages, series = world.session.pages(world.engine_name), world.case.expect.get("series", "kv_usage")
    if pages is None or series not in SIGNALS or SIGNALS[series].kind != "gauge":
        return []
    return [value for _, value in pages.book.course(series)]


def _series(world: World) -> str | None:
    series = world.case.expect["series"]
    return series if _values(world) else None


def _is_nonnegative(world: World) -> bool | None:
    """Of every counter that was told twice; None where none was."""
    pages = world.session.pages(world.engine_name)
    if pages is None:
        return None
    counters = [name for name, signal in SIGNALS.items() if signal.kind == "counter"]
    rates = [rate for name in counters if (rate := pages.book.rate(name, 600.0)) is not None]
    return all(rate >= 0 for rate in rates) if rates else None


def _rejects(world: World) -> bool:
    kinds = {finding.kind for finding in world.findings()}
    return "unknown_or_partial_event" in kinds or not all(world.accepted)


def _is_shared(world: World) -> str:
    names = {step["src"] for step in world.case.steps if "src" in step}
    return "shared_seq" if any(map(world.session.shares_numbers, names)) else "seq_by_rank"


def _of_blocks(asked: Callable[[BlockEngine], Any]) -> Callable[[World], Any]:
    return lambda world: asked(world.blocks) if world.blocks is not None else None


def _owner(engine: BlockEngine) -> Any:
    """Who holds what is leaked: one by its name, several as a list."""
    owners = sorted({leak.request_id for leak in engine.leaks})
    return owners[0] if len(owners) == 1 else owners


def _how_owners_ended(engine: BlockEngine) -> Any:
    ends = sorted({leak.why for leak in engine.leaks})
    return ends[0] if len(ends) == 1 else ends


def _references(world: World) -> dict[str, int] | None:
    if world.blocks is None:
        return None
    ref = world.blocks.block_map.ref
    return {block: int(ref[int(block)]) for block in world.case.expect["ref"] if int(block) < len(ref)}


_ANSWERS: dict[str, Callable[[World], Any]] = {
    "findings": lambda world: sorted({code for finding in world.findings() for code in codes(finding)}),
    "resident": _certain,
    "resident_certain": _certain,
    "resident_maybe": _maybe,
    "resident_count": lambda world: len(_certain(world)),
    "resident_by_medium": _by_medium,
    "resident_by_group": _by_group,
    "reachable": _reachable,
    "reuses": _reuses,
    "readmissions": lambda world: sum(source.readmissions.num for source in world.sources),
    "confidence": _confidence,
    "mode": _is_shared,
    "diagnosis": _diagnosis,
    "hit_rate": _hit_rate,
    "series": _series,
    "values": _values,
    "rate_nonneg": _is_nonnegative,
    "internal_frag": _of_blocks(lambda engine: engine.figure("internal_fragmentation")),
    "used": _of_blocks(lambda engine: len(engine.blocks_in(BlockState.active, BlockState.shared))),
    "leaked": _of_blocks(lambda engine: engine.leaked()),
    "leaked_pins": _of_blocks(lambda engine: engine.leaked("pin")),
    "owner": _of_blocks(_owner),
    "state": _of_blocks(_how_owners_ended),
    "evictable": _of_blocks(lambda engine: engine.blocks_in(BlockState.cached)),
    "free_count_delta": _of_blocks(lambda engine: engine.free_count_delta()),
    "ref": _references,
    "block_size": _block_sizes,
    "equal": lambda world: world.equal,
    "both_accepted": lambda world: bool(world.accepted) and all(world.accepted),
    "rejects_loudly": _rejects,
    "engine_blocked": lambda world: world.engine_blocked,
    # What crashes ends the run of its case before anything is asked.
    "crash": lambda world: False,
}
