"""Eviction regret: what comes back soon after it was thrown away, and what does so again and again."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from kvxray_backend.analysis import readmissions as regret
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.readmissions import WINDOW_NS, Readmissions, thrash_finding
from kvxray_backend.analysis.stream_health import Place
from kvxray_backend.inspection.returns import Returns
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.offline import OfflineSession
from kvxray_backend.sources.foreign.told import Cleared
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.residency_map import ResidencyMap
from kvxray_engine.stream.residency_returns import ReturnBook

from tests.backend.foreign.payloads import RECORDINGS, frames
from tests.backend.told import SECOND
from tests.engine.stream.residency_teller import CPU, DESCRIPTOR, T0_NS, Event, Teller, hash_of, remove, store


class Engine:
    """An engine whose events come when a test says so, in seconds since it began."""

    def __init__(self) -> None:
        self.fold = ResidencyMap(DESCRIPTOR, store_semantics="copies")
        self.book = self.fold.returns = ReturnBook()
        self.readmissions = Readmissions()
        self._teller = Teller()

    def tell(self, second: float, *events: Event) -> None:
        told = self._teller.tell(*events)
        header = msgspec.structs.replace(told.header, t0_wall_ns=T0_NS + round(second * SECOND))
        self.fold.apply(Message(header, told.columns))
        self.readmissions.note(self.book, self.fold.t_ns)
        self.readmissions.check_integrity()

    def finding(self, second: float) -> Finding | None:
        return thrash_finding(Place("it", 1, 7, T0_NS + round(second * SECOND)), self.fold, self.readmissions)

    def churn(self, second: float, *hashes: int, times: int = 2, gone_s: float = 1.0) -> float:
        """Everything goes and comes back, so often; when the last of it came."""
        for _ in range(times):
            self.tell(second, *(remove(one) for one in hashes))
            self.tell(second + gone_s, *(store(one) for one in hashes))
            second += gone_s + 1
        return second - 1


def test_what_comes_back_twice_within_a_minute_thrashes_and_once_is_no_finding() -> None:
    engine = Engine()
    engine.tell(0, store(1), store(2))
    end = engine.churn(1, 1, times=1)
    assert engine.finding(end) is None
    end = engine.churn(end + 1, 1, times=1)
    found = engine.finding(end)
    assert found is not None
    assert found.subjects.hashes == (hash_of(1).hex(),)
    assert found.numbers == {"blocks": 1, "readmissions": 2, "evictions": 2}
    assert found.sentence == (
        "1 block on GPU was evicted and stored again twice or more within a minute; "
        "in that time 2 blocks went and 2 came back."
    )


def test_it_is_over_a_minute_after_the_last_but_one_return() -> None:
    engine = Engine()
    engine.tell(0, store(1))
    engine.churn(10, 1, times=2)  # it came back at 11 and at 13
    assert engine.finding(70) is not None
    assert engine.finding(72) is None


def test_what_was_gone_for_longer_than_a_minute_is_not_regretted() -> None:
    engine = Engine()
    engine.tell(0, store(1))
    end = engine.churn(1, 1, times=3, gone_s=61)
    assert engine.finding(end) is None
    assert engine.readmissions.num == 3


def test_the_return_of_what_was_gone_for_minutes_does_not_count_with_the_next() -> None:
    engine = Engine()
    engine.tell(0, store(1), remove(1))
    engine.tell(150, store(1))
    end = engine.churn(151, 1, times=1)
    assert engine.finding(end) is None
    end = engine.churn(end + 1, 1, times=1)
    assert engine.finding(end) is not None


def test_the_same_hash_on_two_media_is_two_blocks() -> None:
    engine = Engine()
    engine.tell(0, store(1), store(1, place=CPU))
    engine.tell(1, remove(1), remove(1, place=CPU))
    engine.tell(2, store(1), store(1, place=CPU))
    assert engine.finding(3) is None


def test_it_is_a_warning_where_three_of_ten_evictions_are_regretted_and_else_information() -> None:
    engine = Engine()
    others = range(10, 60)
    engine.tell(0, store(1), *(store(one) for one in others))
    end = engine.churn(1, 1)
    found = engine.finding(end)
    assert found is not None
    assert found.severity == "warning"
    engine.tell(end, *(remove(one) for one in others))
    found = engine.finding(end)
    assert found is not None
    assert found.severity == "info"
    assert found.numbers["evictions"] == 52


def test_evictions_of_an_hour_ago_say_nothing_of_now() -> None:
    engine = Engine()
    others = range(10, 60)
    engine.tell(0, store(1), *(store(one) for one in others))
    engine.tell(1, *(remove(one) for one in others))
    engine.churn(3600, 1)
    assert engine.readmissions.of_last_minute() == (2, 2)


def test_where_not_everything_was_told_it_is_derived() -> None:
    engine = Engine()
    engine.tell(0, store(1))
    end = engine.churn(1, 1)
    found = engine.finding(end)
    assert found is not None
    assert found.certainty == "exact"
    engine.fold.note_gap()
    found = engine.finding(end)
    assert found is not None
    assert found.certainty == "derived"


def test_it_is_bounded_and_remembers_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regret, "MAX_KEPT", 4)
    engine = Engine()
    engine.tell(0, *(store(one) for one in range(1, 5)))
    engine.churn(1, 1, 2)
    engine.churn(6, 3, 4)
    assert [key >> 16 for key in engine.readmissions.thrashing(engine.fold.t_ns).tolist()] == [3, 4]


def test_a_day_of_events_leaves_a_minute_of_samples() -> None:
    readmissions, book = Readmissions(), ReturnBook()
    for moment in np.arange(0, 86_400, 7).tolist():
        book.evicted += 1
        readmissions.note(book, T0_NS + moment * SECOND)
        readmissions.check_integrity()
    assert 7 <= readmissions.of_last_minute()[0] <= 1 + WINDOW_NS // (7 * SECOND)


def test_a_clock_that_is_set_back_breaks_nothing() -> None:
    readmissions, book = Readmissions(), ReturnBook()
    for second in [*range(100), *range(50, 200), *range(10)]:
        readmissions.note(book, second * SECOND)
        readmissions.check_integrity()
    assert readmissions.thrashing(0).tolist() == []


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_it_counts_in_recordings_what_is_counted_event_by_event(path: Path) -> None:
    session, returns = OfflineSession(b"key", store_semantics="copies"), Returns()
    for seq, payload in enumerate(frames(path)):
        session.feed(path.name, b"", seq, payload, seq)
        for event in decode_batch(payload).events:
            returns.note(event)
            if isinstance(event, Cleared):
                returns.forget()  # what a reset took away is regretted by nobody
    session.finish()
    [source] = session.sources
    assert source.readmissions.num == returns.num_returned


def test_recordings_of_pools_that_are_too_small_thrash() -> None:
    assert {path.name.partition(".frames")[0] for path in RECORDINGS if thrashes(path)} >= {"vllm-0.32.0-mixed-1"}
    assert not thrashes(next(path for path in RECORDINGS if "abort" in path.name))


def thrashes(path: Path) -> bool:
    session = OfflineSession(b"key", store_semantics="copies")
    for seq, payload in enumerate(frames(path)):
        session.feed(path.name, b"", seq, payload, seq)
    session.finish()
    return any(finding.kind == "thrash" for finding in session.findings())


@pytest.mark.parametrize("late_s", [0.0, 3.0])
def test_what_is_remembered_is_bounded_however_the_batches_are_spaced(late_s: float) -> None:
    """One hash goes and comes back every 0.6 s; a third of the batches is late, or none is."""
    engine = Engine()
    engine.tell(0, store(1))
    for number in range(200):
        second = 0.6 * number + 1
        engine.tell(second, remove(1))
        engine.tell(second + 0.3, store(1))
        engine.tell(second - late_s, store(2 + number))
    evicted, returned = engine.readmissions.of_last_minute()
    assert returned in range(98, 104)
    assert evicted in range(98, 104)


def test_an_engine_that_has_fallen_silent_does_not_thrash() -> None:
    engine = Engine()
    engine.tell(0, store(1))
    end = engine.churn(1, 1)
    place = Place("it", 1, 7, T0_NS + round(end * SECOND))
    assert thrash_finding(place, engine.fold, engine.readmissions, place.t_ns + WINDOW_NS - 3 * SECOND) is not None
    assert thrash_finding(place, engine.fold, engine.readmissions, place.t_ns + WINDOW_NS) is None
