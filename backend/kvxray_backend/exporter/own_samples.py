"""Samples of how kvxray itself is: version, viewers, the event log."""

from __future__ import annotations

import platform
from importlib import metadata

from kvxray_engine.server.prometheus_text import LabelText
from kvxray_storage.storage_size import measure
from sqlalchemy.exc import SQLAlchemyError

from kvxray_backend.backend import Backend
from kvxray_backend.exporter.samples import Samples


def add_kvxray(samples: Samples, backend: Backend) -> None:
    build = LabelText().plus(version=metadata.version("kvxray"), python=platform.python_version())
    samples.add("kvxray_build_info", 1, build)
    samples.add("kvxray_uptime_seconds", round(backend.uptime_s, 3))
    samples.add("kvxray_viewers", backend.num_viewers)
    stats = backend.log.stats()
    samples.add("kvxray_storage_up", float(not backend.log.failed))
    samples.add("kvxray_storage_queue_bytes", stats.queue_bytes)
    samples.add("kvxray_storage_events", stats.stored_events)
    samples.add("kvxray_storage_chunks", stats.chunks)
    samples.add("kvxray_storage_dropped_total", stats.dropped)
    samples.add("kvxray_storage_limit_bytes", backend.settings.retention_size)


def used_bytes(backend: Backend) -> int | None:
    """None while the database cannot be read. A server counts for a while: ask it rarely."""
    try:
        return measure(backend.database).used
    except SQLAlchemyError:
        return None
