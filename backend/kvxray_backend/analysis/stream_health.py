"""What the stream itself may suffer: gaps, restarts, silence, drops, nonsense, broken laws. Pure: facts in, findings
out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kvxray_engine.stream.block_map import Fault

from kvxray_backend.analysis.finding import Finding, Severity, Subjects
from kvxray_backend.sources.sequencer import Gap

STALE_AFTER_S: Final = 3.0
STALE_WHEN_OVER: Final = "The engine was not heard for {lasted}."
NO_ANSWER: Final = "The engine's replay address does not answer: blocks are unknown until their events tell."
NO_ADDRESS: Final = "The engine is followed without snapshots: blocks are unknown until their events tell."
NO_SNAPSHOT_WHEN_OVER: Final = "Blocks were unknown for {lasted}, until the engine gave a snapshot."
NO_SNAPSHOT_WHEN_ENGINE_ENDED: Final = "Blocks were unknown until the engine ended: it gave no snapshot."
STORAGE_WHEN_OVER: Final = "New events could not be stored for {lasted}."


@dataclass(frozen=True, slots=True)
class Place:
    """Where and when something is found: `seq` the last event applied, 0 before the first; `t_ns` the engine's time,
    ours before it has told any. `epoch` 0: none was joined yet.
    """

    source: str
    epoch: int
    seq: int
    t_ns: int

    def finding(self, kind: str, severity: Severity, sentence: str, *distinct: int, **more: Any) -> Finding:
        """A finding of this place. distinct: numbers that tell it from others of its kind in this epoch. more: further
        fields, in place of the defaults as well.
        """
        fields: dict[str, Any] = {"seq0": self.seq, "seq1": self.seq, "time_ns": self.t_ns}
        return Finding(
            id=":".join(str(part) for part in (kind, self.source, self.epoch, *distinct)),
            kind=kind,
            severity=severity,
            source=self.source,
            epoch=self.epoch,
            sentence=sentence,
            **(fields | more),
        )


def gap_finding(place: Place, gap: Gap) -> Finding:
    """Messages that are lost for good; open until a snapshot has made the state exact again."""
    messages = gap.wire_seq1 - gap.wire_seq0 + 1
    # A message may be without events: then the last one missing lies before the first.
    events = max(gap.seq1 - gap.seq0 + 1, 0) if gap.seq1 is not None else None
    told = f"{_count(messages, 'message')}" + (f" with {_count(events, 'event')}" if events is not None else "")
    return place.finding(
        "gap",
        "warning",
        f"{told[:1].upper()}{told[1:]} of the stream {'is' if messages == 1 else 'are'} missing.",
        gap.wire_seq0,
        seq0=gap.seq0,
        seq1=max(gap.seq1, gap.seq0) if gap.seq1 is not None else gap.seq0,
        numbers={"messages": messages, **({"events": events} if events is not None else {})},
    )


def no_snapshot_finding(place: Place, *, is_asked: bool) -> Finding:
    """An engine that was at work already is followed without its state; open until a snapshot comes.

    is_asked: it was asked for one, and did not answer.
    """
    return place.finding(
        "no_snapshot",
        "warning",
        NO_ANSWER if is_asked else NO_ADDRESS,
        sentence_when_over=NO_SNAPSHOT_WHEN_OVER,
        sentence_when_engine_ended=NO_SNAPSHOT_WHEN_ENGINE_ENDED,
    )


def restart_finding(place: Place, begun_ns: int) -> Finding:
    """A new life of the engine, first heard at `begun_ns`: a moment, not a state. It rests on the life's first event,
    whether that was told already or not.
    """
    return place.finding(
        "restart",
        "warning",
        f"The engine began anew: epoch {place.epoch} follows epoch {place.epoch - 1}.",
        seq0=0,
        seq1=0,
        time_ns=begun_ns,
    ).ended(begun_ns)


def stale_finding(place: Place, since_ns: int) -> Finding:
    """Nothing is heard, not even heartbeats. since_ns: by our clock, as the engine has none to go by."""
    return place.finding(
        "stale",
        "warning",
        "Nothing is heard from the engine; what is shown is its last known state.",
        since_ns // 1_000_000,
        time_ns=since_ns,
        sentence_when_over=STALE_WHEN_OVER,
    )


def storage_finding(place: Place, failure: str) -> Finding:
    """The event log cannot write: nothing acknowledged is lost, but history stands still. failure: its sentence."""
    return place.finding(
        "storage",
        "critical",
        f"New events are not being stored. {failure}",
        sentence_when_over=STORAGE_WHEN_OVER,
    )


def drops_finding(place: Place, drops: int) -> Finding:
    """The engine produced events faster than its publisher sent them."""
    return place.finding(
        "drops",
        "warning",
        f"The engine's recorder has dropped {_count(drops, 'message')}, so as not to slow the engine down.",
        numbers={"messages": drops},
    ).ended(place.t_ns)


def malformed_finding(place: Place, frames: int, reason: str) -> Finding:
    """Something else than messages arrives at the events socket."""
    return place.finding(
        "malformed",
        "warning",
        f"{_count(frames, 'frame')} could not be read and {'was' if frames == 1 else 'were'} skipped; "
        f"the last: {reason}",
        numbers={"frames": frames},
    ).ended(place.t_ns)


def fault_finding(place: Place, fault: Fault, who: str) -> Finding:
    """A law of blocks that the stream itself broke. who: the holder that let go, or got the block; empty: not known."""
    by, to = (f" by {who}", f" to {who}") if who else ("", "")
    digits = fault.block_hash.hex() if fault.block_hash else ""
    told = {
        "ref_underflow": f"Block {fault.block} was released once too often{by}."
        if who
        else f"The count of block {fault.block} fell below zero: a reference to it had been given back by another.",
        "double_free": f"Block {fault.block} was freed{by} while it was free.",
        "stale_hash": f"Block {fault.block} was given{to} while it was still cached"
        f"{f' under hash {digits[:16]}' if digits else ''}: prompts that hit it may read what is not theirs.",
    }
    return place.finding(
        fault.kind,
        "critical",
        told[fault.kind],
        fault.seq,
        fault.block,
        seq0=fault.seq,
        seq1=fault.seq,
        time_ns=fault.t_ns,
        subjects=Subjects(blocks=(fault.block,), requests=(who,) if who else (), hashes=(digits,) if digits else ()),
    ).ended(fault.t_ns)


def _count(n: int, word: str) -> str:
    return f"1 {word}" if n == 1 else f"{n:,} {word}s"
