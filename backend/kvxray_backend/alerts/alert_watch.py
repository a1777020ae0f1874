"""The thread that looks at all rules that are on over all engines, every few seconds: stores what becomes of alerts,
and has people told.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kvxray_storage.alerts import Wanted, alerts
from kvxray_storage.chunk import DamagedChunk
from kvxray_storage.database import OPENING_ERRORS

from kvxray_backend.alerts.alert import Alert
from kvxray_backend.alerts.alert_book import AlertBook, Change, Key, Now, Pending
from kvxray_backend.alerts.alert_keeper import AlertKeeper
from kvxray_backend.alerts.alert_rows import alert_of_row
from kvxray_backend.alerts.alert_state import AlertState
from kvxray_backend.alerts.live_evidence import LiveEvidence
from kvxray_backend.alerts.rule_book import KnownRule, RuleBook, on
from kvxray_backend.alerts.steady_time import SteadyTime
from kvxray_backend.alerts.teller import NobodyIsTold, Teller
from kvxray_backend.alerts.watched import Watched
from kvxray_backend.quantities import counted

if TYPE_CHECKING:
    from kvxray_backend.backend import Backend

LOOK_EVERY_S: Final = 5.0
ONE_PART_OF: Final = 10
"""Of the time at most so much goes into looking."""
LONGEST_PAUSE_S: Final = 60.0
"""Even after a look that took long, since a machine may be busy with something else for a moment."""
MAX_TAKEN_OVER: Final = 10_000
CLOSE_WAIT_S: Final = 2.0
"""For what is being stored: what is not is found anew after a restart, and people are told of it anew."""

logger = logging.getLogger(__name__)


class AlertWatch:
    """From `start` to `close`. What it says of now is of the last look, and may be asked from any thread."""

    def __init__(
        self, backend: Backend, rules: RuleBook, teller: Teller | None = None, look_every_s: float = LOOK_EVERY_S
    ) -> None:
        self.rule_book = rules
        self.teller: Teller = teller or NobodyIsTold()
        self.num_looks, self.looked_s = 0, 0.0
        self.looked_at_ns: int | None = None
        self._backend = backend
        self._every_s = look_every_s
        self._evidence = LiveEvidence(backend, backend.recent_findings)
        self._keeper = AlertKeeper(backend.log, backend.database.place)
        self._book = AlertBook(lambda: uuid.uuid4().hex, self._stumbled)
        self._time = SteadyTime(backend.clock.wall_ns, time.monotonic)
        self._problems: dict[Key, str] = {}
        self._logged: dict[Key, str] = {}
        self._has_taken_over = False
        self._active: tuple[Alert, ...] = ()
        self._pending: tuple[Pending, ...] = ()
        self._states: dict[Key, AlertState] = {}
        self._watched: tuple[Watched, ...] = ()
        self._looking = threading.Lock()
        self._has_to_end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kvxray-alerts", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._has_to_end.set()
        if self._thread.is_alive():
            self._thread.join()
        self._keeper.close(CLOSE_WAIT_S)

    def active(self) -> list[Alert]:
        """Those that fire, the gravest first, then the newest."""
        return [*self._active]

    def pending(self) -> list[Pending]:
        return [*self._pending]

    def rules(self) -> dict[str, KnownRule]:
        return self.rule_book.all

    def watched(self) -> Sequence[Watched]:
        """The engines of the last look."""
        return self._watched

    def state_of(self, rule: str, engine: str) -> AlertState | None:
        """None: that rule is not looked at for that engine."""
        return self._states.get((rule, engine))

    def unknown_since_ns(self, alert: Alert) -> int | None:
        """Since when nobody can tell whether it goes on; None: it is known."""
        state = self._states.get((alert.rule, alert.engine))
        if state is None or state.unknown_since_s is None or alert.state == "over":
            return None
        return self._time.wall_ns_of(state.unknown_since_s)

    def unstored(self) -> list[Alert]:
        """Those that the database may not tell yet as they are."""
        return self._keeper.unstored

    @property
    def not_stored(self) -> str:
        """How many alerts, and why, where the database refuses them; empty: it does not."""
        num, why = len(self._keeper.unstored), self._keeper.trouble
        return f"{counted(num, 'alert')} not stored yet: {why[:1].lower()}{why[1:]}" if num and why else ""

    @property
    def problems(self) -> list[str]:
        """What is wrong with rules, a sentence each."""
        return [*self.rule_book.problems, *self._problems.values()]

    def look(self) -> None:
        """Looks once, now."""
        with self._looking:
            began_s = time.monotonic()
            self._look()
            self.num_looks += 1
            self.looked_s += time.monotonic() - began_s

    def _run(self) -> None:
        wait_s = 0.0
        while not self._has_to_end.wait(wait_s):
            began_s = time.monotonic()
            try:
                self.look()
            except Exception:
                logger.exception("Looking at the rules stumbled; it goes on.")
            wait_s = max(self._every_s, min(ONE_PART_OF * (time.monotonic() - began_s), LONGEST_PAUSE_S))

    def _look(self) -> None:
        self.rule_book.look()
        rules = on(self.rule_book.all.values())
        now = self._time.now()
        if not self._has_taken_over:
            self._take_over(now)
        self._problems = {}
        engines = self._evidence.now(tuple(rules.values()), self._stumbled)
        if now is not None and self._has_taken_over:
            for change in self._book.look(rules, engines, now):
                self._tell(change)
        self._keeper.try_again()
        self._publish(engines)
        self.teller.firing(self._active)

    def _take_over(self, now: Now | None) -> None:
        """What fired when we were stopped. While the database does not tell, nobody knows what fires already, and
        telling all of it again would be worse than telling it late.
        """
        if now is None:
            return
        try:
            self.rule_book.read()
            self._evidence.read_findings()
            rows = alerts(self._backend.database, Wanted("firing"), MAX_TAKEN_OVER)
        except OPENING_ERRORS as error:
            logger.warning("Which alerts fire already is not known yet: %s", error)
            return
        known = list[Alert]()
        for row in rows:
            try:
                known.append(alert_of_row(row))
            except DamagedChunk as error:
                logger.error("%s", error)
        rules = on(self.rule_book.all.values())
        self._has_taken_over = True
        for change in self._book.take_over(known, rules, now):
            self._tell(change)

    def _tell(self, change: Change) -> None:
        alert = change.alert
        if change.kind == "changed":
            self._keeper.keep(alert, [])
            return
        logger.info("%s %s for %s: %s", alert.rule, _WORDS[change.kind], alert.engine, alert.culprit or alert.sentence)
        stored = self._keeper.keep(alert, [*self.teller.rows_for(alert, change.kind)])
        self.teller.take(alert, change.kind, stored)

    def _publish(self, engines: Sequence[Watched]) -> None:
        firing = self._book.firing.values()
        self._active = tuple(sorted(firing, key=lambda one: (_GRAVEST_FIRST.index(one.severity), -one.fired_ns)))
        self._pending = tuple(self._book.pending())
        self._states = self._book.states()
        self._watched = tuple(engines)
        self.looked_at_ns = self._backend.clock.wall_ns()

    def _stumbled(self, rule: str, engine: str, error: Exception) -> None:
        """rule empty: all of that engine."""
        what = f"{rule} of {engine}" if rule else engine
        told = f"{what} could not be looked at: {type(error).__name__}: {error}"[:500]
        if self._logged.get((rule, engine)) != told:
            self._logged[rule, engine] = told
            logger.error("%s", told, exc_info=error)
        self._problems[rule, engine] = told


_WORDS: Final = {"fired": "fires", "over": "is over"}
_GRAVEST_FIRST: Final = ("critical", "warning", "info")
