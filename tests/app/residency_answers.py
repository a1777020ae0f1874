"""What the backend says of an engine that tells of hashes, as far as tests of the page need it."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from kvxray_app.components.residency_words import residency_words

from tests.app.scripted_backend import ScriptedBackend, component_data, figure

ROOT, NOT_HERE, UNKNOWN_TIME = 2**32 - 1, 2**32 - 2, 2**32 - 1
GROUPS = [{"kind": "full_attention", "window": 0}, {"kind": "sliding_window", "window": 128}]
MEDIA = [{"name": "", "tier": "GPU", "num_blocks": None}, {"name": "cpu", "tier": "CPU", "num_blocks": 4000}]


@dataclass(frozen=True, slots=True)
class Cell:
    """A hash in a place. `parent`: its position among the cells; `age` and `idle` in hundredths of a second."""

    ordinal: int
    parent: int = ROOT
    place: int = 0
    certainty: int = 2
    flags: int = 0
    age: int = 500
    idle: int = 500
    reuses: int = 0
    depth: int = 0


def residency_frame(cells: Iterable[Cell], *, epoch: int = 1, total: int | None = None) -> bytes:
    """As `/api/residency/map` lays cells out."""
    told = list(cells)
    roots = sum(cell.parent >= NOT_HERE for cell in told)
    head = struct.pack("<4sBBHIIIId", b"KVXC", 1, 0, 0, epoch, len(told), total or len(told), roots, 1_767_225_600.0)
    columns = {
        "ordinal": "<u4", "parent": "<u4", "place": "<u2", "certainty": "u1", "flags": "u1",
        "age": "<u4", "idle": "<u4", "reuses": "<u2", "depth": "<u2",
    }  # fmt: skip
    return head + b"".join(
        np.array([getattr(cell, name) for cell in told], dtype).tobytes() for name, dtype in columns.items()
    )


def forest() -> list[Cell]:
    """Two prompts that share two blocks and then part (3 and 4), one of a single block, and one that nobody reaches."""
    return [
        Cell(1),
        Cell(2, 0, depth=1, reuses=3),
        Cell(3, 1, depth=2),
        Cell(4, 1, depth=2, age=UNKNOWN_TIME, certainty=1),
        Cell(5, place=256),
        Cell(6, NOT_HERE, depth=2, flags=1, place=1),
    ]


def summary(**changed: Any) -> dict[str, Any]:
    """As `/api/residency` tells of an engine whose metrics are read too."""
    figures = {
        "cached_blocks": figure(5, "blocks"), "cached_elsewhere_blocks": figure(1, "blocks"),
        "maybe_blocks": figure(1, "blocks", "derived"), "cached_tokens": figure(80, "tokens"),
        "usage": figure(0.0, "ratio"), "capacity_blocks": figure(23, "blocks"), "hit_rate": figure(None, "ratio"),
        "reuses_per_s": figure(None, "per_second", "not_observable"), "stores_per_s": figure(0.4, "per_second"),
        "evictions_per_s": figure(0.0, "per_second"), "lifetime_p50_s": figure(None, "seconds"),
        "age_p50_s": figure(5.0, "seconds"), "idle_p50_s": figure(5.0, "seconds", "derived"),
        "chains": figure(3, "references"), "longest_chain": figure(3, "blocks"),
        "running": figure(None, "requests", "not_observable"), "waiting": figure(None, "requests", "not_observable"),
    }  # fmt: skip
    return {
        "source": "demo", "engine": "demo", "make": "vllm", "kind": "hashes", "at": "live", "epoch": 1,
        "time": "2026-01-01T00:02:00.000Z", "seq": "1.100", "state": "connected", "since": "2026-01-01T00:00:00.000Z",
        "known_since": "1.0", "trouble": "", "gaps": 0, "late": 0, "bad_messages": 0,
        "metrics": {"state": "reading", "sentence": "Read every 5 s.", "last": "2026-01-01T00:02:00.000Z"},
        "descriptor": {"groups": GROUPS, "media": MEDIA, "block_sizes": [16], "model": "tiny"},
        "places": [place(0, "", "GPU", 0, copies=4, maybe=1), place(256, "cpu", "CPU", 0, copies=1)],
        "figures": figures, "explanations": [], "findings": [], "num_findings": 0, **changed,
    }  # fmt: skip


def place(number: int, medium: str, tier: str, group: int, copies: int, maybe: int = 0) -> dict[str, Any]:
    return {
        "place": number, "medium": medium, "tier": tier, "group": group, "kind": GROUPS[group]["kind"],
        "block_size": 16, "copies": figure(copies, "blocks"), "hashes": figure(copies, "blocks"),
        "certain": copies - maybe, "maybe": maybe, "reachable": figure(copies, "blocks"),
        "unreachable": figure(0, "blocks"), "capacity": figure(None, "blocks", "not_observable"),
    }  # fmt: skip


def hash_view(ordinal: int, **changed: Any) -> dict[str, Any]:
    """One hash in full; its bytes are its ordinal."""
    here = {
        "place": 0, "medium": "", "tier": "GPU", "group": 0, "kind": "full_attention", "copies": 1,
        "certainty": "certain", "block_size": 16, "first": "2026-01-01T00:00:01.000Z",
        "last": "2026-01-01T00:00:02.000Z", "stores": 2, "removals": 1, "reuses": 0,
    }  # fmt: skip
    return {
        "source": "demo", "hash": hex_of(ordinal), "ordinal": ordinal, "copies": 1, "certainty": "certain",
        "places": [here], "parent": None, "is_root": True, "children": [], "num_children": 0, "chain_length": 1,
        "session": "", "lora": "", "salt": "", "findings": [], "history": [], **changed,
    }  # fmt: skip


def link(ordinal: int, is_here: bool = True) -> dict[str, Any]:
    return {"hash": hex_of(ordinal), "ordinal": ordinal, "is_here": is_here}


def hex_of(ordinal: int) -> str:
    return f"{ordinal:064x}"


def event(number: int, kind: str = "ResidencyStored", **changed: Any) -> dict[str, Any]:
    return {
        "seq": f"1.{number}", "time": "2026-01-01T00:00:01.000Z", "step": 0, "kind": kind, "cause": "store",
        "request_id": None, "block_id": None, "value": None, "a0": 0, "a1": 0, "hash": hex_of(number), "parent": None,
        "medium": "GPU", "group": 0, **changed,
    }  # fmt: skip


def coverage(*panels: tuple[str, str, str, str], taints: tuple[str, ...] = ()) -> dict[str, Any]:
    """Panels as (key, label, certainty, why); `taints` are of the first."""
    told = [
        {"panel": key, "label": label, "certainty": certainty, "why": why, "taints": [] if at else list(taints)}
        for at, (key, label, certainty, why) in enumerate(panels)
    ]
    return {"source": "demo", "panels": told}


EXPLANATION = {
    "panel": "used",
    "sentence": "0 % of the cache is in use while 22 of 23 blocks are cached: in use are blocks that requests hold.",
}


def found(name: str, severity: str = "warning", seq1: int = 52) -> dict[str, Any]:
    """An open finding."""
    return {
        "id": name, "kind": "seq_gap", "severity": severity, "sentence": "12 batches were lost.", "epoch": 1,
        "seq0": 40, "seq1": seq1, "time": "2026-01-01T00:01:00.000Z", "subjects": {"blocks": [], "requests": []},
    }  # fmt: skip


COVERAGE = coverage(
    ("cached_set", "Cached prefixes", "exact", "Its events tell every block that is stored or removed."),
    ("usage", "Cache in use", "exact", "Its metrics tell it."),
    ("hit_rate", "Hit rate", "derived", "Computed from counters of its metrics."),
    ("block_map", "Block map by id", "not_observable", "Its events tell of hashes, not of blocks."),
)


def tell(backend: ScriptedBackend, cells: Iterable[Cell], **changed: Any) -> None:
    """Let a backend answer as of an engine with these cells."""
    backend.answers |= {
        "residency": summary(**changed),
        "residency/map": residency_frame(cells),
        "coverage": COVERAGE,
        "events": {"events": [event(1), event(2), event(3, "ResidencyRemoved", cause="remove")], "next": None},
        "findings": {"findings": [], "total": 0},
    }


def screen_data(kind: str = "hashes", **more: Any) -> dict[str, Any]:
    """What Python hands to the component."""
    return component_data(kind=kind, home=None, residency=residency_words(), **more)
