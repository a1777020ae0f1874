"""`kvxray bench analysis` follows pools with all analyses and with none, and looks at every rule. How fast that is is
not judged here.
"""

from __future__ import annotations

import importlib
import json

import pytest
from kvxray_backend.alerts.rules import RULES

from benchmarks.analysis import verdict_age_s
from benchmarks.measuring.followed_pool import BusyClock, Followed

TINY = "--rows 60000 --blocks 2048 --leaks 40 --rounds 2 --engines 2 --looks 2 --rate 20000"


@pytest.fixture(scope="module")
def told() -> dict:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["analysis", "--json", *TINY.split()])
        # Small messages are many steps: the engine's time goes on for longer than the grace of a leak.
        patch.setattr(importlib.import_module("benchmarks.analysis"), "ROWS_OF_A_MESSAGE", 100)
        said: list[str] = []
        patch.setattr("builtins.print", lambda *words, file=None: said.extend([] if file else map(str, words)))
        assert importlib.import_module("benchmarks.analysis").main() == 0
    return json.loads(said[-1])


def test_leaks_of_the_pool_are_found_and_only_there(told):
    healthy, leaking = told["pools"].values()
    assert healthy["leaking_holders"] == 0
    assert leaking["leaking_holders"] == 40
    # A pool so small may evict what it stores again, which is a finding too.
    assert healthy["open_findings"] <= 1
    assert 40 <= leaking["open_findings"] <= 41


def test_a_pool_says_how_fast_it_was_followed_and_how_old_verdicts_were(told):
    for pool in told["pools"].values():
        assert pool["rows"] >= 20_000
        assert pool["rows_per_s"] > 0
        assert pool["ratio_with_without"] > 0
        # Two inspections at least, in a second or more of what was told.
        assert pool["inspections"] >= 2
        assert pool["verdict_age_s_max"] >= 0.5
        assert pool["lag_s_max"] >= pool["lag_s_end"] > 0


def test_every_rule_is_looked_at_over_the_engines_and_the_leaks_fire(told):
    rules = told["rules"]
    assert (rules["rules"], rules["engines"]) == (len(RULES), 2)
    assert rules["findings"] >= 40
    assert rules["firing"] >= 1
    assert 0 < rules["look_ms_p50"] <= rules["look_ms_max"]
    assert 0 < rules["share_of_time"] <= 0.1


def test_a_verdict_is_as_old_as_the_longest_time_between_two_inspections():
    assert verdict_age_s([Followed(looked_at_s=[1.0, 1.5]), Followed(looked_at_s=[2.7, 3.2])]) == 1.2
    assert verdict_age_s([Followed(looked_at_s=[1.0])]) is None


def test_waiting_takes_no_time_and_standing_still_takes_none():
    clock = BusyClock()
    clock.go_on()
    clock.wait_until(10**12)
    assert 10**12 <= clock.mono_ns() < 10**12 + 10**9
    clock.stop()
    stood = clock.mono_ns()
    sum(range(100_000))
    assert clock.mono_ns() == stood
    clock.go_on()
    sum(range(100_000))
    assert stood < clock.mono_ns() < stood + 10**9
