"""How long each fault took to be detected, with each seed, in the engine's time; and the table of docs/faults.md."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Final

from tests.faults.matrix import MATRIX, SEEDS

PATH: Final = Path(__file__).parent / "times.json"
PAGE: Final = Path(__file__).parents[2] / "docs" / "faults.md"
HEAD: Final = "| fault | rule that catches it | whom it names | detected after, median and worst | and in between |"
_NAMES: Final = {
    "request": "the request, with its blocks",
    "lease": "the lease, with its blocks",
    "pin": "the pin, with its blocks that nobody uses",
    "block": "the block, and the request",
    "message": "the messages that are missing",
    "engine": "the engine",
}
BETWEEN: Final = {
    "leak-on-abort": "3 s of grace",
    "leak-on-error": "3 s of grace",
    "forgotten-dereference": "3 s of grace",
    "stuck-pin": "5 min in which nobody uses it, and 50 requests",
    "expired-lease": "10 s of the lease, 3 s of grace",
    "lost-messages": "1 min of the rule",
    "frozen-publisher": "3 s of silence",
}
"""What is waited for, beside the next inspection (0.5 s) and the next look at the rules (5 s)."""


def read() -> dict[str, list[float]]:
    """By fault, a time for each of the seeds."""
    told: dict[str, list[float]] = json.loads(PATH.read_text())
    return told


def write(times: dict[str, list[float]]) -> None:
    lines = [f'  "{name}": {json.dumps([round(one, 1) for one in theirs])}' for name, theirs in times.items()]
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def table(times: dict[str, list[float]]) -> list[str]:
    """Its lines."""
    rows = []
    for name, expected in MATRIX.items():
        if not expected.rule:
            rows.append(f"| `{name}` | none: it is healed | | | |")
            continue
        rule = f"[{expected.rule}](rules/{expected.rule}.md)"
        rule += "".join(f", beside it [{other}](rules/{other}.md)" for other in expected.also)
        theirs = times[name]
        assert len(theirs) == len(SEEDS), f"{name} has no time for each seed"
        took = f"{median(theirs):.1f} s, {max(theirs):.1f} s"
        rows.append(f"| `{name}` | {rule} | {_NAMES[expected.owner]} | {took} | {BETWEEN.get(name, 'nothing')} |")
    return [HEAD, "| --- " * HEAD.count(" | ") + "| --- |", *rows]


def put_into_page(lines: list[str]) -> None:
    """In the place of the table that stands there."""
    page = PAGE.read_text().splitlines()
    begin = page.index(HEAD)
    end = next(number for number in range(begin, len(page)) if not page[number].startswith("|"))
    PAGE.write_text("\n".join([*page[:begin], *lines, *page[end:]]) + "\n")
