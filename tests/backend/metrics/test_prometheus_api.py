"""An existing Prometheus as the source of metrics, over real HTTP."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from kvxray_backend.metrics.book import MetricsBook
from kvxray_backend.metrics.exposition import Page
from kvxray_backend.metrics.hit_rates import hit_rate
from kvxray_backend.metrics.metrics_http import FetchError, metrics_http
from kvxray_backend.metrics.prometheus_answer import AnswerError, read_answer
from kvxray_backend.metrics.prometheus_api import LONGEST_BACK_S, PrometheusApi
from kvxray_backend.metrics.series import MAX_POINTS

from tests.backend.metrics.fake_prometheus import FakePrometheus
from tests.backend.metrics.web import Answer, serving, text

POD = (("engine", "0"), ("namespace", "llm"), ("pod", "a"))
OTHER = (("engine", "0"), ("namespace", "llm"), ("pod", "b"))
DAY = 86_400.0
NOW = 100 * DAY


def small_prometheus() -> FakePrometheus:
    """Two pods; the counters of the first one are a token found in four looked up, each second."""
    return FakePrometheus(
        {
            ("vllm:kv_cache_usage_perc", POD): lambda at: 0.25,
            ("vllm:gpu_cache_usage_perc", OTHER): lambda at: 0.75,
            ("vllm:prefix_cache_hits_total", POD): lambda at: at - 99 * DAY if at >= 99 * DAY else None,
            ("vllm:prefix_cache_queries_total", POD): lambda at: 4 * (at - 99 * DAY) if at >= 99 * DAY else None,
            ("vllm:time_to_first_token_seconds_bucket", (*POD, ("le", "+Inf"))): lambda at: at,
            ("ray_vllm_num_requests_running", POD): lambda at: 7.0,
            ("vllm:cache_config_info", (*POD, ("num_gpu_blocks", "24"))): lambda at: 1.0,
            ("http_requests_total", POD): lambda at: at,
            ("process_start_time_seconds", (*POD, ("container", "sidecar"))): lambda at: at,
        }
    )


def filled(
    prometheus: FakePrometheus, from_s: float, to_s: float, *, step_s: float | None = None, **matchers: str
) -> tuple[MetricsBook, list[tuple[float, Page]]]:
    book, pages = MetricsBook(), []

    async def story(url: str) -> None:
        async with metrics_http() as http:
            async for at_s, page in PrometheusApi(http, url, matchers).back_fill(from_s, to_s, step_s):
                pages.append((at_s, page))
                book.take(at_s, page)

    with serving(prometheus.answer) as web:
        asyncio.run(story(web.url))
    return book, pages


def now(answer: Answer, **matchers: str) -> Page:
    async def story(url: str) -> Page:
        async with metrics_http() as http:
            return await PrometheusApi(http, url + "/", matchers).page(NOW)

    with serving(answer) as web:
        return asyncio.run(story(web.url))


def test_the_past_of_one_engine_comes_in_order_of_time() -> None:
    prometheus = small_prometheus()
    book, pages = filled(prometheus, NOW - 600, NOW, step_s=60, namespace="llm", pod="a")
    assert [at for at, _ in pages] == [NOW - 600 + 60 * number for number in range(11)]
    found = hit_rate(book, "prefix", 600)
    assert (found.value, found.denominator, found.seconds) == (0.25, 2400, 600)
    assert book.value("kv_usage") == 0.25
    assert book.value("requests_running") == 7
    assert book.histogram("ttft", 600).num == 600
    assert {asked["path"] for asked in prometheus.asked} == {"/api/v1/query_range"}


def test_a_counter_that_begins_within_the_past_counts_from_0() -> None:
    book, _ = filled(small_prometheus(), 99 * DAY - 600, 99 * DAY + 600, step_s=300, pod="a")
    assert book.grown("prefix_hits", 1200).amount == 600


def test_the_past_is_bounded_in_days_and_in_points() -> None:
    prometheus = small_prometheus()
    _, pages = filled(prometheus, 0.0, NOW, step_s=1.0, pod="a")
    assert pages[0][0] == NOW - LONGEST_BACK_S
    assert len(pages) <= MAX_POINTS + 1
    assert {float(asked["step"]) for asked in prometheus.asked} == {LONGEST_BACK_S / MAX_POINTS}


def test_the_present_is_one_page_of_everything_that_is_known() -> None:
    book = MetricsBook()
    page = now(small_prometheus().answer, namespace="llm")
    book.take(NOW, page)
    assert sorted(book.by_engine("kv_usage").values()) == [0.25, 0.75]
    names = {sample.name for sample in page.samples}
    assert "vllm:cache_config_info" in names
    # Another process of the pod that restarts is no restart of the engine.
    assert names.isdisjoint({"http_requests_total", "process_start_time_seconds"})


def test_values_of_labels_cannot_leave_their_quotes() -> None:
    prometheus = small_prometheus()
    assert now(prometheus.answer, pod='a"} or {pod="b').samples == ()
    assert all('pod="a\\"} or {pod=\\"b"' in asked["query"] for asked in prometheus.asked)


@pytest.mark.parametrize("label", ["__name__", "a b", 'x="y",z', ""])
def test_what_is_no_label_is_refused_before_anything_is_asked(label: str) -> None:
    async def story() -> None:
        async with metrics_http() as http:
            with pytest.raises(ValueError, match="no name of a label"):
                PrometheusApi(http, "http://127.0.0.1:9", {label: "x"})

    asyncio.run(story())


def test_questions_are_short_enough_for_a_url() -> None:
    prometheus = small_prometheus()
    now(prometheus.answer, pod="a")
    assert 0 < max(len(asked["query"]) for asked in prometheus.asked) < 4_000


@pytest.mark.parametrize(
    ("answer", "error", "what"),
    [
        (text('{"status":"error","errorType":"bad_data","error":"parse error"}', 400), AnswerError, "parse error"),
        (text('{"status":"error"}', 422), AnswerError, "does not say why"),
        (text("<html></html>"), AnswerError, "not what a Prometheus answers"),
        (text('{"status":"success","data":{"resultType":"scalar","result":[]}}'), AnswerError, "scalar"),
        (text('{"status":"success","data":{"resultType":"vector","result":[1]}}'), AnswerError, "not what"),
        (text("[" * 100_000), AnswerError, "not what"),
        (text("", 302, location="/login"), FetchError, "redirects"),
        (text("no", 403), FetchError, "token"),
        (text("no", 503), FetchError, "503"),
    ],
)
def test_what_is_no_answer_is_told_in_a_sentence(answer: Answer, error: type[Exception], what: str) -> None:
    with pytest.raises(error, match=what):
        now(answer)


def answer_of(*series: dict[str, Any], kind: str = "matrix") -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": series}}).encode()


def test_numbers_that_are_none_cost_one_count() -> None:
    pages = read_answer(
        answer_of(
            {"metric": {"__name__": "a"}, "values": [[1, "0.5"], [2, "x"], [3, "NaN"]]},
            {"metric": {"job": "no name"}, "values": [[1, "1"]]},
        )
    )
    assert [len(page.samples) for page in pages.values()] == [1, 1]
    assert sum(page.num_bad_lines for page in pages.values()) == 2


def test_more_series_than_one_engine_has_are_refused() -> None:
    with pytest.raises(AnswerError, match="ask for fewer"):
        read_answer(answer_of(*({"metric": {"__name__": "a"}, "values": []} for _ in range(20_001))))


def test_nothing_found_is_no_page() -> None:
    assert read_answer(answer_of()) == {}
    assert now(text(answer_of(kind="vector"))).samples == ()
