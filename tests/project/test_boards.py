"""docs/boards.md has a row for every panel of the boards that people watch, and names only panels that we have."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from kvxray_app.components.overview_panels import (
    FINDINGS_TITLE,
    FLEET,
    HEALTH_TITLE,
    LATELY_TITLE,
    PANELS,
)
from kvxray_backend.overview_figures import NOT_TOLD

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "app" / "kvxray_app"
DOC = (ROOT / "docs" / "boards.md").read_text()
BOARDS = {board["board"]: board["panels"] for board in json.loads((ROOT / "tests/data/boards.json").read_text())}
ROWS_OF = {panel.title: panel.rows for panel in (*PANELS, FLEET)}
OURS = {title: [row.label for row in rows] for title, rows in ROWS_OF.items()}
PARTS = "|".join(re.escape(words) for words in ("real engines (needs metrics", "operations (needs alerts"))
ANSWERS = re.compile(rf"(Overview|Live): |.*comes? with ({PARTS})|not ours, because .{{20}}")


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
def test_a_row_says_where_it_is_or_what_brings_it_or_why_it_is_not_ours(board: str, panel: str, answer: str) -> None:
    assert ANSWERS.match(answer), f"{board}: {panel}"


@pytest.mark.parametrize(("board", "panel", "answer"), [row for row in ROWS if "**" in row[2]])
def test_panels_of_ours_exist_on_the_page(board: str, panel: str, answer: str) -> None:
    for page, before, name in re.findall(r"(?:(Overview|Live): )?([^*]*)\*\*([^*]+)\*\*", answer):
        code = CODE["Live" if page == "Live" or "Live: " in before else "Overview"]
        assert f'"{name}"' in code, f"{board}: {panel}: no panel is called {name}"


@pytest.mark.parametrize(("board", "panel", "answer"), [row for row in ROWS if "** (" in row[2]])
def test_rows_in_brackets_exist_in_the_panel(board: str, panel: str, answer: str) -> None:
    for title, named in re.findall(r"\*\*([^*]+)\*\* \(([^)]+)\)", answer):
        labels = OURS.get(title, [])
        lacking = [one for one in named.split("; ") if labels and not any(label.startswith(one) for label in labels)]
        assert not lacking, f"{board}: {panel}: {title} has no {lacking}"


@pytest.mark.parametrize(("board", "panel", "answer"), [row for row in ROWS if "** (" in row[2]])
def test_a_number_is_said_to_come_where_it_is_not_told_and_nowhere_else(board: str, panel: str, answer: str) -> None:
    is_to_come = "; its number comes with " in answer
    for title, named in re.findall(r"\*\*([^*]+)\*\* \(([^)]+)\)", answer):
        figures = [row.figure for row in ROWS_OF.get(title, ()) if row.label.startswith(tuple(named.split("; ")))]
        assert [name for name in figures if (name in NOT_TOLD) != is_to_come] == [], f"{board}: {panel}"


def test_every_panel_of_the_overview_is_named() -> None:
    titles = [*OURS, HEALTH_TITLE, FINDINGS_TITLE, LATELY_TITLE]
    assert [title for title in titles if f"**{title}**" not in DOC] == []
