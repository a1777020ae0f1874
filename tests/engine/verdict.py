"""How the runners of recordings end: a line for each miss, then `N passed, N failed`; exit 0, 1 on a miss, 2 on bad
input."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class BadInput(Exception):
    """A file that cannot be read, or is not a recording; one sentence."""


@dataclass
class Verdict:
    """Comparisons that held, comparisons that did not, and a line about each miss."""

    passed: int = 0
    failed: int = 0
    misses: list[str] = field(default_factory=list)

    def __add__(self, other: Verdict) -> Verdict:
        return Verdict(self.passed + other.passed, self.failed + other.failed, self.misses + other.misses)


def report(runs: Iterable[Callable[[], Verdict]]) -> int:
    """Runs them one by one, telling misses as they come; the exit code."""
    total = Verdict()
    try:
        for run in runs:
            verdict = run()
            for miss in verdict.misses:
                print(miss)
            total += verdict
    except BadInput as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0


def read_lines(path: Path) -> list[Any]:
    """JSON lines, gzipped or not."""
    return [_parse(line, path) for line in read_bytes(path).splitlines()]


def read_json(path: Path) -> Any:
    return _parse(read_bytes(path), path)


def read_bytes(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError, gzip.BadGzipFile) as error:
        raise BadInput(f"{path} cannot be read: {error}") from error


def _parse(text: bytes, path: Path) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path} is not JSON: {error}") from error


def require(record: Any, fields: Iterable[str], where: str) -> None:
    """Raises BadInput unless `record` is an object with these fields."""
    if not isinstance(record, dict):
        raise BadInput(f"{where} is not an object.")
    missing = [name for name in fields if name not in record]
    if missing:
        raise BadInput(f"{where} has no {', '.join(missing)}.")


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """A few words for each field on which the two do not agree."""
    return [
        f"{name} is {_shorten(ours[name])}, vLLM's is {_shorten(theirs[name])}"
        for name in ours
        if ours[name] != theirs[name]
    ]


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:197]}..."
