"""Evidence that goes on with time says what all of it, read anew, would say."""

from __future__ import annotations

import pytest
from kvxray_backend.alerts.evaluation import Look
from kvxray_backend.alerts.evidence import Evidence
from kvxray_backend.alerts.expression import Grown, Mean, Recorded
from kvxray_backend.alerts.kept_signals import KeptSignals, windows_of
from kvxray_backend.alerts.rules import RULES
from kvxray_backend.alerts.signal_track import SignalTrack
from kvxray_backend.metrics.minute import Counted, Stood, Stretch
from kvxray_backend.signal_history import Timed

T0_S = 1_800_000_000.0
USAGE, PREEMPTIONS = ("kv_usage", ""), ("preemptions", "")


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
    kept = KeptSignals({USAGE: 7_500, PREEMPTIONS: 7_500}, T0_S + 1_000)
    kept.begin_with(kept.to_read, everything[:100])
    assert kept.to_read is None
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
    kept = KeptSignals({USAGE: 4_000}, T0_S)
    for number in range(3 * 360):
        kept.add([read(number)])
    ((key, track),) = kept.evidence.tracks.items()
    assert key == USAGE
    assert len(track.times) < 4_000 / 10 + 70
    assert track.times[0] > T0_S + 3 * 3_600 - 4_000 - 700
    assert len(kept.evidence.reads) < 3_600 / 10 + 70
    assert kept.evidence.is_read(T0_S + 3 * 3_600)
    assert not kept.evidence.is_read(T0_S + 4 * 3_600)


def test_a_day_is_read_in_pieces_the_newest_first_and_tells_what_it_tells_read_at_once():
    def minute(number):
        told = {USAGE: Stood(number % 7, number % 7, number % 7), PREEMPTIONS: Counted(number % 5, 60.0)}
        return Timed(T0_S + 60.0 * number, 60.0, Stretch(told))

    def stored(read):
        """As the log tells it: whole minutes, the one in which it begins among them."""
        return [one for one in day if read.from_s // 60 * 60 < one.at_s <= read.to_s // 60 * 60 + 60]

    day = [minute(number) for number in range(1, 1_441)]
    now_s = day[-1].at_s + 7
    kept = KeptSignals({USAGE: 3_600, PREEMPTIONS: 86_000}, now_s)
    kept.add([Timed(now_s, 7.0, Stretch({PREEMPTIONS: Counted(1.0, 7.0)}))])
    asked = []
    while (read := kept.to_read) is not None:
        asked.append((read.to_s - read.from_s, read.signals))
        assert kept.evidence.unread_before_s == read.to_s
        kept.begin_with(read, stored(read))
    assert asked[0] == (10_800, ("kv_usage", "preemptions"))
    assert {signals for _, signals in asked[1:]} == {("preemptions",)}
    assert sum(seconds for seconds, _ in asked) == pytest.approx(86_000)
    assert kept.evidence.unread_before_s is None
    whole = Evidence([*day, Timed(now_s, 7.0, Stretch({PREEMPTIONS: Counted(1.0, 7.0)}))])
    for window_s in (600, 7_200, 40_000, 85_900):
        grown = kept.evidence.grown("preemptions", "", window_s, now_s)
        assert grown == whole.grown("preemptions", "", window_s, now_s)
    assert kept.evidence.lowest("kv_usage", "", 3_500, now_s) == 0
    assert len(kept.evidence.tracks[USAGE].times) <= 61


def test_the_mean_of_a_day_is_not_told_while_the_day_is_being_read():
    hits = Recorded("hits", Grown("preemptions", 600))
    evidence = Evidence([Timed(T0_S, 60.0, Stretch({PREEMPTIONS: Counted(3.0, 60.0)}))], unread_before_s=T0_S - 7_200)
    assert Look((evidence,), T0_S).number(Mean(hits, 3_600)) == 3
    assert Look((evidence,), T0_S).number(Mean(hits, 86_400)) is None
    evidence.unread_before_s = None
    assert Look((evidence,), T0_S).number(Mean(hits, 86_400)) == 3


def test_a_signal_takes_little_room_however_long_it_is_kept():
    track = SignalTrack(PREEMPTIONS)
    for number in range(10_000):
        track.add(read(number))
    columns = (track.times, track.seconds, *track.columns)
    assert sum(column.itemsize * len(column) for column in columns) == 10_000 * 24


@pytest.mark.parametrize("key", [USAGE, PREEMPTIONS])
def test_what_is_stored_as_another_kind_is_left_out(key):
    odd = {USAGE: Counted(1.0, 10.0), PREEMPTIONS: Stood(1.0, 1.0, 1.0)}
    evidence = Evidence([Timed(T0_S, 10.0, Stretch(odd))])
    assert evidence.now("kv_usage", "", T0_S) is None
    assert evidence.grown("preemptions", "", 600, T0_S) is None


def test_rules_say_how_far_back_each_signal_is_kept():
    windows = windows_of(RULES.values())
    assert windows["prefix_queries", ""] > 86_400 > windows["kv_usage", ""]
