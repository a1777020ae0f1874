"""The figures of the summary, from stories whose truth can be counted by hand."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.figures import Reading, figures_of, state_counts
from kvxray_backend.windows import HIT_WINDOW_NS, RATE_WINDOW_NS, EventTotals, EventWindows
from kvxray_engine.stream.schema import BlockState, Kind

from tests.backend.told import SECOND, Story


class Watched(Story):
    """A story with its windows, as the live state keeps them."""

    def __init__(self, num_blocks: int = 9) -> None:
        super().__init__(num_blocks)
        self.windows = EventWindows()
        self.windows.note(self.clock.now, EventTotals.of(self.map))

    def step(self, seconds: float = 0.0):
        message = super().step(seconds)
        self.windows.note(self.map.t_ns, EventTotals.of(self.map))
        self.windows.check_integrity()
        return message

    def reading(self, findings: tuple[Finding, ...] = ()) -> Reading:
        return Reading(self.map, self.windows, 3, 7, self.clock.now, 3, 2, findings)

    def value(self, name: str):
        return figures_of(self.reading())[name].value


def test_used_cached_and_shared_are_parts_of_the_usable_blocks() -> None:
    story = Watched()
    story.arrive("a")
    story.arrive("b")
    story.allocate("a", 1, 2, 3)
    story.refer("b", 1)
    story.cache("a", 2)
    story.allocate("b", 4)
    story.cache("b", 4)
    story.free("b", 4)
    story.step()
    assert story.value("used") == 3 / 8
    assert story.value("shared") == 1 / 8
    assert story.value("cached") == 1 / 8
    counts = {name: figure.value for name, figure in state_counts(story.reading()).items()}
    assert counts == {"unknown": 0, "empty": 4, "free": 0, "cached": 1, "active": 2, "shared": 1}


def test_internal_fragmentation_is_the_empty_share_of_held_slots() -> None:
    story = Watched()
    story.arrive("a")
    assert story.value("internal_fragmentation") is None
    story.allocate("a", 1, 2)
    story.fill({1: 16, 2: 4})
    story.step()
    assert story.value("internal_fragmentation") == 12 / 32


def test_hit_rate_has_no_value_without_queries_and_forgets_after_a_minute() -> None:
    story = Watched()
    story.arrive("a")
    story.step(2)
    assert story.value("hit_rate") is None
    story.schedule("a", queried=100, hit=25)
    story.step(1)
    assert story.value("hit_rate") == 0.25
    story.clock.now += 70 * SECOND
    assert story.value("hit_rate") is None


def test_rates_are_over_ten_seconds_and_fall_to_nothing_when_nothing_happens() -> None:
    story = Watched(200)
    story.arrive("a")
    story.step()
    for second in range(20):
        story.allocate("a", *range(1 + 5 * second, 6 + 5 * second))
        story.tokens("a", second + 1)
        story.step(1)
    assert story.value("allocations_per_s") == pytest.approx(5.0, abs=0.6)
    assert story.value("tokens_per_s") == pytest.approx(1.0, abs=0.15)
    story.clock.now += 60 * SECOND
    assert story.value("allocations_per_s") == 0


def test_a_rate_needs_a_second_of_watching() -> None:
    story = Watched()
    story.arrive("a")
    story.allocate("a", 1)
    story.step(0.5)
    assert story.value("allocations_per_s") is None


def test_ttft_is_the_median_of_the_last_minute() -> None:
    story = Watched()
    for number, wait in enumerate((1.0, 5.0, 2.0)):
        story.arrive(f"r{number}")
        story.step(wait)
        story.tokens(f"r{number}", 1)
        story.step()
    assert story.value("ttft_p50_s") == pytest.approx(2.0)
    story.clock.now += 120 * SECOND
    assert story.value("ttft_p50_s") is None


def test_running_and_waiting_count_requests() -> None:
    story = Watched()
    for name in ("a", "b", "c"):
        story.arrive(name)
    story.schedule("a")
    story.schedule("b")
    story.begin().op(Kind.RequestPreempted, 0, story.of("b"), 1, 0xFFFFFFFF)
    story.step()
    assert (story.value("running"), story.value("waiting")) == (1, 2)


def test_what_is_unknown_is_never_zero() -> None:
    story = Watched()
    story.map.forget()
    reading = story.reading()
    for name in ("used", "cached", "shared", "internal_fragmentation", "leaked", "leaked_only"):
        figure = figures_of(reading)[name]
        assert figure.value is None or name.startswith("leaked")
        assert figure.certainty == "derived"
    # Holders that are seen to leak are some at least; none seen is not none.
    assert figures_of(reading)["leaked"].value == 3
    unseen = figures_of(dataclasses.replace(reading, leaked=0, leaked_only=0))
    for name in ("leaked", "leaked_only", "running", "waiting"):
        assert (unseen[name].value, unseen[name].certainty) == (None, "derived")
    assert state_counts(reading)["unknown"].value == 8
    assert state_counts(reading)["active"].value is None


def test_an_open_gap_taints_block_figures_while_blocks_are_unknown_and_stale_taints_everything() -> None:
    story = Watched()
    gap = _finding("gap")
    stale = _finding("stale")
    exact = figures_of(story.reading((gap,)))
    assert (exact["used"].taints, exact["used"].certainty) == ((), "exact")
    assert (exact["hit_rate"].taints, exact["hit_rate"].certainty) == (("gap-id",), "derived")
    story.map.forget()
    tainted = figures_of(story.reading((gap, stale)))
    assert tainted["used"].taints == ("gap-id", "stale-id")
    assert tainted["used"].since_seq == "3.7"
    assert tainted["running"].taints == ("gap-id", "stale-id")


BLOCKS = {"used", "cached", "shared", "internal_fragmentation", "leaked", "leaked_only"}
EVENTS = {"hit_rate", "evictions_per_s", "allocations_per_s", "preemptions_per_s", "tokens_per_s", "ttft_p50_s"}
REQUESTS = {"running", "waiting"}


@pytest.mark.parametrize(
    ("kind", "spoiled"),
    [
        ("gap", EVENTS | REQUESTS),
        ("no_snapshot", EVENTS | REQUESTS),
        ("stale", BLOCKS | EVENTS | REQUESTS),
        ("audit", BLOCKS),
        ("ref_mismatch", BLOCKS),
        ("leak", set()),
        ("storage", set()),
    ],
)
def test_a_finding_taints_what_it_spoils_and_that_is_not_exact(kind: str, spoiled: set[str]) -> None:
    figures = figures_of(Watched().reading((_finding(kind),)))
    assert figures.keys() == BLOCKS | EVENTS | REQUESTS
    assert {name for name, figure in figures.items() if figure.taints} == spoiled
    assert {name for name, figure in figures.items() if figure.certainty != "exact"} == spoiled
    assert all(figures[name].taints == (f"{kind}-id",) for name in spoiled)


def test_rates_of_a_silent_engine_are_not_told_as_if_they_were_current() -> None:
    story = Watched(200)
    story.arrive("a")
    for second in range(12):
        story.tokens("a", second + 1)
        story.step(1)
    (before, then) = (figures_of(story.reading(found))["tokens_per_s"] for found in ((), (_finding("stale"),)))
    assert (before.certainty, before.taints) == ("exact", ())
    assert (then.value, then.certainty, then.taints) == (before.value, "derived", ("stale-id",))


def test_a_share_of_all_blocks_is_not_known_while_one_of_them_is_not() -> None:
    story = Watched()
    story.arrive("a")
    story.step()
    story.map.forget()
    story.allocate("a", 1, 2)
    story.step()
    reading = story.reading((_finding("no_snapshot"),))
    figures, counts = figures_of(reading), state_counts(reading)
    for name in ("used", "cached", "shared"):
        assert (figures[name].value, figures[name].certainty) == (None, "derived")
        assert figures[name].taints == ("no_snapshot-id",)
    assert (counts["active"].value, counts["active"].certainty) == (2, "derived")
    assert (counts["unknown"].value, counts["unknown"].certainty) == (6, "exact")


@given(steps=st.lists(st.tuples(st.floats(0, 3), st.integers(0, 50)), min_size=1, max_size=80))
def test_windows_give_what_was_added_within_them(steps: list[tuple[float, int]]) -> None:
    windows = EventWindows()
    now, total = 10**18, 0
    told = [(now, 0)]
    windows.note(now, EventTotals(0, 0, 0, 0, 0, 0))
    for seconds, count in steps:
        now += int(seconds * SECOND)
        total += count
        told.append((now, total))
        windows.note(now, EventTotals(total, 0, 0, 0, 0, 0))
        windows.check_integrity()
    for window in (RATE_WINDOW_NS, HIT_WINDOW_NS):
        found = windows.since(window, now)
        if found is None:
            assert now - told[0][0] < SECOND
            continue
        # Samples are a quarter of a second apart: the window may begin that much early.
        least = total - max(value for t, value in told if t <= max(now - window, told[0][0]))
        most = total - max((value for t, value in told if t <= now - window - SECOND // 4), default=0)
        assert least <= found[0].evictions <= most
        watched = min(window, now - told[0][0]) / 1e9
        assert watched <= found[1] <= watched + 0.25


def test_a_rate_is_exact_though_the_window_begins_within_a_sample() -> None:
    windows = EventWindows()
    begin = 10**18
    for tick in range(600):
        windows.note(begin + tick * SECOND // 20, EventTotals(tick, 0, 0, 0, 0, 0))
    for tick in range(595, 600):
        found = windows.since(RATE_WINDOW_NS, begin + 599 * SECOND // 20 + (tick - 595) * SECOND // 100)
        assert found is not None
        assert found[0].evictions / found[1] == pytest.approx(20.0, rel=0.006)


def _finding(kind: str) -> Finding:
    return Finding(
        id=f"{kind}-id", kind=kind, severity="warning", source="told", epoch=3, seq0=0, seq1=0, time_ns=1, sentence="."
    )


def test_every_state_is_counted() -> None:
    assert set(state_counts(Watched().reading())) == {state.name for state in BlockState}


@pytest.mark.parametrize("set_back_s", [2, 30, 3600])
def test_a_clock_that_is_set_back_changes_no_rate(set_back_s: int) -> None:
    """Five tokens every half second, and heartbeats that run ahead of events which are held."""
    windows, t_ns = EventWindows(), 10**18
    for step in range(200):
        t_ns += SECOND // 2 - (set_back_s * SECOND if step == 100 else 0)
        windows.note(t_ns, EventTotals(0, 0, 0, 5 * step, 0, 0))
        if step % 7 == 0 and step < 95:
            windows.hear(t_ns + SECOND // 4, EventTotals(0, 0, 0, 5 * step, 0, 0))
        windows.check_integrity()
        if step > 25:
            found = windows.since(RATE_WINDOW_NS, t_ns)
            assert found is not None
            assert found[0].tokens / found[1] == pytest.approx(10, rel=0.1)
