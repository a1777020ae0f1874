"""docs/boards.md has a row for every panel of the boards that people watch, and names only panels that we have."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from kvxray_app.components.overview_panels import (
    ALERTS_TITLE,
    FINDINGS_TITLE,
    FLEET,
    HEALTH_TITLE,
    LATELY_TITLE,
    PANELS,
    TENANTS_TITLE,
)
from kvxray_backend.metrics.labels import label_of
from kvxray_backend.metrics.ratios import RATIO_TOPICS
from kvxray_backend.metrics.signals import SIGNALS, TOPICS
from kvxray_backend.overview_figures import NOT_TOLD
from kvxray_backend.overview_signals import FIGURES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "app" / "kvxray_app"
DOC = (ROOT / "docs" / "boards.md").read_text()
BOARDS = {board["board"]: board["panels"] for board in json.loads((ROOT / "tests/data/boards.json").read_text())}
ROWS_OF = {panel.title: panel.rows for panel in (*PANELS, FLEET)}
OURS = {title: [row.label for row in rows] for title, rows in ROWS_OF.items()}
# Panels of the page Signals are topics of the table of signals, which the page draws as it is told.
SIGNAL_LABELS = {
    title: [label_of(one.name) for one in (*RATIO_TOPICS.get(title, ()), *signals)] for title, signals in TOPICS.items()
}
ANSWERS = re.compile(r"(Overview|Live|Signals): |not ours, because .{20}")
NAMED = re.compile(r"(Overview|Live|Signals): |\*\*([^*]+)\*\*(?: \(([^)]+)\))?")


def named(answer: str) -> list[tuple[str, str, list[str]]]:
    """What an answer names: page, panel, and what is to be looked for in it."""
    page, found = "Overview", []
    for new_page, panel, within in NAMED.findall(answer):
        page = new_page or page
        if panel:
            found.append((page, panel, within.split("; ") if within else []))
    return found


def rows(board: str) -> list[tuple[str, str]]:
    """Panels of a board and what the page says of them."""
    section = DOC.split(f"\n## {board}\n")[1].split("\n## ")[0]
    cells = [re.split(r" (?<!\\)\| ", line.strip("| ")) for line in section.splitlines() if line.startswith("| ")]
    return [(panel, answer) for panel, answer in cells if not panel.startswith(("panel", "---"))]


ROWS = [(board, panel, answer) for board in BOARDS for panel, answer in rows(board)]


def code_of(page: str) -> str:
    """All that draws a page of ours."""
    if page == "Overview":
        files = sorted((PAGE / "components").glob("overview*"))
    else:
        files = [PAGE / "words.py", *(one for one in (PAGE / "components").glob("*.js") if "overview" not in one.name)]
    return "\n".join(path.read_text() for path in files)


CODE = {page: code_of(page) for page in ("Overview", "Live")}


@pytest.mark.parametrize("board", BOARDS)
def test_every_panel_has_one_row(board: str) -> None:
    assert [panel for panel, _ in rows(board)] == BOARDS[board]


def test_no_board_is_told_that_is_not_listed() -> None:
    assert re.findall(r"^## (.+)$", DOC, re.M) == list(BOARDS)


@pytest.mark.parametrize(("board", "panel", "answer"), ROWS)
def test_a_row_says_where_it_is_or_why_it_is_not_ours(board: str, panel: str, answer: str) -> None:
    assert ANSWERS.match(answer), f"{board}: {panel}"


@pytest.mark.parametrize(("board", "panel", "answer"), [row for row in ROWS if "**" in row[2]])
def test_panels_of_ours_exist_on_the_page(board: str, panel: str, answer: str) -> None:
    for page, title, _ in named(answer):
        is_there = title in TOPICS if page == "Signals" else f'"{title}"' in CODE[page]
        assert is_there, f"{board}: {panel}: {page} has no panel called {title}"


@pytest.mark.parametrize(("board", "panel", "answer"), [row for row in ROWS if "** (" in row[2]])
def test_rows_in_brackets_exist_in_the_panel(board: str, panel: str, answer: str) -> None:
    for page, title, within in named(answer):
        labels = SIGNAL_LABELS[title] if page == "Signals" else OURS.get(title, [])
        lacking = [one for one in within if labels and not any(label.startswith(one) for label in labels)]
        assert not lacking, f"{board}: {panel}: {title} has no {lacking}"


def test_no_row_waits_for_anything() -> None:
    assert "needs metrics" not in DOC
    assert "needs alerts" not in DOC


@pytest.mark.parametrize(("board", "panel", "answer"), [row for row in ROWS if "** (" in row[2]])
def test_what_events_do_not_tell_is_fed_by_metrics(board: str, panel: str, answer: str) -> None:
    for _, title, within in named(answer):
        figures = [row.figure for row in ROWS_OF.get(title, ()) if row.label.startswith(tuple(within))]
        unfed = [name for name in figures if name in NOT_TOLD and name not in FIGURES]
        assert not unfed, f"{board}: {panel}: nothing tells {unfed}"


def test_every_signal_that_is_shown_is_told_by_some_metric() -> None:
    assert all(signal.told for signals in TOPICS.values() for signal in signals)
    for ratios in RATIO_TOPICS.values():
        assert all({one.above, one.below} <= SIGNALS.keys() for one in ratios)


def test_labels_of_a_panel_tell_its_signals_apart() -> None:
    for title, labels in SIGNAL_LABELS.items():
        assert len(labels) == len(set(labels)), title


def test_the_page_of_signals_draws_whatever_topics_there_are() -> None:
    drawing = "\n".join(path.read_text() for path in sorted((PAGE / "components").glob("signals*.js")))
    assert "topic.signals" in drawing
    assert "told?.topics" in drawing


def test_every_panel_of_the_overview_is_named() -> None:
    titles = [*OURS, ALERTS_TITLE, HEALTH_TITLE, FINDINGS_TITLE, LATELY_TITLE, TENANTS_TITLE]
    assert [title for title in titles if f"**{title}**" not in DOC] == []
