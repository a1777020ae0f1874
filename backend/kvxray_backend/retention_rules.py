"""What the settings say of how much history is kept, as the event log takes it."""

from __future__ import annotations

from kvxray_storage.retention import OUTLIVES, Limits
from kvxray_storage.retention_keeper import Retention

from kvxray_backend.settings import Settings, SourceSpec


def retention_of(settings: Settings) -> Retention:
    everyone = Limits(settings.retention_age, settings.retention_size)
    return Retention(everyone, {spec.name: _own_limits(spec, settings) for spec in settings.sources})


def signal_age_s(settings: Settings) -> int | None:
    """How long what metrics told is kept: as long as other minutes are. None: for ever."""
    return settings.retention_age * OUTLIVES[60] if settings.retention_age is not None else None


def _own_limits(spec: SourceSpec, settings: Settings) -> Limits | None:
    """None: it says nothing of itself, and keeps what all do."""
    told = spec.model_fields_set & {"retention_age", "retention_size"}
    if not told:
        return None
    age = spec.retention_age if "retention_age" in told else settings.retention_age
    return Limits(age, spec.retention_size)
