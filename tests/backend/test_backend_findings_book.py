"""Findings open once, go on, end, and are told to the store at each change but not at each second."""

from __future__ import annotations

import pytest
from kvxray_backend.analysis.finding import Finding, Subjects
from kvxray_backend.analysis.findings_book import FindingsBook
from kvxray_backend.analysis.leaks import ENDED_S_AGO
from kvxray_backend.stored_findings import finding_of, row_of


def finding(
    id: str, kind: str = "leak", blocks: tuple[int, ...] = (1,), time_ns: int = 10, sentence: str = "now"
) -> Finding:
    return Finding(
        id=id, kind=kind, severity="critical", source="s", epoch=1, seq0=1, seq1=1, time_ns=time_ns,
        subjects=Subjects(blocks=blocks, requests=("r",)), numbers={"blocks": len(blocks)}, sentence=sentence,
        sentence_when_over="over after {lasted}", sentence_when_engine_ended="over with the engine",
    )  # fmt: skip


def test_a_finding_opens_goes_on_and_ends() -> None:
    stored: list[Finding] = []
    book = FindingsBook(stored.append)
    book.reconcile("leak", [finding("a")], 10)
    book.check_integrity()
    book.reconcile("leak", [finding("a", time_ns=20, sentence="10 s ago")], 20)
    book.check_integrity()
    assert [(f.state, f.time_ns) for f in stored] == [("open", 10)]
    assert (book.open[0].time_ns, book.open[0].sentence) == (10, "10 s ago")
    book.reconcile("leak", [], 4_000_000_010)
    book.check_integrity()
    assert book.open == ()
    assert (stored[-1].state, stored[-1].ended_ns, stored[-1].sentence) == ("ended", 4_000_000_010, "over after 4 s")


def test_more_blocks_are_stored_anew() -> None:
    stored: list[Finding] = []
    book = FindingsBook(stored.append)
    book.reconcile("leak", [finding("a")], 10)
    book.reconcile("leak", [finding("a", blocks=(1, 2))], 20)
    assert [f.subjects.blocks for f in stored] == [(1,), (1, 2)]


def test_other_numbers_are_stored_anew_but_not_that_time_has_passed() -> None:
    stored: list[Finding] = []
    book = FindingsBook(stored.append)
    for only, ago in ((1, 4.0), (1, 5.0), (2, 6.0)):
        numbers = {"blocks": 2, "blocks_only": only, ENDED_S_AGO: ago}
        book.reconcile("leak", [finding("a").model_copy(update={"numbers": numbers})], 10)
    assert [(f.numbers["blocks_only"], f.numbers[ENDED_S_AGO]) for f in stored] == [(1, 4.0), (2, 6.0)]


def test_where_part_is_unknown_nothing_found_ends_nothing() -> None:
    book = FindingsBook(lambda _: None)
    book.reconcile("leak", [finding("a")], 10)
    book.reconcile("leak", [finding("b")], 20, is_all=False)
    assert [f.id for f in book.open] == ["a", "b"]


def test_findings_of_another_epoch_end_with_its_engine() -> None:
    stored: list[Finding] = []
    book = FindingsBook(stored.append, [finding("old"), finding("other", kind="stale")])
    book.note(finding("new").model_copy(update={"epoch": 2}))
    book.end_other_epochs(2, ("leak", "gap"), 50)
    book.check_integrity()
    assert [f.id for f in book.open] == ["new", "other"]
    assert (stored[-1].id, stored[-1].ended_ns, stored[-1].sentence) == ("old", 50, "over with the engine")


@pytest.mark.parametrize(
    ("kind", "over"),
    [
        ("leak", "Leak: r held 3 blocks after its end; released 4 s after it was noticed."),
        ("stale", "The engine was not heard for 4 s."),
        ("storage", "New events could not be stored for 4 s."),
        ("gap", "now"),
    ],
)
def test_one_left_open_by_an_earlier_process_knows_how_to_end(kind: str, over: str) -> None:
    left = finding_of(row_of(finding("a", kind=kind, blocks=(1, 2, 3))))
    assert left.sentence == "now"
    assert left.ended(4_000_000_010).sentence == over


def test_other_kinds_are_left_alone() -> None:
    book = FindingsBook(lambda _: None)
    book.note(finding("g", kind="gap"))
    book.reconcile("leak", [], 20)
    assert [f.id for f in book.open] == ["g"]
    book.end_kinds(("gap",), 30)
    assert book.open == ()


def test_what_is_over_at_once_is_stored_and_never_open() -> None:
    stored: list[Finding] = []
    book = FindingsBook(stored.append)
    book.note(finding("r", kind="restart").ended(10))
    assert book.open == ()
    assert stored[0].state == "ended"


def test_what_an_earlier_process_left_open_ends_unless_it_is_found_again() -> None:
    stored: list[Finding] = []
    book = FindingsBook(stored.append, [finding("a"), finding("b")])
    book.reconcile("leak", [finding("b", time_ns=99)], 99)
    assert [f.id for f in book.open] == ["b"]
    assert book.open[0].time_ns == 10
    assert [(f.id, f.state) for f in stored] == [("a", "ended")]


def test_a_finding_survives_the_database_and_json_has_times_for_people() -> None:
    original = finding("a").ended(2_000_000_000)
    again = finding_of(row_of(original))
    assert again.model_dump() == original.model_dump()
    assert original.model_dump(mode="json") == {
        "id": "a", "kind": "leak", "severity": "critical", "source": "s", "epoch": 1, "seq0": 1, "seq1": 1,
        "time": "1970-01-01T00:00:00.000Z", "state": "ended", "ended_at": "1970-01-01T00:00:02.000Z",
        "subjects": {"blocks": [1], "requests": ["r"], "hashes": [], "sources": []},
        "numbers": {"blocks": 1}, "certainty": "exact", "sentence": "over after 2 s", "mark": "",
    }  # fmt: skip
