"""What becomes of verdicts: for, keep firing, no data, and two thresholds that never flap in between."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kvxray_backend.alerts.alert_state import AlertState, advance
from kvxray_backend.alerts.expression import Compare, Constant, Now
from kvxray_backend.alerts.rule import Rule
from kvxray_backend.alerts.rule_watch import RuleWatch

from tests.backend.alerts.told import T0_S, Engine, sample


def rule(for_s=60, keep_firing_s=0, clear=None):
    above = Compare(Now("kv_usage"), ">", Constant(0.9), None if clear is None else Constant(clear))
    return Rule("Full", "warning", above, for_s, ("vllm",), "It is full.", (), "", keep_firing_s)


def states(rule_, verdicts, step_s=30.0):
    """After each verdict: t, f, or ? for nobody knows."""
    state, found = AlertState(), []
    for number, verdict in enumerate(verdicts):
        state = advance(rule_, state, {"t": True, "f": False, "?": None}[verdict], T0_S + number * step_s)
        found.append(state.state)
    return found


def test_it_fires_once_it_held_for_so_long():
    assert states(rule(), "ttt") == ["pending", "pending", "firing"]


def test_what_needs_no_time_fires_at_once():
    assert states(rule(for_s=0), "t") == ["firing"]


def test_what_stops_in_between_begins_anew():
    assert states(rule(), "ttfttt") == ["pending", "pending", "inactive", "pending", "pending", "firing"]


def test_it_goes_on_for_a_while_after_it_last_held():
    assert states(rule(0, 60), "tfff") == ["firing", "keep_firing", "inactive", "inactive"]
    assert states(rule(0, 60), "tftff") == ["firing", "keep_firing", "firing", "keep_firing", "inactive"]


def test_time_that_nobody_knows_of_brings_nothing_nearer_to_firing():
    assert states(rule(), "t????tt") == ["pending"] * 7
    assert states(rule(), "t????ttt")[-1] == "firing"


def test_what_fires_is_not_over_because_nobody_can_tell():
    assert states(rule(0), "t" + "?" * 1000)[-1] == "firing"
    assert states(rule(0), "t?f")[-1] == "inactive"
    assert states(rule(0, 60), "tf" + "?" * 100)[-1] == "keep_firing"


def test_since_when_nobody_can_tell_is_told():
    state = advance(rule(0), AlertState(), True, T0_S)
    state = advance(rule(0), advance(rule(0), state, None, T0_S + 10), None, T0_S + 20)
    assert (state.is_firing, state.unknown_since_s) == (True, T0_S + 10)
    assert advance(rule(0), state, True, T0_S + 30).unknown_since_s is None


def test_what_was_pending_and_is_unknown_for_long_is_dropped():
    assert states(rule(), "t" + "?" * 11)[-1] == "inactive"


def test_a_look_long_after_the_last_one_does_not_count_all_the_time_between():
    state = advance(rule(for_s=3_600), AlertState(), True, T0_S)
    assert advance(rule(for_s=3_600), state, True, T0_S + 7_200).state == "pending"


def test_a_clock_that_is_set_back_ends_nothing():
    state = advance(rule(0, 60), AlertState(), True, T0_S)
    assert advance(rule(0, 60), state, False, T0_S - 5_000).state == "keep_firing"


def watched(rule_, values):
    engine, watch, found = Engine(), RuleWatch(rule_), []
    for number, value in enumerate(values):
        at_s = T0_S + number * 30
        engine.page(at_s, [] if value is None else [sample("vllm:kv_cache_usage_perc", value)])
        found.append(watch.look([engine.evidence()], at_s).is_firing)
    return found


@settings(deadline=None, max_examples=40)
@given(st.lists(st.floats(0.8, 0.9), min_size=1, max_size=30))
def test_between_its_thresholds_a_rule_neither_begins_nor_ends(values):
    assert not any(watched(rule(0, clear=0.8 - 1e-9), values))
    assert all(watched(rule(0, clear=0.8 - 1e-9), [0.95, *values]))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.one_of(st.floats(0, 1), st.none()), min_size=1, max_size=40))
def test_it_begins_above_the_one_and_ends_below_the_other_alone(values):
    firing = watched(rule(0, clear=0.7), values)
    for before, after, value in zip([False, *firing], firing, values, strict=False):
        if after and not before:
            assert value is not None and value > 0.9  # noqa: PT018
        if before and not after:
            assert value is not None and value <= 0.7  # noqa: PT018


def test_a_value_about_its_threshold_rings_once():
    about = [0.91, 0.89] * 10
    assert (
        sum(b and not a for a, b in zip([False, *watched(rule(0), about)], watched(rule(0), about), strict=False)) == 10
    )
    firing = watched(rule(0, clear=0.8), about)
    assert sum(b and not a for a, b in zip([False, *firing], firing, strict=False)) == 1


def test_what_metrics_do_not_tell_is_not_zero():
    below = Rule("Low", "info", Compare(Now("kv_usage"), "<", Constant(0.5)), 0, ("vllm",), "It is low.", (), "")
    assert watched(below, [None, None]) == [False, False]
    assert watched(below, [0.0]) == [True]


@pytest.mark.parametrize("hours", [1, 5])
def test_what_nobody_read_any_more_is_not_as_it_was(hours):
    engine, watch = Engine(), RuleWatch(rule(0))
    engine.page(T0_S, [sample("vllm:kv_cache_usage_perc", 0.99)])
    assert RuleWatch(rule(0)).look([engine.evidence()], T0_S + 10).is_firing
    assert watch.look([engine.evidence()], T0_S + hours * 3_600).unknown_since_s is not None
