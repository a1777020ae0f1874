"""The past of metrics: by the minute in the log, finely for an hour, no time twice, holes where nothing was read."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from kvxray_backend import signal_history
from kvxray_backend.metrics.exposition import parse_page
from kvxray_backend.metrics.minute import Stood, Stretch
from kvxray_backend.signal_course import course, step_for
from kvxray_backend.signal_history import SignalHistory, Timed
from kvxray_backend.sources.foreign.metrics_watch import MetricsWatch
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog
from kvxray_storage.signal_minutes import read_minutes

T0_S = 1_800_000_000.0
HOUR_S = 3_600.0
COUNTER = "vllm:num_preemptions_total {}\nvllm:kv_cache_usage_perc {}\n"


class Fed:
    """An engine whose metrics are read: each page is taken as the metrics loop takes it."""

    def __init__(self, history, name="engine"):
        self.history, self.name, self.watch = history, name, MetricsWatch(name)

    def page(self, at_s, text):
        self.watch.take(at_s, parse_page(text.encode()))
        self.history.take(self.name, at_s, self.watch)

    def run(self, from_s, to_s, every_s=5.0, per_s=2.0, usage=0.5):
        at_s = from_s
        while at_s < to_s:
            self.page(at_s, COUNTER.format(per_s * (at_s - T0_S + 20 * 86_400), usage))
            at_s += every_s


@pytest.fixture
def opened(tmp_path):
    database = open_database(f"sqlite:///{tmp_path / 'log.db'}")
    log = EventLog(database)
    yield database, log
    log.close()
    database.close()


@pytest.fixture
def history(opened):
    return SignalHistory(*opened)


def minutes(database, name="engine"):
    return [one.t_s for one in read_minutes(database, name, 0, 1 << 40, 10**6)]


def settled(history):
    """What waits to be stored is."""
    history.close()


def test_a_minute_is_stored_when_it_is_over(opened, history):
    Fed(history).run(T0_S, T0_S + 185)
    settled(history)
    assert minutes(opened[0]) == [T0_S, T0_S + 60, T0_S + 120, T0_S + 180]


def test_what_is_stored_tells_the_same_course_as_what_is_remembered(opened, history):
    Fed(history).run(T0_S, T0_S + 600)
    names = ["preemptions", "kv_usage"]
    before = course(history.between("engine", T0_S, T0_S + 600), names, T0_S, T0_S + 600, 60)
    settled(history)
    again = SignalHistory(*opened)
    after = course(again.between("engine", T0_S, T0_S + 600), names, T0_S, T0_S + 600, 60)
    assert before.lines["preemptions"].values == pytest.approx([2.0] * 10)
    assert after.lines["preemptions"].values == pytest.approx([2.0] * 10)
    assert after.lines["kv_usage"].values == [0.5] * 10
    assert after.times_s == [T0_S + 60 * number for number in range(10)]


def test_time_without_readings_is_a_hole_and_no_zero(history):
    fed = Fed(history)
    fed.run(T0_S, T0_S + 120)
    fed.run(T0_S + 300, T0_S + 420, per_s=2.0)
    told = course(history.between("engine", T0_S, T0_S + 420), ["preemptions", "kv_usage"], T0_S, T0_S + 420, 60)
    assert told.lines["kv_usage"].values == [0.5, 0.5, None, None, 0.5, 0.5, 0.5]
    assert told.lines["preemptions"].values[2:4] == [None, None]


def test_a_reset_is_no_negative_rate(history):
    fed = Fed(history)
    fed.page(T0_S, COUNTER.format(1000, 0))
    fed.page(T0_S + 5, COUNTER.format(1010, 0))
    fed.page(T0_S + 10, COUNTER.format(5, 0))
    told = course(history.between("engine", T0_S, T0_S + 10), ["preemptions"], T0_S, T0_S + 10, 5)
    assert told.lines["preemptions"].values == [2.0, 1.0]
    assert told.lines["preemptions"].total == 15


def test_after_a_restart_no_time_is_stored_twice(opened):
    for _ in range(2):
        history = SignalHistory(*opened)
        Fed(history).run(T0_S, T0_S + 300, every_s=20.0)
        settled(history)
    again = SignalHistory(*opened)
    Fed(again).run(T0_S + 60, T0_S + 420, every_s=7.0)
    settled(again)
    assert minutes(opened[0]) == [T0_S + 60 * number for number in range(7)]
    stored = read_minutes(opened[0], "engine", 0, 1 << 40, 100)
    assert len({one.packed for one in stored[1:5]}) == 1


def test_a_back_fill_of_fifteen_days_is_kept_and_drawn(opened, history):
    fed = Fed(history)
    fed.run(T0_S - 15 * 86_400, T0_S, every_s=1_800)
    fed.run(T0_S, T0_S + 120)
    told = history.between("engine", T0_S - 15 * 86_400, T0_S + 120)
    step_s = step_for(told, T0_S - 15 * 86_400, T0_S + 120)
    drawn = course(told, ["preemptions"], T0_S - 15 * 86_400, T0_S + 120, step_s)
    values = drawn.lines["preemptions"].values
    assert 3_600 <= step_s <= 7_200
    assert sum(value is None for value in values) <= 1
    settled(history)
    assert len(minutes(opened[0])) == 15 * 48 + 2


def test_buckets_are_never_finer_than_what_was_read(history):
    Fed(history).run(T0_S, T0_S + 86_400, every_s=1_800)
    told = history.between("engine", T0_S, T0_S + 86_400)
    assert step_for(told, T0_S, T0_S + 86_400) == 1_800


def test_the_last_hour_is_told_as_it_was_read(history):
    Fed(history).run(T0_S, T0_S + 2 * HOUR_S)
    fine = history.between("engine", T0_S + HOUR_S + 60, T0_S + 2 * HOUR_S)
    assert {one.seconds for one in fine[15:]} == {5.0}
    day = history.between("engine", T0_S - 22 * HOUR_S, T0_S + 2 * HOUR_S)
    assert {one.seconds for one in day} == {60}
    assert len(day) == 120


def test_engines_do_not_mix(history):
    Fed(history, "one").run(T0_S, T0_S + 130, per_s=1.0)
    Fed(history, "other").run(T0_S, T0_S + 130, per_s=3.0)
    for name, rate in (("one", 1.0), ("other", 3.0)):
        told = course(history.between(name, T0_S, T0_S + 130), ["preemptions"], T0_S, T0_S + 130, 60)
        assert told.lines["preemptions"].values[:2] == pytest.approx([rate, rate])
    assert history.between("nobody", T0_S, T0_S + 130) == []
    assert (history.is_known("one"), history.is_known("nobody")) == (True, False)


def test_a_page_of_the_past_or_twice_the_same_adds_nothing(history):
    fed = Fed(history)
    fed.run(T0_S, T0_S + 60)
    before = len(history.between("engine", T0_S - 1, T0_S + 60))
    history.take("engine", T0_S + 55, fed.watch)
    history.take("engine", T0_S + 30, fed.watch)
    assert len(history.between("engine", T0_S - 1, T0_S + 60)) == before


def test_a_database_that_refuses_loses_nothing_until_too_much_waits(opened, monkeypatch):
    database, log = opened
    refused = []

    def refuse(connection, minutes):
        refused.append(len(minutes))
        raise sa.exc.OperationalError("refused", {}, Exception())

    history = SignalHistory(database, log)
    with monkeypatch.context() as patch:
        patch.setattr(signal_history, "store_minutes", refuse)
        Fed(history).run(T0_S, T0_S + 240)
        log.flush(5)
        assert refused
        assert minutes(database) == []
        assert len(history.between("engine", T0_S - HOUR_S * 3, T0_S + 240)) == 4
    settled(history)
    assert len(minutes(database)) == 4


def test_what_waits_is_bounded_and_what_is_dropped_is_counted(opened, monkeypatch):
    monkeypatch.setattr(signal_history, "MAX_WAITING", 3)
    monkeypatch.setattr(signal_history, "store_minutes", lambda connection, minutes: 1 / 0)
    history = SignalHistory(*opened)
    Fed(history).run(T0_S, T0_S + 1_200, every_s=60)
    assert history.num_dropped >= 10


def test_old_minutes_go(opened):
    history = SignalHistory(*opened, max_age_s=3_600)
    Fed(history).run(T0_S, T0_S + 3 * HOUR_S, every_s=60)
    settled(history)
    opened[1].flush(5)
    assert minutes(opened[0])[0] >= T0_S + HOUR_S - 60
    assert minutes(opened[0])[-1] == T0_S + 3 * HOUR_S - 60


def test_a_log_that_is_closed_is_no_harm(opened):
    database, log = opened
    history = SignalHistory(database, log)
    fed = Fed(history)
    fed.run(T0_S, T0_S + 70)
    log.close()
    fed.run(T0_S + 70, T0_S + 200)
    settled(history)
    assert len(history.between("engine", T0_S, T0_S + 200)) > 20


def test_what_is_lost_at_the_end_says_why_in_one_sentence(opened, monkeypatch, caplog):
    monkeypatch.setattr("kvxray_storage.file_watch.LOOK_EVERY_S", 0.0)
    monkeypatch.setattr("kvxray_backend.signal_history.CLOSE_WAIT_S", 30)
    database, log = opened
    history = SignalHistory(database, log)
    Fed(history).run(T0_S, T0_S + 70)
    database.path.unlink()
    history.close()
    (said,) = [record.getMessage() for record in caplog.records if record.name == "kvxray_backend.signal_history"]
    assert said.startswith("what metrics told last could not be stored: The database file ")
    assert "was removed while kvxray was running" in said


def test_a_histogram_is_told_by_quantiles_and_by_what_fell_into_which_bucket(history):
    watch = MetricsWatch("engine")
    for number in range(3):
        counts = [(0.1, 9 * number), (1.0, 10 * number), ("+Inf", 10 * number)]
        lines = [f'vllm:time_to_first_token_seconds_bucket{{le="{bound}"}} {count}' for bound, count in counts]
        lines += [
            f"vllm:time_to_first_token_seconds_sum {number}",
            f"vllm:time_to_first_token_seconds_count {10 * number}",
        ]
        watch.take(T0_S + 10 * number, parse_page(("\n".join(lines) + "\n").encode()))
        history.take("engine", T0_S + 10 * number, watch)
    line = course(history.between("engine", T0_S, T0_S + 20), ["ttft"], T0_S, T0_S + 20, 10).lines["ttft"]
    assert line.values == pytest.approx([0.0556, 0.0556], abs=1e-3)
    assert line.more["p99"] == pytest.approx([0.91, 0.91])
    assert line.more["rate"] == [1.0, 1.0]
    assert line.more["mean"] == pytest.approx([0.1, 0.1])
    assert line.heat == [(0.0, 0.1, [9.0, 9.0]), (0.1, 1.0, [1.0, 1.0])]


def test_parts_have_lines_of_their_own(history):
    text = "".join(f'vllm:request_success_total{{{{finished_reason="{how}"}}}} {{}}\n' for how in ("stop", "abort"))
    watch = MetricsWatch("engine")
    for number in range(2):
        watch.take(T0_S + 10 * number, parse_page(text.format(30 * number, 10 * number).encode()))
        history.take("engine", T0_S + 10 * number, watch)
    line = course(history.between("engine", T0_S, T0_S + 10), ["requests_finished"], T0_S, T0_S + 10, 10).lines
    assert line["requests_finished"].parts == {"abort": [1.0], "stop": [3.0]}
    assert line["requests_finished"].values == [4.0]


def test_a_ratio_is_divided_bucket_by_bucket(history):
    text = "vllm:prefix_cache_hits_total {}\nvllm:prefix_cache_queries_total {}\n"
    watch = MetricsWatch("engine")
    for number, (hits, queries) in enumerate([(0, 0), (50, 100), (50, 100), (140, 200)]):
        watch.take(T0_S + 10 * number, parse_page(text.format(hits, queries).encode()))
        history.take("engine", T0_S + 10 * number, watch)
    line = course(history.between("engine", T0_S, T0_S + 30), ["hit_rate"], T0_S, T0_S + 30, 10).lines["hit_rate"]
    assert line.values == [0.5, None, 0.9]


def test_a_bucket_before_the_first_reading_is_a_hole():
    told = [Timed(T0_S + 30, 0.0, Stretch({("kv_usage", ""): Stood(0.5, 0.5, 0.5)}))]
    assert course(told, ["kv_usage"], T0_S, T0_S + 30, 15).lines["kv_usage"].values == [None, 0.5]
