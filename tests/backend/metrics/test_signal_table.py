"""The table of signals: every metric it names is found, by every spelling, and nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from kvxray_backend.metrics.exposition import Page, Sample
from kvxray_backend.metrics.names import canonical, families_in
from kvxray_backend.metrics.reading import read_page
from kvxray_backend.metrics.signal import Signal, Term, Told
from kvxray_backend.metrics.signals import SIGNALS, TOPICS, metric_kinds
from kvxray_backend.metrics.signals_page import signals_page

from tests.backend.metrics.pages import page, recorded_body

DOC = Path(__file__).parents[3] / "docs" / "signals.md"
SPELLINGS = ("{0}:{1}", "ray_{0}:{1}", "ray_{0}_{1}", "{0}.{1}", "{0}_{1}")
WAYS = [
    pytest.param(signal, way, term, name, id=f"{signal.name}-{name}")
    for signal in SIGNALS.values()
    for ways in signal.told.values()
    for way in ways
    for term in way.terms
    for name in term.names
]


def page_of(signal: Signal, way: Told, told_name: str, told_term: Term, spelling: str = "{0}:{1}") -> Page:
    """A page that tells all terms of one way, the one in question by the name in question."""
    samples = []
    for term in way.terms:
        name = told_name if term is told_term else term.names[0]
        spelled = spelling.format(*name.split(":", 1))
        labels = ({way.split: "x"} if way.split else {}) | {label: values[0] for label, values in term.only.items()}
        if signal.kind == "histogram":
            samples.append(Sample(spelled + "_bucket", labels | {"le": "+Inf"}, 3.0))
            samples.append(Sample(spelled + "_sum", labels, 6.0))
            samples.append(Sample(spelled + "_count", labels, 3.0))
        else:
            suffix = "_total" if signal.kind == "counter" else ""
            samples.append(Sample(spelled + suffix, labels, 0.5))
    if way.times:
        samples.append(Sample("trtllm_kv_cache_tokens_per_block", {}, 32.0))
    return Page(tuple(samples))


@pytest.mark.parametrize(("signal", "way", "term", "name"), WAYS)
def test_every_name_of_the_table_feeds_its_signal(signal: Signal, way: Told, term: Term, name: str) -> None:
    read = read_page(page_of(signal, way, name, term))
    assert signal.name in {reading.signal for reading in read.readings}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", ["kv_usage", "prefix_hits", "ttft", "iteration_tokens"])
def test_every_spelling_feeds_the_same_signal(name: str, spelling: str) -> None:
    signal = SIGNALS[name]
    way = signal.told["vllm"][0]
    read = read_page(page_of(signal, way, way.terms[0].names[0], way.terms[0], spelling))
    assert [reading.signal for reading in read.readings] == [name]
    assert read.families == ("vllm",)


def test_a_counter_is_found_without_its_total_too() -> None:
    read = read_page(page("vllm:num_preemptions 3\n"))
    assert [(reading.signal, reading.value) for reading in read.readings] == [("preemptions", 3.0)]


def test_no_metric_is_of_two_kinds() -> None:
    kinds = [(name, signal.kind) for signal in SIGNALS.values() for name in told_names(signal)]
    assert dict(kinds) == metric_kinds()
    assert len(set(kinds)) == len(metric_kinds())


def test_names_of_the_table_are_canonical() -> None:
    assert all(canonical(name) == name for name in metric_kinds())


def test_units_that_convert_are_signals() -> None:
    assert all(
        way.times in SIGNALS
        for signal in SIGNALS.values()
        for ways in signal.told.values()
        for way in ways
        if way.times
    )


def test_what_a_signal_is_named_is_named_once() -> None:
    assert len(SIGNALS) == sum(len(signals) for signals in TOPICS.values())


def test_ratios_are_never_summed_nor_averaged() -> None:
    gauges = [signal for signal in SIGNALS.values() if signal.kind == "gauge" and signal.unit == "ratio"]
    assert gauges
    assert all(signal.combine == "max" for signal in gauges)


def test_metrics_of_nobody_we_know_have_no_name() -> None:
    assert canonical("http_requests_total") is None
    assert canonical("vllm") is None
    assert families_in(["python_info", "dynamo_component_kvstats_total_blocks", "vllm:x"]) == ("vllm", "dynamo")


def test_every_cache_metric_of_the_recorded_page_is_in_the_table() -> None:
    """What is left over of a real page is about flops, parameters of requests, and times of creation."""
    told = {canonical(name) for name in page(recorded_body().decode()).types} - {None}
    known = {spelling for name in metric_kinds() for spelling in (name, f"{name}_total")}
    left = {name for name in told - known if not name.endswith("_created")}
    assert left == {
        "vllm:cache_config_info",
        "vllm:estimated_flops_per_gpu_total",
        "vllm:estimated_read_bytes_per_gpu_total",
        "vllm:estimated_write_bytes_per_gpu_total",
        "vllm:request_max_num_generation_tokens",
        "vllm:request_params_max_tokens",
        "vllm:request_params_n",
    }


def test_the_page_of_signals_is_what_the_table_gives() -> None:
    wanted = signals_page()
    assert DOC.read_text() == wanted, "python -m kvxray_backend.metrics.signals_page docs/signals.md"
    assert all(f"| `{name}` |" in wanted for name in SIGNALS)


def told_names(signal: Signal) -> list[str]:
    return [name for ways in signal.told.values() for way in ways for term in way.terms for name in term.names]
