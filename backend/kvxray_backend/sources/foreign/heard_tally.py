"""What was heard of each publisher, counted and said in plain words."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvxray_backend.quantities import counted
from kvxray_backend.sources.foreign.batch_steps import (
    Apply,
    Duplicate,
    GapOpened,
    GapRepaired,
    JoinedMidstream,
    Late,
    Restarted,
    Step,
)
from kvxray_backend.sources.foreign.ordered_stream import Delivery, Origin


@dataclass(slots=True)
class _Counts:
    num_batches: int = 0
    num_replayed: int = 0
    num_gaps: int = 0
    num_missing: int = 0
    num_repaired: int = 0
    num_restarts: int = 0
    num_duplicates: int = 0
    num_late: int = 0
    joined_at: list[int] = field(default_factory=list)


class HeardTally:
    """Counts steps as they come."""

    def __init__(self) -> None:
        self._of: dict[Origin, _Counts] = {}

    def note(self, origin: Origin, step: Step[Delivery]) -> bool:
        """Whether it is the first of its origin."""
        is_new = origin not in self._of
        counts = self._of.setdefault(origin, _Counts())
        match step:
            case Apply(_, delivery, _):
                counts.num_batches += 1
                counts.num_replayed += delivery.heard.is_replayed
            case GapOpened(first, last):
                counts.num_gaps += 1
                counts.num_missing += last - first + 1
            case GapRepaired(first, last):
                counts.num_repaired += last - first + 1
            case Restarted():
                counts.num_restarts += 1
            case Duplicate():
                counts.num_duplicates += 1
            case Late(_, is_placed):
                counts.num_late += not is_placed
            case JoinedMidstream(seq):
                counts.joined_at.append(seq)
        return is_new

    def sentences(self) -> list[str]:
        """One for each origin."""
        return [f"{named(origin)}: {_said(counts)}" for origin, counts in self._of.items()]


def named(origin: Origin) -> str:
    """Topic and rank; a topic is whatever its sender made it, so that it is quoted."""
    topic = origin.publisher.topic.decode(errors="backslashreplace")[:200]
    rank = "" if origin.rank is None else f", rank {origin.rank}"
    return f"{f'topic {topic!r}' if topic else 'no topic'}{rank}"


def batches(number: int) -> str:
    """`1 batch`, `1,234 batches`."""
    return f"{number:,} {'batch' if number == 1 else 'batches'}"


def _said(counts: _Counts) -> str:
    parts = [batches(counts.num_batches)]
    if counts.num_replayed:
        parts[0] += f" ({counts.num_replayed:,} of them by replay)"
    if counts.joined_at:
        parts.append(f"known from batch {counts.joined_at[-1]:,} on, since nothing earlier could be had")
    if counts.num_gaps:
        still = counts.num_missing - counts.num_repaired
        parts.append(f"{counted(counts.num_gaps, 'gap')}, {max(0, still):,} of {counts.num_missing:,} missing for good")
    else:
        parts.append("no gap")
    if counts.num_restarts:
        parts.append(f"the engine restarted {counted(counts.num_restarts, 'time')}")
    if counts.num_duplicates:
        parts.append(f"{counts.num_duplicates:,} came twice")
    if counts.num_late:
        parts.append(f"{counts.num_late:,} of an earlier life left out")
    return "; ".join(parts)
