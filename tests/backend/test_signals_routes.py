"""`/api/signals` and its course, of a running backend that reads metrics over real HTTP."""

from __future__ import annotations

import time
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from kvxray_backend.metrics.exposition import parse_page
from kvxray_backend.metrics.signals import SIGNALS
from kvxray_backend.signal_history import SignalHistory
from kvxray_backend.sources.foreign.metrics_watch import MetricsWatch

from tests.backend.metrics.fake_prometheus import FakePrometheus
from tests.backend.metrics.web import serving as serving_pages
from tests.backend.metrics.web import text
from tests.backend.served import backend_of, serving, until

BUCKETS = "".join(
    f'vllm:time_to_first_token_seconds_bucket{{{{le="{bound}"}}}} {{{count}}}\n'
    for bound, count in (("0.1", "most"), ("1", "n"), ("+Inf", "n"))
)
PAGE = (
    "vllm:kv_cache_usage_perc 0.25\nvllm:num_requests_running 2\n"
    "vllm:prefix_cache_hits_total {hits}\nvllm:prefix_cache_queries_total {n}\n"
    'vllm:request_success_total{{finished_reason="stop"}} {n}\n'
    'vllm:request_success_total{{finished_reason="abort"}} {most}\n' + BUCKETS
)


class Told:
    """A page whose counters grow with every reading, as an engine's do."""

    def __init__(self):
        self.n = 0

    def __call__(self, handler):
        self.n += 10
        text(PAGE.format(n=self.n, hits=self.n // 2, most=self.n * 9 // 10))(handler)


@contextmanager
def watched(folder, answer=None, **spec):
    with serving_pages(answer or Told()) as web:
        engine = {"name": "e", "metrics": f"{web.url}/metrics", "every_s": 1.0, **spec}
        with serving(folder, engines=[engine]) as http:
            yield http


def topics(http, **query):
    answer = http.get("/api/signals", params=query)
    assert answer.status_code == 200, answer.text
    return {signal["name"]: signal for topic in answer.json()["topics"] for signal in topic["signals"]}


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    with watched(tmp_path_factory.mktemp("signals")) as http:
        until(lambda: topics(http).get("ttft", {}).get("p50"))
        yield http


def test_only_what_is_told_is_listed_with_what_it_is_read_from(http):
    told = topics(http, engine="e")
    assert {"kv_usage", "requests_running", "prefix_hits", "hit_rate", "ttft"} <= told.keys()
    assert not {"preemptions", "router_requests", "kv_capacity_tokens"} & told.keys()
    usage = told["kv_usage"]
    assert (usage["value"], usage["certainty"], usage["unit"], usage["kind"]) == (0.25, "derived", "ratio", "gauge")
    assert usage["told_by"] == "`vllm:kv_cache_usage_perc` (before: `vllm:gpu_cache_usage_perc`)"
    assert (told["hit_rate"]["value"], told["hit_rate"]["kind"]) == (0.5, "ratio")


def test_counters_are_told_with_their_rate_and_histograms_with_their_quantiles(http):
    told = topics(http)
    assert told["prefix_hits"]["rate_per_s"] > 0
    assert told["prefix_hits"]["value"] >= 10
    assert told["ttft"]["p50"] == pytest.approx(0.0556, abs=1e-3)
    assert told["ttft"]["p99"] == pytest.approx(0.91, abs=1e-3)
    assert (told["ttft"]["value"], told["ttft"]["mean"]) == (None, None)


def test_parts_come_with_the_label_that_tells_them_apart(http):
    parts = topics(http)["requests_finished"]["parts"]
    assert [part["labels"] for part in parts] == [{"finished_reason": "stop"}, {"finished_reason": "abort"}]
    assert all(part["rate_per_s"] > 0 for part in parts)


def test_with_all_what_is_not_told_is_null_and_not_observable(http):
    told = topics(http, all=1)
    assert SIGNALS.keys() <= told.keys()
    absent = told["preemptions"]
    assert (absent["certainty"], absent["value"], absent["rate_per_s"], absent["told_by"]) == (
        "not_observable",
        None,
        None,
        None,
    )


def test_how_reading_goes_is_told(http):
    status = http.get("/api/signals").json()["status"]
    assert (status["state"], status["make"], status["stale"]) == ("reading", "vLLM", False)
    assert status["sentence"] == "Read every 1 s."
    assert status["pages"] >= 1


def test_the_course_has_a_value_a_bucket_and_holes(http):
    query = {"signals": "kv_usage,prefix_hits,ttft,hit_rate,requests_finished", "heat": 1}
    told = http.get("/api/signals/course", params=query).json()
    series = told["series"]
    assert len(told["times"]) == len(series["kv_usage"]["values"])
    assert series["kv_usage"]["values"][0] is None
    assert 0.25 in series["kv_usage"]["values"]
    assert series["requests_finished"]["parts"].keys() == {"stop", "abort"}
    assert series["hit_rate"]["kind"] == "ratio"
    assert [(row["lower"], row["upper"]) for row in series["ttft"]["heat"]] == [(0.0, 0.1), (0.1, 1.0)]
    assert series["prefix_hits"]["total"] > 0


def test_times_of_the_course_are_those_asked_for(http):
    now = datetime.now(UTC)
    begin = datetime.fromtimestamp(now.timestamp() - 600, UTC)
    query = {"signals": "kv_usage", "from": begin.isoformat(), "to": now.isoformat(), "step": 60}
    told = http.get("/api/signals/course", params=query).json()
    assert told["step_s"] == 60
    assert len(told["times"]) in (10, 11)


def test_a_course_that_is_to_fit_begins_with_the_first_reading(http):
    query = {"signals": "kv_usage", "fit": 1}
    fitting = http.get("/api/signals/course", params=query).json()
    whole = http.get("/api/signals/course", params=query | {"fit": 0}).json()
    assert fitting["times"][0] > whole["times"][0]
    assert fitting["step_s"] <= whole["step_s"]
    assert [one for one in fitting["series"]["kv_usage"]["values"] if one is not None]


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        ({"signals": "kv_usage,nonsense"}, 400, "There is no signal 'nonsense'"),
        ({"signals": ""}, 400, "Ask for 1 to 100 signals"),
        ({"signals": ",".join(list(SIGNALS)[:101])}, 400, "Ask for 1 to 100 signals"),
        ({"signals": "kv_usage", "engine": "nobody"}, 404, "There is no engine 'nobody'"),
        ({"signals": "kv_usage", "from": "2026-01-01", "to": "2025-01-01"}, 400, "begins before it ends"),
        ({"signals": "kv_usage", "from": "2020-01-01"}, 400, "stretch of up to 31 days"),
        ({"signals": "kv_usage", "from": "1.5"}, 400, "Metrics have times"),
        ({"signals": "kv_usage", "step": 1}, 400, "more than 1,500 buckets"),
        ({"signals": "kv_usage", "step": 0}, 422, "Mend step"),
        ({"signals": "kv_usage", "to": "yesterday"}, 400, "ISO-8601"),
        ({}, 422, "Mend signals"),
    ],
)
def test_a_question_that_makes_no_sense_gets_one_sentence(http, query, status, says):
    answer = http.get("/api/signals/course", params=query)
    assert answer.status_code == status
    assert says in answer.json()["error"]
    assert answer.json()["error"].count(". ") == 0


