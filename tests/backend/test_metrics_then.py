"""What metrics told at moments of the past: the same figures as then, with the reading they are of."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kvxray_backend import overview_signals
from kvxray_backend.metrics.exposition import parse_page
from kvxray_backend.metrics.minute import Counted, Stood, Stretch, latest
from kvxray_backend.metrics.past_book import PastBook
from kvxray_backend.moments import iso_time
from kvxray_backend.residency.metrics_then import metrics_then
from kvxray_backend.signal_history import SignalHistory
from kvxray_backend.sources.foreign.metrics_watch import MetricsWatch
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog

from tests.backend.served import backend_of, serving
from tests.backend.test_residency_routes import CHAINS, T0, watched

TTFT = "vllm:time_to_first_token_seconds"
PAGE = (
    "vllm:kv_cache_usage_perc {usage}\nvllm:num_requests_running {n}\nvllm:num_requests_waiting 0\n"
    "vllm:prefix_cache_hits_total {hits}\nvllm:prefix_cache_queries_total {asked}\n"
    f'{TTFT}_bucket{{{{le="0.1"}}}} {{few}}\n{TTFT}_bucket{{{{le="1"}}}} {{asked}}\n'
    f'{TTFT}_bucket{{{{le="+Inf"}}}} {{asked}}\n{TTFT}_sum {{few}}\n'
)
T_S = 1_800_000_000.0


def page(number: int) -> Any:
    return parse_page(
        PAGE.format(usage=number % 7 / 10, n=number % 3, hits=number * 30, asked=number * 100, few=number * 20).encode()
    )


@pytest.fixture
def history(tmp_path: Path) -> Iterator[SignalHistory]:
    database = open_database(f"sqlite:///{tmp_path / 'log.db'}")
    log = EventLog(database)
    yield SignalHistory(database, log)
    log.close()
    database.close()


def fed(history: SignalHistory, from_s: float, num: int, every_s: float = 10.0, name: str = "e") -> MetricsWatch:
    watch = MetricsWatch(name)
    for number in range(num):
        watch.take(from_s + every_s * number, page(number))
        history.take(name, from_s + every_s * number, watch)
    return watch


def test_figures_of_a_past_reading_are_those_that_were_told_then() -> None:
    watch, readings = MetricsWatch("e"), []
    for number in range(200):
        watch.take(T_S + 10 * number, page(number))
        readings.append((T_S + 10 * number, latest(watch.book)))
    now, then = overview_signals.figures(watch), overview_signals.figures_of_past(PastBook(readings))
    assert {name for name, one in now.items() if one.value is not None} >= {"used", "hit_rate_30m", "ttft_p99_s"}
    for name, figure in now.items():
        assert then[name].certainty == figure.certainty, name
        assert then[name].value == pytest.approx(figure.value), name


def test_a_minute_keeps_its_highest_and_its_zeros() -> None:
    readings = [
        (60.0, Stretch({("kv_usage", ""): Stood(6.0, 0.1, 0.9, 12), ("preemptions", ""): Counted(0.0, 60.0)})),
        (120.0, Stretch({("kv_usage", ""): Stood(2.4, 0.2, 0.2, 12), ("preemptions", ""): Counted(0.0, 60.0)})),
    ]
    told = overview_signals.figures_of_past(PastBook(readings))
    assert (told["used"].value, told["used_mean_5m"].value, told["used_max_5m"].value) == pytest.approx(
        (0.2, 0.35, 0.9)
    )
    assert told["preemptions_10m"].value == 0.0
    assert (told["ttft_p50_s"].value, told["ttft_p50_s"].certainty) == (None, "not_observable")


def test_of_long_ago_the_minute_in_which_the_moment_lies_is_told(history: SignalHistory) -> None:
    begin_s = T_S // 60 * 60
    fed(history, begin_s, 3 * 360 + 1)
    then = metrics_then(history, "e", begin_s + 605.0)
    assert then is not None
    assert (then.read_s, then.seconds) == (begin_s + 660, 60)
    # Of the readings 60 to 65: their mean.
    assert then.figures["used"].value == pytest.approx(sum(number % 7 for number in range(60, 66)) / 60)
    assert then.figures["hit_rate"].value == pytest.approx(0.3)
    assert iso_time(round((begin_s + 600) * 1e9)) in then.sentence
    fine = metrics_then(history, "e", begin_s + 3 * 3600 - 5)
    assert fine is not None
    assert (fine.read_s, fine.figures["used"].value) == (begin_s + 3 * 3600 - 10, 1079 % 7 / 10)


def test_a_silence_is_not_filled_by_what_was_told_before_or_after_it(history: SignalHistory) -> None:
    watch = fed(history, T_S, 4)
    watch.take(T_S + 2_000, page(9))
    history.take("e", T_S + 2_000, watch)
    assert metrics_then(history, "e", T_S - 1) is None
    assert metrics_then(history, "e", T_S + 1_000) is None
    assert metrics_then(history, "e", T_S + 35) is not None
    assert metrics_then(history, "e", T_S + 2_000) is not None
    assert metrics_then(history, "e", T_S + 300, every_s=290.0) is not None
    assert metrics_then(history, "other", T_S + 35) is None


def test_the_past_of_an_engine_of_hashes_has_the_figures_of_its_metrics(tmp_path: Path) -> None:
    with watched(tmp_path, *CHAINS) as http:
        fed(backend_of(http).signals, T0 - 60, 12)
        last = http.get("/api/residency").json()["seq"]
        then = http.get("/api/residency", params={"at": last}).json()
        (line,) = http.get("/api/overview", params={"source": "e", "at": last}).json()["engines"]
        early = http.get("/api/residency", params={"at": last.split(".")[0] + ".0"}).json()
    usage, rate = then["figures"]["usage"], then["figures"]["hit_rate"]
    assert (usage["value"], usage["certainty"]) == (line["figures"]["used"]["value"], "derived")
    assert rate["value"] == pytest.approx(0.3)
    assert (then["metrics"]["state"], early["metrics"]["state"]) == ("reading", "reading")
    assert any("as metrics told them at" in one["sentence"] for one in then["explanations"])


def test_what_nobody_watches_any_more_and_what_tells_metrics_alone_have_their_past_too(tmp_path: Path) -> None:
    with watched(tmp_path, *CHAINS) as http:
        fed(backend_of(http).signals, T0 - 60, 12)
    began_s = time.time() - 500
    gone = {"name": "m", "metrics": "http://127.0.0.1:9/metrics"}
    with serving(tmp_path, engines=[gone]) as http:
        fed(backend_of(http).signals, began_s, 12, name="m")
        told = http.get("/api/residency", params={"source": "e"}).json()
        at = iso_time(round((began_s + 60) * 1e9))
        alone = http.get("/api/residency", params={"source": "m", "at": at}).json()
        before = http.get("/api/residency", params={"source": "m", "at": iso_time(round((began_s - 60) * 1e9))})
        lines = {one["source"]: one for one in http.get("/api/overview", params={"at": at}).json()["engines"]}
    assert told["figures"]["usage"]["value"] is not None
    assert (alone["state"], alone["kind"], alone["figures"]["usage"]["value"]) == ("past", "metrics", 0.6)
    assert alone["figures"]["cached_blocks"]["certainty"] == "not_observable"
    assert lines["m"]["figures"]["used"]["value"] == 0.6
    assert before.status_code == 404
    assert before.json()["error"].startswith("Nothing is kept of what the metrics of m told at ")
