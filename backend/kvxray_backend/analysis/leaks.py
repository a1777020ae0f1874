"""Leaks: holds whose holder is over. Pure: the folded state and the engine's own time go in, leaks come out.

A hold leaks when its request (of a sequence: the request it belongs to) has finished, been aborted or failed longer ago
than the grace, 3 seconds and 2 steps, because the step that ends a request may be told before the release; or when it
is a lease past its deadline. An engine with nothing left to do takes no more steps, so then time alone decides. A block
that also has a living holder stays shared and carries one leaked hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.request_table import RequestView
from kvxray_engine.stream.schema import RequestStatus
from numpy.typing import NDArray

from kvxray_backend.analysis.finding import MAX_SUBJECTS, Finding, Subjects

GRACE_NS: Final = 3_000_000_000
GRACE_STEPS: Final = 2

_ENDED_AS: Final = {
    RequestStatus.finished: "finished",
    RequestStatus.aborted: "aborted",
    RequestStatus.failed: "failed",
}

U4 = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class EngineTime:
    """What the engine said last: its wall clock, its step, and whether no request is left to work on."""

    t_ns: int
    step: int
    is_idle: bool


@dataclass(frozen=True, slots=True)
class Leak:
    """What one holder keeps after its end. `blocks`: ids, each once. `why`: finished, aborted, failed or expired."""

    holder: int
    request_id: str
    why: str
    ended_ns: int
    blocks: U4

    def finding(self, source: str, epoch: int, seq: int, now_ns: int) -> Finding:
        return Finding(
            id=f"leak:{source}:{epoch}:{self.holder}",
            kind="leak",
            severity="critical",
            source=source,
            epoch=epoch,
            seq0=seq,
            seq1=seq,
            time_ns=now_ns,
            subjects=Subjects(
                blocks=tuple(int(block) for block in self.blocks[:MAX_SUBJECTS]), requests=(self.request_id,)
            ),
            numbers={"blocks": len(self.blocks), "ended_s_ago": round((now_ns - self.ended_ns) / 1e9, 3)},
            sentence=self.sentence(now_ns),
            sentence_when_over=self.sentence_when_over(),
        )

    def sentence(self, now_ns: int) -> str:
        ago = f"{max(now_ns - self.ended_ns, 0) / 1e9:.0f} s ago"
        return f"{self._who} {ago}, still holds {self._what}."

    def sentence_when_over(self) -> str:
        """For when the blocks have been given back; braces in the id must not be taken for a place to fill."""
        who = self._who.replace("{", "{{").replace("}", "}}")
        return f"{who}, held {self._what} after its end; released {{lasted}} after it was noticed."

    @property
    def _who(self) -> str:
        kind = "Lease" if self.why == "expired" else "Request"
        return f"{kind} {self.request_id}, {self.why}"

    @property
    def _what(self) -> str:
        return "1 block" if len(self.blocks) == 1 else f"{len(self.blocks):,} blocks"


def find_leaks(block_map: BlockMap, now: EngineTime) -> list[Leak]:
    """All leaks at this moment, in order of holder. Costs one pass over the holds."""
    blocks, holders = block_map.holds()
    if not len(blocks):
        return []
    suspects = np.array(_suspects(block_map, holders), np.uint32)
    theirs = np.isin(holders, suspects)
    blocks, holders = blocks[theirs], holders[theirs]
    leaks = []
    for holder in suspects.tolist():
        end = _end_of(block_map, holder, now)
        if end is not None:
            why, ended_ns = end
            held = np.unique(blocks[holders == holder])
            leaks.append(Leak(holder, _name_of(block_map, holder), why, ended_ns, held))
    return leaks


def _suspects(block_map: BlockMap, holders: U4) -> list[int]:
    """Holders that have ended, or that are not requests and so must be looked at one by one."""
    distinct = np.unique(holders)
    ended = block_map.requests.ended(distinct)
    others = [int(holder) for holder in distinct[~ended] if _is_no_request(block_map, int(holder))]
    return sorted([*(int(holder) for holder in distinct[ended]), *others])


def _is_no_request(block_map: BlockMap, holder: int) -> bool:
    name = block_map.requests.names.get(holder)
    return name is not None and (name.kind != "request" or name.deadline > 0)


def _end_of(block_map: BlockMap, holder: int, now: EngineTime) -> tuple[str, int] | None:
    """Why and when this holder's right to its blocks ended; None while it has it, or within the grace."""
    name = block_map.requests.names.get(holder)
    if name is not None and name.deadline > 0:
        return ("expired", name.deadline) if now.t_ns > name.deadline + GRACE_NS else None
    request = block_map.requests.get(holder)
    if name is not None and name.parent >= 0 and (request is None or not request.is_ended):
        request = block_map.requests.get(name.parent)
    if request is None or not request.is_ended or not _is_past_grace(request, now):
        return None
    return _ENDED_AS[request.status], request.ended_ns


def _is_past_grace(request: RequestView, now: EngineTime) -> bool:
    if now.t_ns - request.ended_ns <= GRACE_NS:
        return False
    return now.is_idle or now.step - request.ended_step >= GRACE_STEPS


def _name_of(block_map: BlockMap, holder: int) -> str:
    name = block_map.requests.names.get(holder)
    return name.id if name is not None else f"#{holder}"