def test_of_the_past_is_told_what_was_read_then(http):
    until(lambda: (topics(http)["prefix_hits"]["value"] or 0) > 20)
    told = topics(http, at=datetime.now(UTC).isoformat())
    assert told["kv_usage"]["value"] == 0.25
    assert told["kv_usage"]["told_by"] is None
    assert topics(http, at="2026-01-01T00:00:00Z") == {}


def test_metrics_that_cannot_be_read_are_a_sentence_and_no_numbers(tmp_path):
    with watched(tmp_path, text("gone", status=503)) as http:
        status = until(lambda: (s := http.get("/api/signals").json()["status"])["state"] == "failing" and s)
        assert status["sentence"].startswith("No metrics yet: ")
        assert status["last"] is None
        assert topics(http) == {}


def test_an_engine_without_metrics_says_so(tmp_path):
    engine = {"name": "quiet", "events": "tcp://127.0.0.1:9"}
    with serving(tmp_path, engines=[engine]) as http:
        answer = http.get("/api/signals", params={"engine": "quiet"}).json()
        assert answer["topics"] == []
        assert answer["status"]["state"] == "none"
        assert answer["at"] is None


def test_where_no_engine_is_watched_the_answer_says_what_to_do(tmp_path):
    with serving(tmp_path) as http:
        answer = http.get("/api/signals").json()
        assert (answer["engine"], answer["topics"], answer["status"]["state"]) == ("", [], "none")
        assert "attach one" in answer["status"]["sentence"]
        assert http.get("/api/signals", params={"engine": "nobody"}).status_code == 404


