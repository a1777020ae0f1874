"""Requests that are preempted again and again and come no further: each time the engine computes them anew, and throws
it away. Fed with events in order; knows no clock.

Being preempted is healthy under load (measured: 1,464 of 19,801 requests, once or twice); not to get a single token
done between three preemptions is not.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.columns import Columns, kind_table
from kvxray_engine.stream.event_times import timing_of
from kvxray_engine.stream.request_table import RequestTable
from kvxray_engine.stream.schema import ENDED_STATUSES, NO_ORDINAL, Kind

from kvxray_backend.analysis.finding import Finding, Subjects
from kvxray_backend.analysis.stream_health import Place

LOOP_FROM: Final = 3
MAX_FOLLOWED: Final = 10_000
"""Requests; those preempted first are forgotten first."""
MAX_BENEFICIARIES: Final = 8

_PREEMPTED: Final = int(Kind.RequestPreempted)
_ENDS: Final = frozenset({Kind.RequestFinished, Kind.RequestAborted, Kind.RequestFailed})
_MATTERS: Final = kind_table(frozenset({Kind.RequestPreempted, Kind.TokensGenerated, *_ENDS}))


@dataclass(slots=True)
class Streak:
    """Preemptions of one request since it last got a token done. recomputed: tokens that had to be computed anew, as
    far as the engine tells. beneficiaries: ordinals of the requests that got its blocks, with how often.
    """

    seq0: int
    since_ns: int
    seq1: int = 0
    times: int = 0
    recomputed: int = 0
    beneficiaries: Counter[int] = field(default_factory=Counter)


class PreemptionStreaks:
    """Of one epoch. Invariant: it follows at most `MAX_FOLLOWED` requests, each preempted at least once."""

    def __init__(self) -> None:
        self._streaks: dict[int, Streak] = {}

    def forget(self) -> None:
        """Another life of the engine, or events are missing: nobody knows what came between."""
        self._streaks = {}

    def note(self, message: Message) -> None:
        """What the events of a message tell; costs next to nothing while nothing is preempted."""
        columns = message.columns
        is_preempted = columns.kind == _PREEMPTED
        if not self._streaks and not is_preempted.any():
            return
        followed = np.fromiter(self._streaks, np.uint32, len(self._streaks))
        theirs = np.isin(columns.req, np.concatenate([followed, columns.req[is_preempted]]))
        at = np.flatnonzero(_MATTERS[columns.kind] & theirs & (columns.req != NO_ORDINAL))
        if not len(at):
            return
        times = timing_of(message).times
        events = columns.events_by_operation()
        seqs = message.header.seq0 + np.cumsum(events) - events
        for row in at.tolist():
            self._take(columns, row, int(seqs[row]), int(times[row]))

    def loops(self) -> dict[int, Streak]:
        """By ordinal of the request."""
        return {request: streak for request, streak in self._streaks.items() if streak.times >= LOOP_FROM}

    def check_integrity(self) -> None:
        """Asserts the invariant."""
        assert len(self._streaks) <= MAX_FOLLOWED, "too many requests are followed"
        assert all(streak.times > 0 for streak in self._streaks.values()), "a streak without a preemption"

    def _take(self, columns: Columns, row: int, seq: int, t_ns: int) -> None:
        request, kind = int(columns.req[row]), int(columns.kind[row])
        if kind == _PREEMPTED:
            self._preempted(request, int(columns.a0[row]), int(columns.a1[row]), seq, t_ns)
        elif kind in _ENDS or columns.a0[row]:
            self._streaks.pop(request, None)

    def _preempted(self, request: int, recomputed: int, beneficiary: int, seq: int, t_ns: int) -> None:
        if request not in self._streaks and len(self._streaks) >= MAX_FOLLOWED:
            del self._streaks[next(iter(self._streaks))]
        streak = self._streaks.setdefault(request, Streak(seq, t_ns))
        streak.seq1 = seq
        streak.times += 1
        streak.recomputed += recomputed
        is_new = beneficiary not in streak.beneficiaries
        if beneficiary not in (NO_ORDINAL, request) and not (is_new and len(streak.beneficiaries) >= MAX_BENEFICIARIES):
            streak.beneficiaries[beneficiary] += 1


def loop_findings(place: Place, requests: RequestTable, loops: dict[int, Streak]) -> list[Finding]:
    """One for each request that goes round in circles at this moment."""
    return [
        _loop_finding(place, requests, ordinal, streak)
        for ordinal, streak in loops.items()
        if _is_there(requests, ordinal)
    ]


def _is_there(requests: RequestTable, ordinal: int) -> bool:
    view = requests.get(ordinal)
    return view is not None and view.status not in ENDED_STATUSES


def _loop_finding(place: Place, requests: RequestTable, ordinal: int, streak: Streak) -> Finding:
    who = _name(requests, ordinal)
    again = f" {streak.recomputed:,} tokens had to be computed anew." if streak.recomputed else ""
    most = streak.beneficiaries.most_common(1)
    for_whom = f" Most often its blocks went to request {_name(requests, most[0][0])}." if most else ""
    escaped = who.replace("{", "{{").replace("}", "}}")
    return place.finding(
        "preemption_loop",
        "warning",
        f"Request {who} was preempted {streak.times:,} times in a row without a single token in between."
        f"{again}{for_whom}",
        ordinal,
        seq0=streak.seq0,
        seq1=streak.seq1,
        time_ns=streak.since_ns,
        subjects=Subjects(requests=(who, *(_name(requests, other) for other in streak.beneficiaries))),
        numbers={"preemptions": streak.times, "recomputed_tokens": streak.recomputed},
        mark=f"Request {who} is preempted without coming any further.",
        sentence_when_over=f"Request {escaped} was preempted again and again without a token for {{lasted}}.",
        sentence_when_engine_ended=f"Request {escaped} was preempted again and again until the engine ended.",
    )


def _name(requests: RequestTable, ordinal: int) -> str:
    name = requests.names.get(ordinal)
    return name.id if name is not None else f"#{ordinal}"
