"""What the stream of a foreign engine suffers: gaps, batches twice or late, restarts, silence, unknown events. Pure.

Numbers of batches are the engine's own; `seq` of a finding is that of the first event a batch can have.
"""

from __future__ import annotations

from typing import Final, Literal

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.stream_health import Place
from kvxray_backend.quantities import counted
from kvxray_backend.sources.foreign.batch_steps import Duplicate, GapOpened, JoinedMidstream, Late, Restarted
from kvxray_backend.sources.foreign.told import Cleared, Oddities, Stored, Told

STALE_AFTER_S: Final = 60.0
"""Engines tell of a step's changes with the step, so one that computes is hardly ever silent for as long."""
_MAX_NAMED: Final = 3

Work = Literal["works", "idle", "sleeps"]
"""What metrics show an engine to do. One that sleeps may have given its cache away without a word."""


def seq_gap_finding(place: Place, gap: GapOpened) -> Finding:
    """Batches that did not come; open until all of them came after all."""
    num = gap.last - gap.first + 1
    which = f"Batch {gap.first:,} is" if num == 1 else f"Batches {gap.first:,} to {gap.last:,} are"
    return place.finding(
        "seq_gap",
        "warning",
        f"{which} missing: what {'it' if num == 1 else 'they'} told is not known, so hashes may be there or gone "
        f"without a word.",
        gap.first,
        numbers={"first": gap.first, "last": gap.last, "batches": num},
        sentence_when_over=f"{which.removesuffix(' is').removesuffix(' are')} came {{lasted}} late.",
    )


def duplicate_batch_finding(place: Place, step: Duplicate) -> Finding:
    sentence = f"Batch {step.seq:,} came twice and was applied once."
    return _moment(place, place.finding("duplicate_batch", "info", sentence, step.seq, numbers={"batch": step.seq}))


def late_batch_finding(place: Place, step: Late) -> Finding:
    if step.is_placed:
        sentence = f"Batch {step.seq:,} came after later ones had been applied: until then its events were missing."
    else:
        sentence = f"Batch {step.seq:,} of an earlier life of the engine came late and was left out."
    return _moment(place, place.finding("late_batch", "info", sentence, step.seq, numbers={"batch": step.seq}))


def engine_restart_finding(place: Place, step: Restarted) -> Finding:
    """`place`: in the new epoch."""
    after = "" if step.last_seq is None else f" after {step.last_seq:,}"
    sentence = f"The engine began anew: batch {step.seq:,}{after} is of another life, and what was cached is gone."
    return _moment(place, place.finding("engine_restart", "warning", sentence, numbers={"batch": step.seq}))


def joined_midstream_finding(place: Place, step: JoinedMidstream) -> Finding:
    """Open for the whole epoch: nothing on this wire tells what was there before."""
    return place.finding(
        "joined_midstream",
        "info",
        f"Batch {step.seq:,} is the first that could be had: what was cached before it is not known.",
        numbers={"batch": step.seq},
    )


def stale_stream_finding(place: Place, since_ns: int, now_ns: int, *, work: Work | None) -> Finding:
    """since_ns: when the last batch came. work: what metrics show; None: not known. A silent engine that works is an
    alarm, any other is information. One that idles is silent by design and has no such finding.
    """
    assert work != "idle", "an engine without work has nothing to tell"
    silent_s = (now_ns - since_ns) / 1e9
    severity = "warning" if work == "works" else "info"
    why = {
        "works": ", though its metrics show work, so that its events do not reach us",
        "sleeps": ", and the engine sleeps: it tells of nothing, not even of a reset, before its next step",
    }.get(work or "", "; whether the engine works is not known")
    return place.finding(
        "stale_stream",
        severity,  # type: ignore[arg-type]
        f"No batch came for {silent_s:,.0f} s{why}: what is shown is as of the last one.",
        since_ns // 1_000_000,
        time_ns=since_ns,
        numbers={"silent_s": silent_s},
        certainty="derived" if work is None else "exact",
        sentence_when_over="No batch came for {lasted}.",
    )


def late_reset_finding(place: Place, silent_s: float, *, is_behind: bool) -> Finding:
    """A reset that was told long after it happened. is_behind: its batch came after later ones; else it came first
    after a silence of `silent_s`.
    """
    if is_behind:
        sentence = "A reset of the cache came after later batches: what had not changed since was cleared then."
    else:
        sentence = (
            f"The first batch after {silent_s:,.0f} s of silence tells of a reset, which may have been at any moment "
            f"of it: until then the cache was shown as it had been."
        )
    numbers = {} if is_behind else {"silent_s": silent_s}
    return _moment(place, place.finding("late_reset", "info", sentence, place.seq, numbers=numbers))


def begins_with_a_reset(events: tuple[Told, ...]) -> bool:
    """Whether a medium is cleared before anything is stored."""
    for event in events:
        if isinstance(event, Cleared):
            return True
        if isinstance(event, Stored):
            return False
    return False


def unknown_or_partial_event_finding(place: Place, oddities: Oddities, reason: str = "") -> Finding | None:
    """Events that were left out; None where all were understood. Fields that are not known do no harm and are only
    counted. reason: a sentence, where a whole batch was left out.
    """
    kinds = list(oddities.unknown_events)
    num_unknown, num_bad = sum(oddities.unknown_events.values()), oddities.bad_events
    if not (num_unknown or num_bad or reason):
        return None
    parts = []
    if num_unknown:
        more = " and others" if len(kinds) > _MAX_NAMED else ""
        named = ", ".join(repr(kind) for kind in kinds[:_MAX_NAMED])
        parts.append(f"{counted(num_unknown, 'event')} of a kind that is not known ({named}{more})")
    if num_bad:
        parts.append(f"{counted(num_bad, 'event')} that could not be read")
    told = " and ".join(parts)
    sentence = reason or f"Left out of a batch: {told}."
    lost = "warning" if num_bad or reason else "info"
    finding = place.finding(
        "unknown_or_partial_event",
        lost,  # type: ignore[arg-type]
        sentence,
        place.seq,
        numbers={"unknown": num_unknown, "unreadable": num_bad},
    )
    return _moment(place, finding)


def _moment(place: Place, finding: Finding) -> Finding:
    """What happened, and is not a state that goes on."""
    return finding.ended(place.t_ns)
