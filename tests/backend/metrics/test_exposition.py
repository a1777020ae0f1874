"""Reading the text of a metrics page, whoever wrote it."""

from __future__ import annotations

import math

import pytest
from kvxray_backend.metrics.exposition import (
    MAX_LABELS,
    MAX_LINE_CHARS,
    MAX_LINES,
    MAX_PAGE_BYTES,
    NotMetricsError,
    parse_page,
)

from tests.backend.metrics.pages import page, recorded_body


def test_a_real_page_is_read_whole() -> None:
    read = parse_page(recorded_body())
    assert read.num_bad_lines == 0
    assert len(read.samples) == 510
    assert read.types["vllm:kv_cache_usage_perc"] == "gauge"
    assert read.types["vllm:iteration_tokens_total"] == "histogram"
    (info,) = [sample for sample in read.samples if sample.name == "vllm:cache_config_info"]
    assert info.labels["num_gpu_blocks"] == "24"
    assert len(info.labels) == 37


def test_openmetrics_with_exemplars_times_and_quoted_names_is_read() -> None:
    read = page(
        '# TYPE a counter\na_total{b="c"} 3 1700000000.5 # {trace_id="x"} 1 1700000000\n'
        '{"vllm.kv_cache_usage_perc","engine"="0"} 0.5\n# EOF\n'
    )
    assert [(sample.name, dict(sample.labels), sample.value) for sample in read.samples] == [
        ("a_total", {"b": "c"}, 3.0),
        ("vllm.kv_cache_usage_perc", {"engine": "0"}, 0.5),
    ]
    assert read.num_bad_lines == 0


def test_escapes_braces_and_quotes_in_labels_are_values() -> None:
    (sample,) = page('a{path="C:\\\\dir",said="\\"}{\\n\\"",last="",} 1').samples
    assert sample.labels == {"path": "C:\\dir", "said": '"}{\n"', "last": ""}


@pytest.mark.parametrize(("text", "value"), [("+Inf", math.inf), ("-Inf", -math.inf), ("1e3", 1000.0), (".5", 0.5)])
def test_numbers_are_read_as_prometheus_writes_them(text: str, value: float) -> None:
    assert page(f"a {text}").samples[0].value == value


def test_not_a_number_is_kept_as_that() -> None:
    assert math.isnan(page("a NaN").samples[0].value)


@pytest.mark.parametrize(
    "line",
    [
        "a",
        "a 1_000",
        "a one",
        "a{b=c} 1",
        'a{b="c} 1',
        'a{b="c"',
        'a{b="1",b="2"} 1',
        '{b="c"} 1',
        'a{"other"} 1',
        "a 1 2 3",
        "a 0x10",
        "\x00",
        "9a 1",
    ],
)
def test_a_bad_line_costs_one_count_and_nothing_else(line: str) -> None:
    read = page(f"before 1\n{line}\nafter 2\n")
    assert [sample.name for sample in read.samples] == ["before", "after"]
    assert read.num_bad_lines == 1


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"<!DOCTYPE html><html><body>404</body></html>", "a web page"),
        (b'{"detail": "Not Found"}', "JSON"),
        (b"Internal Server Error", "text of another kind"),
        (b"\xff\xfe\x00binary", "not text"),
        (b"a 1\n" * (MAX_PAGE_BYTES // 4 + 1), "larger than 8 MiB"),
    ],
)
def test_what_is_no_metrics_page_is_refused_in_one_sentence(body: bytes, what: str) -> None:
    with pytest.raises(NotMetricsError, match=what) as told:
        parse_page(body)
    assert "\n" not in str(told.value)


def test_an_empty_page_is_a_page_without_samples() -> None:
    assert parse_page(b"").samples == ()
    assert parse_page(b"# nothing yet\n").num_bad_lines == 0


def test_an_endless_line_is_left_out() -> None:
    read = page("a 1\n" + 'b{c="' + "x" * MAX_LINE_CHARS + '"} 1\nd 1 # ' + "x" * MAX_LINE_CHARS + "\ne 1\n")
    assert [sample.name for sample in read.samples] == ["a", "e"]
    assert read.num_bad_lines == 2


def test_more_labels_than_anybody_has_make_a_bad_line() -> None:
    labels = ",".join(f'l{number}="x"' for number in range(MAX_LABELS + 1))
    read = page(f"a 1\nb{{{labels}}} 1\n")
    assert [sample.name for sample in read.samples] == ["a"]


def test_lines_beyond_the_bound_are_not_read() -> None:
    read = page("a 1\n" * (MAX_LINES + 100))
    assert len(read.samples) == MAX_LINES
    assert read.num_bad_lines == 1


@pytest.mark.parametrize(
    "line", ['a{b="' * 3000, "a{" + '""' * 8000, 'a{b="' + "\\" * 16_000, "a" * 16_000, "a " * 8000, "{" * 16_000]
)
def test_lines_made_to_be_slow_are_bad_lines_like_others(line: str) -> None:
    # Backtracking would take longer than anybody waits for these.
    assert page("good 1\n" + (line + "\n") * 50).num_bad_lines == 50
