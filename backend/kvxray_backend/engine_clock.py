"""What time it is for the engine, whose clock may be set back: the newest it has told since then.

An age is this time minus the event's. What happened before the clock was set back may so lie ahead of now, and how old
it is cannot be said then.
"""

from __future__ import annotations

from typing import Final

SET_BACK_NS: Final = 1_000_000_000
"""A step's results count from its end, so that times cross by a hair; a clock that goes back by more was set back."""


class EngineClock:
    """Invariant: `now_ns` is 0, or was told by an event or a heartbeat."""

    def __init__(self, heard_ns: int = 0) -> None:
        self.now_ns = heard_ns
        self._event_ns = 0

    def tell_event(self, t_ns: int) -> None:
        """The time of an event, in the order they happened: maybe long ago, while the past is caught up with."""
        is_set_back = t_ns < self._event_ns - SET_BACK_NS
        self._event_ns = t_ns
        self.now_ns = t_ns if is_set_back else max(self.now_ns, t_ns)

    def tell_heartbeat(self, t_ns: int) -> None:
        """The time of a heartbeat, which is never of the past: one that lies far behind tells a clock set back."""
        self.now_ns = t_ns if t_ns < self.now_ns - SET_BACK_NS else max(self.now_ns, t_ns)


def age_s(now_ns: int, t_ns: int) -> float | None:
    """Seconds since an event; None where its time is not known (0), or is of a clock that was set back since."""
    if not t_ns or t_ns > now_ns + SET_BACK_NS:
        return None
    return max(now_ns - t_ns, 0) / 1e9
