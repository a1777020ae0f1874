"""Figures, explanations and the map of what is cached, out of folds made by hand."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.stream_health import Place
from kvxray_backend.figure import Figure
from kvxray_backend.residency import measures
from kvxray_backend.residency.chain_order import NOT_HERE, ROOT, chain_order
from kvxray_backend.residency.columns import columns_of
from kvxray_backend.residency.explanations import explanations
from kvxray_backend.residency.figures import residency_figures
from kvxray_backend.residency.foreign_source import ForeignMoment, ForeignSource, Lately
from kvxray_backend.residency.map_frame import map_frame
from kvxray_backend.residency.picture import ResidencyPicture
from kvxray_backend.residency.places import places_view
from kvxray_backend.sources.foreign.offline import OfflineSession
from kvxray_engine.stream.residency_descriptor import NOT_TOLD
from kvxray_engine.stream.residency_map import ResidencyMap

from tests.backend.test_residency_routes import payload, removed, stored

S = 1_000_000_000
NOW_S = 1_000


class Told:
    """A source that has told batches: `fold` is what came of them."""

    def __init__(self) -> None:
        self._session = OfflineSession(b"k" * 32)
        self._next = 0

    def batch(self, *events: dict[str, Any], ts: float) -> None:
        self._session.feed("e", b"", self._next, payload(*events, ts=ts), int(ts * S))
        self._next += 1

    @property
    def fold(self) -> ResidencyMap:
        sources = self._session.sources
        return sources[0].fold if sources else ResidencyMap(NOT_TOLD)


def moment_of(source: Told, *findings: Finding, capacity: int | None = None) -> ForeignMoment:
    picture = ResidencyPicture(columns_of(source.fold))
    return ForeignMoment(
        ForeignSource("e", None, None), "live", "connected", 0, 1, picture, NOW_S * S, capacity, findings
    )


def metrics(**values: float) -> dict[str, Figure]:
    units: dict[str, Any] = {"used": "ratio", "hit_rate": "ratio"}
    return {name: Figure(value=value, unit=units[name], certainty="derived") for name, value in values.items()}


def sentences(moment: ForeignMoment, **told: float) -> str:
    return " ".join(one.sentence for one in explanations(moment, residency_figures(moment, metrics(**told))))


def test_rates_are_those_of_the_last_minute_and_lifetimes_those_of_what_went() -> None:
    source = Told()
    source.batch(stored([1, 2, 3, 4]), ts=900)
    source.batch(stored([5, 6]), ts=970)
    source.batch(removed(1, 2), ts=980)
    figures = residency_figures(moment_of(source), {})
    assert figures["stores_per_s"].value == pytest.approx(2 / 60)
    assert figures["evictions_per_s"].value == pytest.approx(2 / 60)
    assert figures["lifetime_p50_s"].value == 80.0
    assert figures["age_p50_s"].value == pytest.approx(65.0)
    assert {figures[name].certainty for name in ("stores_per_s", "evictions_per_s", "lifetime_p50_s")} == {"exact"}


def test_a_hash_that_came_back_makes_what_was_counted_derived() -> None:
    source = Told()
    source.batch(stored([1, 2]), ts=950)
    source.batch(removed(1), ts=960)
    source.batch(stored([1]), ts=970)
    figures = residency_figures(moment_of(source), {})
    assert (figures["evictions_per_s"].value, figures["evictions_per_s"].certainty) == (0.0, "derived")
    assert figures["lifetime_p50_s"].value is None


def test_a_second_copy_that_went_is_not_counted_and_said() -> None:
    source = Told()
    source.batch(stored([1]), ts=950)
    source.batch(stored([1]), ts=960)
    source.batch(removed(1), ts=970)
    figures = residency_figures(moment_of(source), {})
    assert (figures["evictions_per_s"].value, figures["evictions_per_s"].certainty) == (0.0, "derived")
    assert (figures["stores_per_s"].value, figures["stores_per_s"].certainty) == (pytest.approx(1 / 50), "derived")


def test_what_nobody_reports_is_not_observable_and_never_0() -> None:
    source = Told()
    source.batch(stored([1, 2]), ts=950)
    figures = residency_figures(moment_of(source), {})
    for name in ("usage", "hit_rate", "running", "waiting", "reuses_per_s", "capacity_blocks", "cached_share"):
        assert (figures[name].value, figures[name].certainty) == (None, "not_observable")


def test_usage_of_nothing_while_much_is_cached_is_explained() -> None:
    source = Told()
    source.batch(stored(list(range(1, 23))), ts=950)
    told = sentences(moment_of(source, capacity=23), used=0.0)
    assert told.startswith(
        "0.0% of the cache is in use while 22 of 23 blocks are cached: in use are blocks that requests hold;"
    )
    assert "is in use" not in sentences(moment_of(source, capacity=23), used=22 / 23)
    assert "is in use" not in sentences(moment_of(source, capacity=23))


def test_more_than_the_engine_has_is_explained_by_what_may_be_no_copies() -> None:
    source = Told()
    source.batch(stored([1, 2, 3]), ts=950)
    source.batch(stored([1, 2]), ts=960)
    moment = moment_of(source, capacity=4)
    figures = residency_figures(moment, {})
    assert (figures["cached_blocks"].value, figures["maybe_blocks"].value) == (5, 2)
    assert figures["cached_blocks"].certainty == "derived"
    assert "5 blocks are counted where the engine has 4: 2 of them may be reports" in sentences(moment)
    assert "2 blocks may be there or not" in sentences(moment_of(source, capacity=40))
    assert "removals were lost" in sentences(moment_of(source, capacity=2))


def test_blocks_beyond_the_gpu_are_told_apart() -> None:
    source = Told()
    source.batch(stored([1, 2]), stored([1], medium="CPU"), ts=950)
    figures = residency_figures(moment_of(source), {})
    assert (figures["cached_blocks"].value, figures["cached_elsewhere_blocks"].value) == (2, 1)
    assert "1 block more lies beyond the GPU" in sentences(moment_of(source))
    gpu, cpu = places_view(moment_of(source, capacity=9))
    assert [(one.tier, one.copies.value, one.capacity.value) for one in (gpu, cpu)] == [("GPU", 2, 9), ("CPU", 1, None)]


def test_hits_that_events_do_not_report_are_explained() -> None:
    source = Told()
    source.batch(stored([1]), ts=950)
    assert "The hit rate is 40.0% while no reuse" in sentences(moment_of(source), hit_rate=0.4)


def test_a_gap_makes_what_is_cached_derived_and_names_itself() -> None:
    source = Told()
    source.batch(stored([1, 2]), ts=950)
    source.fold.note_gap()
    gap = Place("e", 1, 5, 1).finding("seq_gap", "warning", "Batch 1 is missing.")
    moment = moment_of(source, gap)
    figure = residency_figures(moment, {})["cached_blocks"]
    assert (figure.certainty, figure.taints, figure.since_seq) == ("derived", (gap.id,), None)
    assert "Some events were lost" in sentences(moment)


def test_a_chain_whose_middle_is_gone_keeps_its_depth() -> None:
    source = Told()
    source.batch(stored([1, 2, 3, 4]), stored([9]), ts=950)
    source.batch(removed(2), ts=960)
    columns = columns_of(source.fold)
    order = chain_order(columns)
    hashes = [int.from_bytes(source.fold.hash_bytes(int(n)) or b"") for n in columns.ordinals[order.rows]]
    told = dict(zip(hashes, zip(order.parents.tolist(), order.depths.tolist(), strict=True), strict=True))
    assert told[1] == (ROOT, 0)
    assert told[3] == (NOT_HERE, 2)
    assert told[4] == (hashes.index(3), 3)
    assert (order.num_trees, order.num_broken, order.longest) == (3, 1, 4)


def test_the_map_of_nothing_is_its_header() -> None:
    frame = map_frame(ResidencyPicture(columns_of(Told().fold)), 3, 0)
    assert struct.unpack("<4sBBHIIIId", frame)[:7] == (b"KVXC", 1, 0, 0, 3, 0, 0)


def test_a_map_without_room_says_how_many_there_are_and_keeps_parents_before_children() -> None:
    source = Told()
    source.batch(*(stored(list(range(base, base + 10))) for base in range(1, 500, 10)), ts=950)
    frame = map_frame(ResidencyPicture(columns_of(source.fold)), 1, NOW_S * S, limit=123)
    _, _, _, _, _, count, total, trees, _ = struct.unpack_from("<4sBBHIIIId", frame)
    assert (count, total, trees, len(frame)) == (123, 500, 50, 32 + 123 * 24)
    parents = np.frombuffer(frame, "<u4", count, 32 + 4 * count)
    told = parents < NOT_HERE
    assert (parents[told] < np.arange(count)[told]).all()


@pytest.mark.parametrize(("most", "certainty"), [(64, "exact"), (7, "derived")])
def test_of_very_many_blocks_every_nth_stands_for_all(
    monkeypatch: pytest.MonkeyPatch, most: int, certainty: str
) -> None:
    monkeypatch.setattr(measures, "MAX_LOOKED_AT", most)
    source = Told()
    for number in range(21):
        source.batch(stored([100 + number]), ts=NOW_S - 2 * number)
    figures = residency_figures(moment_of(source), {})
    assert (figures["age_p50_s"].value, figures["age_p50_s"].certainty) == (pytest.approx(20.0, abs=4.0), certainty)
    assert figures["idle_p50_s"].value == pytest.approx(20.0, abs=4.0)


def test_what_came_back_is_told_for_each_that_was_evicted_in_the_last_minute() -> None:
    source = Told()
    source.batch(stored([1, 2, 3, 4]), ts=980)
    moment = moment_of(source)
    told = residency_figures(replace(moment, lately=Lately(4, 1)), {})["eviction_regret"]
    assert (told.value, told.unit, told.certainty) == (0.25, "ratio", "exact")
    for lately, now_s in ((Lately(0, 0), NOW_S), (Lately(4, 1), 1_041)):
        none = residency_figures(replace(moment, lately=lately, now_ns=now_s * S), {})["eviction_regret"]
        assert (none.value, none.certainty) == (None, "exact")
    assert residency_figures(moment, {})["eviction_regret"].certainty == "not_observable"


def test_the_capacity_of_a_later_life_is_no_exact_capacity_of_an_earlier_one() -> None:
    source = Told()
    source.batch(stored([1]), ts=950)
    for is_of_then, certainty in ((True, "exact"), (False, "derived")):
        moment = replace(moment_of(source, capacity=4), is_capacity_of_then=is_of_then)
        figures = residency_figures(moment, {})
        assert (figures["capacity_blocks"].value, figures["capacity_blocks"].certainty) == (4, certainty)
        assert figures["cached_share"].certainty == certainty
        assert [place.capacity.certainty for place in places_view(moment)] == [certainty]
