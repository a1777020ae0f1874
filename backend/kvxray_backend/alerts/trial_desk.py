"""Tries rules on what is stored: one at a time and for a bounded time, since a watched engine is worth more."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final

from kvxray_engine.errors import UserError
from kvxray_storage.database import Database

from kvxray_backend.alert_types import TrialView
from kvxray_backend.alerts.past_engines import KnownEngine, Read, past_engines, stored_signals
from kvxray_backend.alerts.rule import Rule
from kvxray_backend.alerts.trial import TooMuch, tried
from kvxray_backend.alerts.trial_view import trial_view
from kvxray_backend.moments import Moment
from kvxray_backend.quantities import parse_age
from kvxray_backend.signal_history import Timed

LONGEST_S: Final = 15 * 86_400
MAX_SECONDS: Final = 30.0


class Busy(UserError):
    """Another trial is under way."""


class TrialDesk:
    """Safe to call from any thread."""

    def __init__(self, database: Database, read: Read | None = None, max_seconds: float = MAX_SECONDS) -> None:
        """read: what metrics told, where that is known better than the database knows it."""
        self._database = database
        self._read = read
        self._max_seconds = max_seconds
        self._trying = threading.Lock()

    def run(
        self, rule: Rule, from_ns: int, to_ns: int, *, engine: str = "", known: Mapping[str, KnownEngine] | None = None
    ) -> TrialView:
        """engine: only this one; empty: all. Raises `Busy`, `TooMuch`, and `UserError` for a stretch that is none."""
        if not 0 < to_ns - from_ns <= LONGEST_S * 1_000_000_000:
            raise UserError(f"Try a stretch that ends after it begins, and of {LONGEST_S // 86_400} days at most.")
        if not self._trying.acquire(blocking=False):
            raise Busy("Another rule is being tried: try again when it is done.")
        try:
            until_s = time.monotonic() + self._max_seconds
            engines = past_engines(
                self._database, rule, from_ns, to_ns, only=engine, known=known, read=self._bounded(until_s)
            )
            trial = tried(rule, engines, from_ns, to_ns, lambda: _rests(until_s))
            return trial_view(trial, engines)
        finally:
            self._trying.release()

    def _bounded(self, until_s: float) -> Read:
        read = self._read or stored_signals(self._database)

        def reading(name: str, from_s: float, to_s: float, only: Sequence[str]) -> Sequence[Timed]:
            if time.monotonic() > until_s:
                raise TooMuch("It takes too long: try fewer days, or one engine.")
            return read(name, from_s, to_s, only)

        return reading


def _rests(until_s: float) -> bool:
    """Whether there is time left; others get theirs meanwhile."""
    time.sleep(0)
    return time.monotonic() < until_s


def when_ns(text: str, now_ns: int) -> int:
    """`now`, an age such as 7d, or an ISO-8601 time, as wall ns. Raises `UserError`."""
    if text == "now":
        return now_ns
    try:
        age_s = parse_age(text)
    except ValueError:
        age_s = None
    if age_s is not None:
        return now_ns - age_s * 1_000_000_000
    try:
        t_ns = Moment.parse(text).t_ns
    except UserError:
        t_ns = None
    if t_ns is None:
        raise UserError(f"Write a time as now, 7d, or an ISO-8601 time, not {text[:40]!r}.")
    return t_ns