def test_an_engine_of_ours_has_no_metrics_to_read_and_says_so(tmp_path):
    ours = {"name": "ours", "events": "tcp://127.0.0.1:9", "replay": "tcp://127.0.0.1:9"}
    with serving(tmp_path, ours) as http:
        for query in ({}, {"engine": "ours"}):
            answer = http.get("/api/signals", params=query).json()
            assert (answer["engine"], answer["topics"]) == ("ours", [])
            assert "tells of its blocks itself" in answer["status"]["sentence"]


def test_what_is_not_watched_any_more_keeps_its_past(tmp_path):
    now_s = time.time() // 60 * 60 - 600
    with serving(tmp_path) as http:
        backend = backend_of(http)
        history, watch = SignalHistory(backend.database, backend.log), MetricsWatch("gone")
        for number in range(20):
            watch.take(now_s + 10 * number, parse_page(PAGE.format(n=number, hits=0, most=0).encode()))
            history.take("gone", now_s + 10 * number, watch)
        history.close()
        answer = http.get("/api/signals", params={"engine": "gone"}).json()
        assert "not watched any more" in answer["status"]["sentence"]
        course = http.get("/api/signals/course", params={"engine": "gone", "signals": "kv_usage"}).json()
        assert [one for one in course["series"]["kv_usage"]["values"] if one is not None][:1] == [0.25]


def test_a_prometheus_gives_the_past_at_once_and_a_restart_does_not_count_it_twice(tmp_path):
    began = time.time() - 86_400 * 3
    fake = FakePrometheus(
        {
            ("vllm:kv_cache_usage_perc", (("pod", "p"),)): lambda at: 0.5 if at >= began else None,
            ("vllm:num_preemptions_total", (("pod", "p"),)): lambda at: 2.0 * (at - began) if at >= began else None,
        }
    )
    from_text = datetime.fromtimestamp(began + 7_200, UTC).isoformat()
    query = {"signals": "preemptions,kv_usage", "from": from_text, "step": 3_600}
    told = []
    with serving_pages(fake.answer) as web:
        engine = {"name": "e", "prometheus": web.url, "match": {"pod": "p"}, "every_s": 1.0}
        for _ in range(2):
            with serving(tmp_path, engines=[engine]) as http:
                until(lambda: http.get("/api/signals").json()["status"]["pages"])
                answer = http.get("/api/signals/course", params=query).json()
                told.append((answer["series"]["preemptions"], len(answer["times"])))
    for line, num in told:
        values = [value for value in line["values"] if value is not None]
        assert len(values) >= num - 2
        assert values == pytest.approx([2.0] * len(values), rel=0.02)
