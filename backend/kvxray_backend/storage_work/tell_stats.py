"""What `kvxray storage stats` prints."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kvxray_storage.storage_stats import DatabaseStats, EpochStats

from kvxray_backend.moments import iso_time, iso_time_or_none
from kvxray_backend.quantities import counted, size_text


def stats_as_json(stats: DatabaseStats) -> dict[str, Any]:
    """Times as ISO-8601."""
    values = asdict(stats)
    values["epochs"] = [_epoch_json(epoch) for epoch in stats.epochs]
    return values


def stats_as_text(stats: DatabaseStats) -> str:
    events, chunks = (sum(getattr(one, name) for one in stats.epochs) for name in ("events", "chunks"))
    lines = [
        f"{stats.place}: {size_text(stats.used_bytes)} in use, {size_text(stats.on_disk_bytes)} on disk",
        f"{counted(events, 'event')} in {counted(chunks, 'chunk')}; "
        f"{counted(stats.findings, 'finding')}, {counted(stats.bookmarks, 'bookmark')}",
    ]
    for epoch in stats.epochs:
        lines += ["", *_epoch_lines(epoch)]
    return "\n".join(lines) + "\n"


def _epoch_json(epoch: EpochStats) -> dict[str, Any]:
    values = asdict(epoch)
    for name in ("started", "ended", "first", "last"):
        values[f"{name}_at"] = iso_time_or_none(values.pop(f"{name}_ns"))
    return {**values, "bytes_per_event": epoch.bytes_per_event}


def _epoch_lines(epoch: EpochStats) -> list[str]:
    ended = f"ended {iso_time(epoch.ended_ns)}" if epoch.ended_ns is not None else "not ended"
    lines = [f"{epoch.source}, epoch {epoch.epoch}: started {iso_time(epoch.started_ns)}, {ended}"]
    if epoch.is_unfinished:
        lines.append("  unfinished import: import its file again")
    if epoch.events:
        each = f"{epoch.bytes_per_event:.1f} bytes each"
        lines.append(
            f"  events    {epoch.events:,} ({epoch.epoch}.{epoch.first_seq} to {epoch.epoch}.{epoch.last_seq}), {each}"
        )
        lines.append(f"  time      {iso_time(epoch.first_ns or 0)} to {iso_time(epoch.last_ns or 0)}")
    else:
        lines.append("  events    none")
    if epoch.pruned_events:
        lines.append(f"  pruned    {counted(epoch.pruned_events, 'earlier event')}")
    lines.append(f"  chunks    {epoch.chunks:,}, {size_text(epoch.chunk_bytes)}")
    lines.append(f"  keyframes {epoch.keyframes:,}, {size_text(epoch.keyframe_bytes)}")
    lines.append(f"  rollups   {counted(epoch.rollup_seconds, 'second')}, {counted(epoch.rollup_minutes, 'minute')}")
    lines.append(f"  names     {epoch.names:,}; gaps {epoch.gaps:,}")
    return lines
