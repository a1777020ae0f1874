"""What the page says about states, figures, certainty and events: one wording for tiles, tooltips, legend and guide.

Meanings follow the definitions of block states and figures in `docs/`; this file knows no colours and no numbers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

STATES: dict[str, str] = {
    "unknown": "Not known yet: before the first snapshot, or after a gap until events or a snapshot tell.",
    "empty": "Never written since this engine started.",
    "free": "Nobody holds it and it keeps nothing worth reusing.",
    "cached": "Nobody holds it, but a later prompt with the same prefix can reuse it. Not waste, not a leak.",
    "active": "Held by one request.",
    "shared": "Held by two or more at once: memory that prefix caching saved.",
}

LEAKED = "Still held for a request that ended more than 3 seconds and 2 steps ago. A verdict, not a state."

CERTAINTIES: dict[str, str] = {
    "exact": "Exact: counted from the engine's own events, none missing.",
    "derived": "Derived: computed from other figures, not counted event by event.",
    "not_observable": "Not observable: this source does not tell.",
}

HEALTH: dict[str, str] = {
    "gaps": "Gaps: stretches of messages that never arrived, even after asking the engine to replay them.",
    "drops": "Drops: messages the engine could not hand over because its queue was full.",
    "bad": "Bad messages: frames that could not be read. They are counted and skipped.",
    "lag": "Lag: from the moment something happens in the engine to the moment the backend has it.",
    "event": "Event: the newest one that the page shows, written EPOCH.EVENT as in links and in the history.",
    "epoch": "Epoch: one life of the engine. A restart begins a new one; earlier ones stay in the history.",
    "times": "Times: the time zone of every time of day on these pages, which is your browser's.",
}


@dataclass(frozen=True, slots=True)
class FigureWords:
    """How one figure is presented.

    key: its name in `/api/state`. no_data: why it may have no value, idle: the same in a few words. window_s: of how
    many seconds it is, 0 = of this moment. second: key of a figure shown small beside it, with its label. wide: the
    tile takes two places. alarm: any value above zero is bad news.
    """

    key: str
    label: str
    meaning: str
    no_data: str
    idle: str
    window_s: int = 0
    second: str | None = None
    second_label: str = ""
    wide: bool = False
    alarm: bool = False


FIGURES: tuple[FigureWords, ...] = (
    FigureWords(
        "used",
        "Cache in use",
        "Blocks held by at least one request (active and shared), of all blocks that can hold tokens.",
        "The state of the pool is not known yet.",
        "not known yet",
        wide=True,
    ),
    FigureWords(
        "cached",
        "Cached",
        "Full blocks that nobody holds but a later prompt can reuse. They make room whenever it is needed.",
        "The state of the pool is not known yet.",
        "not known yet",
    ),
    FigureWords(
        "shared",
        "Shared",
        "Blocks held by two or more requests at once.",
        "The state of the pool is not known yet.",
        "not known yet",
    ),
    FigureWords(
        "hit_rate",
        "Prefix hit rate",
        "Prompt tokens found in the prefix cache, of those looked up in the last 60 seconds.",
        "No prompt was looked up in the last 60 seconds.",
        "no prompt",
        window_s=60,
    ),
    FigureWords(
        "evictions_per_s",
        "Evictions",
        "Cached blocks given up for new ones, each second, over the last 10 seconds.",
        "No events in the last 10 seconds.",
        "no events",
        window_s=10,
        second="allocations_per_s",
        second_label="allocated",
    ),
    FigureWords(
        "internal_fragmentation",
        "Fragmentation",
        "Internal fragmentation: slots not written yet, of all slots in blocks that somebody holds.",
        "No block is held.",
        "no block is held",
    ),
    FigureWords(
        "leaked",
        "Leaked",
        "Blocks still held for a request that ended more than 3 seconds and 2 steps ago.",
        "Holders are not known, so leaks cannot be told.",
        "holders not known",
        second="leaked_only",
        second_label="held by nobody living",
        alarm=True,
    ),
    FigureWords(
        "ttft_p50_s",
        "Median time to first token",
        "Half of the recent requests had their first token within this time after arriving.",
        "No request has had its first token yet.",
        "no request yet",
        second="tokens_per_s",
        second_label="generated",
    ),
    FigureWords(
        "running",
        "Running",
        "Requests being computed now. Waiting: not scheduled yet, they wait for a place in the batch, for the step's "
        "token budget, or for blocks.",
        "The engine has not said which requests run.",
        "not known yet",
        second="waiting",
        second_label="waiting",
    ),
)


def tiles() -> list[dict[str, Any]]:
    """The figures as the tile component takes them."""
    return [asdict(figure) for figure in FIGURES]


def glossary() -> dict[str, Any]:
    """Words every component may show in a tooltip."""
    return {"states": STATES, "leaked": LEAKED, "certainties": CERTAINTIES, "health": HEALTH}
