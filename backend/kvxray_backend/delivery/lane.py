"""What waits for one target, in order: what goes out next, together, and what becomes of it. Pure: its owner brings the
time, the lock and the post.

A POST that may have arrived is repeated as it was, under the same id, until somebody answers; one that surely did not
arrive is taken apart, so that what came meanwhile goes with it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from kvxray_storage.outbox import NEVER_NS, Notification, in_order

from kvxray_backend.alert_types import TargetView
from kvxray_backend.alerts.alert import Alert
from kvxray_backend.delivery.notice import Notice, delivery_id
from kvxray_backend.delivery.outcome import LONGEST_WAIT_S, Accepted, Failed, Outcome, Refused
from kvxray_backend.delivery.target import Target
from kvxray_backend.moments import iso_time_or_none

SECOND_NS: Final = 1_000_000_000
GROUP_WAIT_NS: Final = 2 * SECOND_NS
STORED_WAIT_NS: Final = 3 * SECOND_NS
MAX_TOGETHER: Final = {"alertmanager": 250, "webhook": 50}
"""In one POST. An Alertmanager takes what comes; of a webhook nobody knows what it can take, and Slack shows 50."""
MAX_WAITING: Final = 2_000
FIRST_BACKOFF_S: Final = 1.0
LONGEST_BACKOFF_S: Final = 300.0
GIVEN_UP_AFTER_NS: Final = 3 * 86_400 * SECOND_NS
TRIES_AT_WRONG_PLACE: Final = 20

Muted = Callable[[Alert], bool]
T = TypeVar("T")


class Lane:
    """Invariant: what is `begun` is settled before anything else is; an `over` never goes before the `fired` of its
    alert. `is_full`: what came later waits in the database alone, and nothing is taken until that was read.
    """

    def __init__(self, target: Target, chance: Callable[[], float] = random.random) -> None:
        self.target = target
        self.is_full = False
        self.num_delivered = self.num_failed = 0
        self._chance = chance
        self._waiting: dict[str, Notice] = {}
        self._stored_by_ns: dict[str, int] = {}
        # Left to the database and not stored there yet; and whether one was, or became so, since it was read last.
        self._left: set[str] = set()
        self._has_left = False
        self._begun: tuple[str, ...] = ()
        # Deliveries of which a try may have arrived: later tries that surely did not change nothing about that.
        self._doubtful: set[str] = set()
        self._num_failures = 0
        self._next_try_ns = 0
        self._error = ""
        self._last_delivered_ns: int | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def _together_at_most(self) -> int:
        return MAX_TOGETHER[self.target.kind]

    def put(self, notice: Notice, stored_by_ns: int = 0) -> bool:
        """False: it is full. stored_by_ns: it goes when it is `stored`, or then."""
        if self.is_full or len(self._waiting) >= MAX_WAITING:
            self.is_full = self._has_left = True
            if stored_by_ns:
                self._left.add(notice.row.id)
            return False
        if notice.row.id not in self._waiting and notice.row.waits:
            self._waiting[notice.row.id] = notice
            if stored_by_ns:
                self._stored_by_ns[notice.row.id] = stored_by_ns
        return True

    def begin_reading(self) -> None:
        """What is left to the database from now on may not be among what is read."""
        self._has_left = False

    def put_stored(self, notices: Iterable[Notice], *, has_more: bool = False) -> None:
        """What was read from the database takes its place before what came since."""
        self.is_full = has_more or self._has_left or bool(self._left)
        known = self._waiting
        notices = list(notices)
        self._doubtful.update(one.row.delivery for one in notices if one.row.delivery)
        self._waiting = {one.row.id: known.get(one.row.id, one) for one in notices}
        self._waiting |= {name: notice for name, notice in known.items() if name not in self._waiting}

    def stored(self, ids: Iterable[str]) -> None:
        for name in ids:
            self._stored_by_ns.pop(name, None)
            if name in self._left:
                self._left.discard(name)
                self._has_left = True

    def rows_of(self, alert_id: str) -> list[Notification]:
        return [notice.row for notice in self._waiting.values() if notice.row.alert_id == alert_id]

    def drop_muted(self, muted: Muted) -> list[Notification]:
        """Alerts that were over before anybody was told, while muted: nobody is to be told any more."""
        held = {one.row.alert_id: one for one in self._waiting.values() if self._is_held(one, muted)}
        over = [one for one in self._waiting.values() if one.row.kind == "over" and one.row.alert_id in held]
        pairs = [notice for one in over for notice in (held[one.row.alert_id], one)]
        return [self._give_up(notice, "Muted until it was over.") for notice in pairs]

    def begin(self, now_ns: int, muted: Muted) -> list[Notice]:
        """What goes out now, together; empty: nothing. It is under way until `settle`."""
        if self._begun or self.waits_until_ns(now_ns) > now_ns:
            return []
        chosen = self._under_way() or self._together(now_ns, muted)
        name = delivery_id([notice.row.id for notice in chosen])
        for notice in chosen:
            row = replace(notice.row, attempts=notice.row.attempts + 1, delivery=notice.row.delivery or name)
            self._waiting[row.id] = replace(notice, row=row)
        self._begun = tuple(notice.row.id for notice in chosen)
        return [self._waiting[name] for name in self._begun]

    def settle(self, outcome: Outcome, now_ns: int) -> list[Notification]:
        """Rows as they are now, to be kept."""
        begun, self._begun = [self._waiting[name] for name in self._begun], ()
        self.note(outcome, now_ns)
        changed = self._settled(begun, outcome, now_ns)
        self._doubtful &= {one.row.delivery for one in self._waiting.values()}
        return changed

    def note(self, outcome: Outcome, now_ns: int) -> None:
        """How the target is, by what became of a POST."""
        if isinstance(outcome, Accepted):
            self._num_failures, self._next_try_ns, self._error = 0, 0, ""
            self._last_delivered_ns = now_ns
            return
        self._error = outcome.why
        self.num_failed += 1
        if isinstance(outcome, Failed):
            self._num_failures += 1
            self._next_try_ns = now_ns + int(SECOND_NS * self._backoff_s(outcome))

    def waits_until_ns(self, now_ns: int) -> int:
        """When the target may be asked again; a clock that was set back does not make it wait longer."""
        is_sound = self._next_try_ns - now_ns <= (LONGEST_WAIT_S + LONGEST_BACKOFF_S) * SECOND_NS
        return self._next_try_ns if is_sound else now_ns

    def is_next_known(self, now_ns: int) -> bool:
        """Whether time alone brings something to do."""
        return bool(self._waiting) or self.waits_until_ns(now_ns) > now_ns

    def view(self, now_ns: int) -> TargetView:
        is_unused = self._last_delivered_ns is None and not self._error
        waits = bool(self._waiting) and self.waits_until_ns(now_ns) > now_ns
        return TargetView(
            name=self.target.name,
            kind=self.target.kind,
            address=self.target.address,
            state="unused" if is_unused else "failing" if self._error else "ok",
            waiting=len(self._waiting),
            error=self._error,
            last_delivered=iso_time_or_none(self._last_delivered_ns),
            next_try=iso_time_or_none(self._next_try_ns) if waits else None,
        )

    def check_integrity(self) -> None:
        """Asserts what must hold at any moment."""
        assert len(self._begun) <= self._together_at_most, "too many are under way together"
        assert set(self._begun) <= set(self._waiting), "what is under way was forgotten"
        over_at: dict[str, int] = {}
        for place, notice in enumerate(self._waiting.values()):
            assert notice.row.waits, f"{notice.row.id} waits for nothing"
            assert notice.row.kind == "over" or notice.row.alert_id not in over_at, "an end stands before its beginning"
            if notice.row.kind == "over":
                over_at[notice.row.alert_id] = place

    def _settled(self, begun: list[Notice], outcome: Outcome, now_ns: int) -> list[Notification]:
        if isinstance(outcome, Accepted):
            return [self._delivered(notice, now_ns) for notice in begun]
        if isinstance(outcome, Refused):
            if len(begun) == 1:
                return [self._give_up(begun[0], outcome.why)]
            # One of them spoils it for the others.
            self._next_try_ns = now_ns
            return [row for part in halves(begun) for row in self._apart(part, outcome.why)]
        if outcome.may_have_arrived:
            self._doubtful.update(notice.row.delivery for notice in begun)
        return [self._put_off(notice, outcome, now_ns) for notice in begun]

    def _under_way(self) -> list[Notice]:
        """The oldest that were sent together and may have arrived, or were taken apart; none of their ends goes before
        its beginning.
        """
        sent = [one for one in self._waiting.values() if one.row.delivery]
        fired_with = {one.row.alert_id: one.row.delivery for one in sent if one.row.kind == "fired"}
        early = {
            one.row.delivery for one in sent if fired_with.get(one.row.alert_id, one.row.delivery) != one.row.delivery
        }
        name = next((one.row.delivery for one in sent if one.row.delivery not in early), "")
        return self._in_order([one for one in sent if one.row.delivery == name])

    def _together(self, now_ns: int, muted: Muted) -> list[Notice]:
        held: set[str] = set()
        ready: list[Notice] = []
        for notice in self._waiting.values():
            is_stored = self._stored_by_ns.get(notice.row.id, 0) <= now_ns
            if not is_stored or notice.row.alert_id in held or self._is_held(notice, muted):
                held.add(notice.row.alert_id)
            else:
                ready.append(notice)
        wait_ns = GROUP_WAIT_NS if self.target.kind == "webhook" else 0
        if ready and 0 <= now_ns - min(one.row.created_ns for one in ready) < wait_ns:
            return []
        return self._in_order(ready[: self._together_at_most])

    def _in_order(self, notices: list[Notice]) -> list[Notice]:
        """As the database has them: the body of a delivery is the same after a restart."""
        return [self._waiting[row.id] for row in in_order([notice.row for notice in notices])]

    def _is_held(self, notice: Notice, muted: Muted) -> bool:
        """What is under way, and the end of what was told, are told all the same: nobody is left with half a story."""
        return notice.row.kind == "fired" and not notice.row.delivery and muted(notice.alert)

    def _backoff_s(self, outcome: Failed) -> float:
        longest_s = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(self._num_failures - 1, 20))
        # From half of it on: what failed together comes back spread out, and never at once.
        return max(longest_s * (0.5 + self._chance() / 2), outcome.retry_after_s)

    def _put_off(self, notice: Notice, outcome: Failed, now_ns: int) -> Notification:
        row = notice.row
        if now_ns - row.created_ns > GIVEN_UP_AFTER_NS:
            return self._give_up(notice, f"Given up after 3 days. {outcome.why}")
        if outcome.is_wrong_place and row.attempts >= TRIES_AT_WRONG_PLACE:
            return self._give_up(notice, f"Given up after {row.attempts} tries. {outcome.why}")
        delivery = row.delivery if row.delivery in self._doubtful else ""
        return self._keep(notice, error=outcome.why, delivery=delivery, due_ns=self._next_try_ns)

    def _apart(self, notices: Sequence[Notice], why: str) -> list[Notification]:
        name = delivery_id([one.row.id for one in notices])
        return [self._keep(one, error=why, delivery=name) for one in notices]

    def _keep(self, notice: Notice, **changes: int | str) -> Notification:
        row = replace(notice.row, **changes)  # type: ignore[arg-type]
        self._waiting[row.id] = replace(notice, row=row)
        return row

    def _delivered(self, notice: Notice, now_ns: int) -> Notification:
        self.num_delivered += 1
        return replace(self._forget(notice), delivered_ns=now_ns, error="")

    def _give_up(self, notice: Notice, why: str) -> Notification:
        return replace(self._forget(notice), due_ns=NEVER_NS, error=why)

    def _forget(self, notice: Notice) -> Notification:
        self._stored_by_ns.pop(notice.row.id, None)
        return self._waiting.pop(notice.row.id).row


def halves(of: Sequence[T]) -> tuple[Sequence[T], Sequence[T]]:
    """Neither is empty, where there are two."""
    middle = (len(of) + 1) // 2
    return of[:middle], of[middle:]
