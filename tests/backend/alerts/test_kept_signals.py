"""Evidence that goes on with time says what all of it, read anew, would say."""

from __future__ import annotations

import pytest
from kvxray_backend.alerts.evidence import Evidence
from kvxray_backend.alerts.kept_signals import KeptSignals, windows_of
from kvxray_backend.alerts.rules import RULES
from kvxray_backend.metrics.minute import Counted, Stood, Stretch
from kvxray_backend.signal_history import Timed

T0_S = 1_800_000_000.0


def read(number, every_s=10):
    usage = (number * 37 % 100) / 100
    told = {
        ("kv_usage", ""): Stood(usage, usage, usage),
        ("preemptions", ""): Counted(float(number % 5), every_s),
        ("generated_tokens", ""): Counted(1.0, every_s),
    }
    return Timed(T0_S + number * every_s, every_s, Stretch(told))


@pytest.mark.parametrize("window_s", [300, 1_800, 7_200])
def test_hours_of_readings_tell_what_they_told_after_they_were_put_together(window_s):
    everything = [read(number) for number in range(3 * 360)]
    kept = KeptSignals({"kv_usage": 7_500, "preemptions": 7_500})
    kept.begin_with(everything[:100])
    for number in range(100, len(everything), 7):
        kept.add(everything[number : number + 7])
    at_s, whole = everything[-1].at_s, Evidence(everything)
    for ask in ("lowest", "highest"):
        told = getattr(kept.evidence, ask)("kv_usage", "", window_s, at_s)
        assert told == getattr(whole, ask)("kv_usage", "", window_s, at_s)
    grown = kept.evidence.grown("preemptions", "", window_s, at_s)
    # What lies in the minute in which the window begins counts whole.
    assert grown == pytest.approx(whole.grown("preemptions", "", window_s, at_s), abs=12)
    assert kept.evidence.now("kv_usage", "", at_s) == whole.now("kv_usage", "", at_s)


def test_what_no_rule_asks_for_is_not_kept_and_what_is_too_old_goes():
    kept = KeptSignals({"kv_usage": 4_000})
    for number in range(3 * 360):
        kept.add([read(number)])
    assert {key[0] for one in kept.evidence.told for key in one.stretch.told} == {"kv_usage"}
    assert len(kept.evidence.told) < 4_000 / 10 + 70
    assert kept.evidence.told[0].at_s > T0_S + 3 * 3_600 - 4_000 - 700


def test_rules_say_how_far_back_each_signal_is_kept():
    windows = windows_of(RULES.values())
    assert windows["prefix_queries"] > 86_400 > windows["kv_usage"]
