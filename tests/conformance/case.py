"""One public bug report as a small input with the right outcome: read from a line, checked before it is run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.engine.verdict import BadInput, read_lines, require

STEP_KINDS = ("ev", "eng", "prom", "ctl")


class NotBuilt(Exception):
    """Nothing here answers that yet; the text says what."""


@dataclass(frozen=True)
class Case:
    id: str
    steps: list[dict[str, Any]]
    expect: dict[str, Any]
    settings: dict[str, Any]

    @property
    def letter(self) -> str:
        return self.id[:1]

    def setting(self, name: str, default: Any) -> Any:
        """Some stand beside the steps, some among what is expected."""
        return self.settings.get(name, self.expect.get(name, default))


def read_cases(paths: list[Path]) -> list[Case]:
    """Raises BadInput with one sentence for what holds no cases."""
    cases = [
        _case(record, f"Line {number} of {path.name}")
        for path in paths
        for number, record in enumerate(read_lines(path), 1)
    ]
    if not cases:
        raise BadInput(f"{', '.join(path.name for path in paths)}: no case in it.")
    return cases


def _case(record: Any, where: str) -> Case:
    require(record, ("id", "steps", "expect"), where)
    steps, expect = record["steps"], record["expect"]
    if not isinstance(record["id"], str) or not record["id"] or not isinstance(expect, dict):
        raise BadInput(f"{where} has an id that is no text, or expects what is no object.")
    if not isinstance(steps, list):
        raise BadInput(f"{where} has steps that are no list.")
    for step in steps:
        _check_step(step, where)
    return Case(record["id"], steps, expect, record)


def _check_step(step: Any, where: str) -> None:
    if not isinstance(step, dict) or sum(kind in step for kind in STEP_KINDS) != 1:
        raise BadInput(f"{where} has a step that is none of {', '.join(STEP_KINDS)}.")
    if "ev" in step:
        require(step, ("src", "seq"), f"A batch in {where.lower()}")
        is_batch = isinstance(step["src"], str) and isinstance(step["ev"], list)
        if not is_batch or type(step["seq"]) is not int or not 0 <= step["seq"] < 1 << 64:
            raise BadInput(f"{where} has a batch whose source, number or events are none.")
    if "prom" in step and not isinstance(step["prom"], str):
        raise BadInput(f"{where} has a metrics page that is no text.")
    if "eng" in step and not isinstance(step["eng"], list):
        raise BadInput(f"{where} has operations of an engine that are no list.")
