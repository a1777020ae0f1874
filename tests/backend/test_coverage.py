"""What can be known of which engine, panel by panel."""

from __future__ import annotations

import pytest
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.stream_health import Place
from kvxray_backend.coverage import Known, PanelCoverage, count_of, coverage_of
from kvxray_backend.coverage_panels import NEEDED_SIGNALS, PANELS
from kvxray_backend.metrics.signals import SIGNALS

HASHES = Known(kind="hashes", is_heard=True, is_whole=True)
BLOCKS = Known(kind="blocks", is_heard=True, is_whole=True, has_capacity=True)


def panels(known: Known) -> dict[str, PanelCoverage]:
    return {panel.panel: panel for panel in coverage_of(known)}


def certainties(known: Known, *keys: str) -> list[str]:
    return [panels(known)[key].certainty for key in keys]


def finding(kind: str) -> Finding:
    return Place("e", 1, 5, 1).finding(kind, "warning", "Something was found.")


def test_every_panel_says_why_in_one_sentence_whatever_is_known() -> None:
    for known in (HASHES, BLOCKS, Known(kind="metrics"), Known(kind="hashes"), Known(kind="metrics", role="decode")):
        for panel in coverage_of(known):
            assert (panel.why[-1], panel.why.count(". ")) == (".", 0)
            assert panel.why[0].isupper()
        counts = count_of(known)
        assert counts.exact + counts.derived + counts.not_observable == len(PANELS)


def test_signals_that_panels_ask_for_exist() -> None:
    assert SIGNALS.keys() >= NEEDED_SIGNALS
    assert len({panel.key for panel in PANELS}) == len(PANELS)


def test_events_of_blocks_tell_everything_but_what_one_pool_does_not_have() -> None:
    told = {key for key, panel in panels(BLOCKS).items() if panel.certainty == "exact"}
    assert {panel.key for panel in PANELS} - told == {"hit_rate_tiers", "waiting_reasons", "transfers", "offload"}


def test_events_of_hashes_tell_what_is_cached_and_never_who_holds_it() -> None:
    assert certainties(HASHES, "cached_set", "chains", "evictions", "lifetimes") == ["exact"] * 4
    assert certainties(HASHES, "ref_counts", "holders", "leaks", "used", "reuse") == ["not_observable"] * 5


def test_who_joined_in_the_middle_knows_less() -> None:
    late = Known(kind="hashes", is_heard=True, is_whole=False)
    assert certainties(late, "cached_set", "chains") == ["derived", "derived"]


def test_metrics_add_what_they_tell_and_nothing_else() -> None:
    told = frozenset({"kv_usage", "prefix_queries", "ttft"})
    both = Known(kind="hashes", is_heard=True, is_whole=True, metrics="reading", signals=told)
    assert certainties(both, "used", "hit_rate", "ttft", "queue") == ["derived", "exact", "derived", "not_observable"]
    assert "nor do its metrics" in panels(both)["queue"].why
    assert "no metrics are read" in panels(HASHES)["queue"].why
    assert certainties(Known(kind="metrics", metrics="reading", signals=told), "cached_set", "used") == [
        "not_observable", "derived",
    ]  # fmt: skip


def test_metrics_that_cannot_be_read_any_more_are_never_exact() -> None:
    gone = Known(kind="metrics", metrics="failing", signals=frozenset({"prefix_queries"}))
    assert certainties(gone, "hit_rate", "ttft") == ["derived", "not_observable"]


@pytest.mark.parametrize(
    ("kind", "spoiled", "spared"),
    [
        ("seq_gap", ("cached_set", "evictions", "chains"), ("capacity",)),
        ("orphan_parent", ("chains",), ("cached_set", "evictions")),
        ("resident_over_capacity", ("cached_set",), ("evictions",)),
        ("stale_stream", ("cached_set", "evictions", "chains", "lifetimes"), ("capacity",)),
        ("duplicate_batch", (), ("cached_set", "evictions", "chains")),
    ],
)
def test_what_a_finding_spoils_is_derived_and_names_it(
    kind: str, spoiled: tuple[str, ...], spared: tuple[str, ...]
) -> None:
    found = finding(kind)
    known = panels(Known(kind="hashes", is_heard=True, is_whole=True, has_capacity=True, findings=(found,)))
    assert all((known[key].certainty, known[key].taints) == ("derived", (found.id,)) for key in spoiled)
    assert all((known[key].certainty, known[key].taints) == ("exact", ()) for key in spared)


def test_a_finding_that_is_over_spoils_nothing() -> None:
    over = finding("seq_gap").ended(9)
    assert certainties(Known(kind="hashes", is_heard=True, is_whole=True, findings=(over,)), "cached_set") == ["exact"]
