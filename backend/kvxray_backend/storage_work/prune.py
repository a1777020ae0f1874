"""`kvxray storage prune`: what retention would do while kvxray serves, done now, or only told."""

from __future__ import annotations

import time
from typing import Any

import sqlalchemy as sa
from kvxray_storage import history
from kvxray_storage.database import Database
from kvxray_storage.pruner import Pruner
from kvxray_storage.retention import Limits
from kvxray_storage.retention_plan import Plan, limits_of_sources, make_plan
from kvxray_storage.storage_size import measure

from kvxray_backend.moments import iso_time
from kvxray_backend.quantities import age_text, size_text
from kvxray_backend.storage_work.opening import Claimed

MOST_ROUNDS = 1_000


def plan_of(database: Database, limits: Limits, source: str | None) -> Plan:
    """Nobody follows anything: epochs may go whole. source: only what is of it goes, and the limits are its own."""
    numbers = {one.source_id for one in history.sources(database) if one.name == source}
    only = None if source is None else dict.fromkeys(numbers, limits)
    everyone = limits if source is None else Limits()
    return make_plan(database, everyone, time.time_ns(), frozenset(), only=only)


def own_limits(database: Database, source: str, everyone: Limits) -> Limits:
    """What one source keeps of its events and keyframes, when nothing else is said."""
    [number] = [one.source_id for one in history.sources(database) if one.name == source]
    with database.reading() as connection:
        return limits_of_sources(connection).get(number, Limits(everyone.max_age_s))


def plan_lines(database: Database, plan: Plan, limits: Limits, source: str | None) -> list[str]:
    """What would go."""
    names = {source.source_id: source.name for source in history.sources(database)}
    lines = []
    for cut in sorted(plan.cuts, key=lambda cut: cut.edge.key):
        key, edge = cut.edge.key, cut.edge
        what = "all of it" if edge.wire_seq is None else f"before {key.epoch}.{edge.seq}, up to {iso_time(edge.t_ns)}"
        lines.append(
            f"{names[key.source_id]}, epoch {key.epoch}: {what}: {cut.num_events:,} events, "
            f"{size_text(cut.num_bytes)}, by {cut.reason}"
        )
    for key, seqs in sorted(plan.frames.items()):
        lines.append(f"{names[key.source_id]}, epoch {key.epoch}: {len(seqs):,} old keyframes")
    for old in plan.rollups:
        span = "seconds" if old.span == 1 else "minutes"
        lines.append(f"{names[old.source_id]}: rollups by {span} before {iso_time(old.before_s * 10**9)}")
    if plan.is_short:
        lines.append("the oldest rollups by the second: cutting events does not reach the limit of size")
    whose = "kept" if source is None else f"kept of {source}"
    kept = f"{whose}: events of {age_text(limits.max_age_s)}, {size_text(limits.max_bytes)} in all"
    return [*(lines or ["nothing to prune"]), kept]


def plan_as_json(database: Database, plan: Plan) -> dict[str, Any]:
    names = {source.source_id: source.name for source in history.sources(database)}
    return {
        "cuts": [
            {
                "source": names[cut.edge.key.source_id], "epoch": cut.edge.key.epoch, "before_seq": cut.edge.seq,
                "reason": cut.reason, "events": cut.num_events, "chunks": cut.num_chunks, "bytes": cut.num_bytes,
            }
            for cut in plan.cuts
        ],
        "keyframes": sum(map(len, plan.frames.values())),
        "rollups": bool(plan.rollups or plan.is_short),
    }  # fmt: skip


def prune(claimed: Claimed, limits: Limits, source: str | None) -> None:
    """Until nothing is left to do, or nothing more can be."""
    pruner = Pruner(claimed.database, claimed.run)
    for _ in range(MOST_ROUNDS):
        plan = plan_of(claimed.database, limits, source)
        before = measure(claimed.database).used
        pruner.carry_out(plan)
        if not plan.excess or measure(claimed.database).used >= before:
            return


def compact(database: Database) -> None:
    """Writes SQLite's file anew, without the room that is free in it; needs as much room beside it meanwhile."""
    raw = database.engine.raw_connection()
    try:
        cursor = raw.cursor()
        if database.url_scheme == "sqlite":
            cursor.execute("VACUUM")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        raw.close()
    if database.url_scheme == "postgresql":
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text("VACUUM"))
