"""The text of a metrics page as samples: Prometheus' format and OpenMetrics, from whoever answers at that address.

An own small parser: the reference client's gives up a whole page for one bad line, and sets no bounds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

MAX_PAGE_BYTES: Final = 8 << 20
MAX_LINES: Final = 50_000
# vLLM's line about its configuration has 37 labels and 1,300 characters.
MAX_LINE_CHARS: Final = 16_384
MAX_LABELS: Final = 128
MAX_LABEL_CHARS: Final = 2_048
MAX_NAME_CHARS: Final = 256

# Dots are what OpenTelemetry and Datadog put into names.
_BARE: Final = r"[A-Za-z_:][A-Za-z0-9_:.]*+"
# Possessive, so that no text makes them go back over what they read.
_QUOTED: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_SAMPLE: Final = re.compile(
    rf'(?P<name>{_BARE})?+\s*+(?:\{{(?P<labels>(?:[^"{{}}]|{_QUOTED})*+)\}})?+'
    r"\s*+(?P<value>[^\s#]++)(?:\s++[0-9.eE+-]++)?+\s*+(?:#.*)?"
)
_LABEL: Final = re.compile(rf"\s*+(?P<name>{_BARE}|{_QUOTED})\s*+(?:=\s*+(?P<value>{_QUOTED}))?+\s*+(?:,|$)")
_TYPE: Final = re.compile(rf"#\s*TYPE\s+(?P<name>{_BARE}|{_QUOTED})\s+(?P<type>[a-z]+)\s*")
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?Inf(?:inity)?|NaN", re.IGNORECASE)
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPED: Final = {"n": "\n", '"': '"', "\\": "\\"}


class NotMetricsError(ValueError):
    """What came is no metrics page; says in one sentence what it is instead."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One line. `value` may be NaN or infinite; the line's own time is left out, since the scrape's counts."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Page:
    """One page. `types`: what the page says a family is, by its name. `num_bad_lines`: neither sample nor comment, too
    long, or beyond the bounds.
    """

    samples: tuple[Sample, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    num_bad_lines: int = 0


def parse_page(body: bytes) -> Page:
    """Raises NotMetricsError for what is none: too large, not text, or without one line that reads as a metric."""
    if len(body) > MAX_PAGE_BYTES:
        raise NotMetricsError(f"the page is larger than {MAX_PAGE_BYTES >> 20} MiB; that is no engine's metrics page")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise NotMetricsError("what the address sends is not text, so it is no metrics page") from None
    samples: list[Sample] = []
    types: dict[str, str] = {}
    num_bad = 0
    for line in _lines(text):
        if line is None or not _take(line, samples, types):
            num_bad += 1
    if num_bad and not samples:
        raise NotMetricsError(_what_it_is(text))
    return Page(tuple(samples), types, num_bad)


def _lines(text: str) -> Iterator[str | None]:
    """Lines with something in them; None for one that is too long, or for all beyond the bound."""
    start = 0
    for _ in range(MAX_LINES):
        if start >= len(text):
            return
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        if end - start > MAX_LINE_CHARS:
            yield None
        elif line := text[start:end].strip():
            yield line
        start = end + 1
    if start < len(text):
        yield None


def _take(line: str, samples: list[Sample], types: dict[str, str]) -> bool:
    """False: a bad line."""
    if line.startswith("#"):
        if said := _TYPE.fullmatch(line):
            types[_bare(said["name"])] = said["type"]
        return True
    sample = _sample(line)
    if sample is None:
        return False
    samples.append(sample)
    return True


def _sample(line: str) -> Sample | None:
    found = _SAMPLE.fullmatch(line)
    if found is None or not _NUMBER.fullmatch(found["value"]):
        return None
    read = _labels(found["labels"] or "")
    if read is None:
        return None
    quoted_name, labels = read
    name = found["name"] or quoted_name
    if not name or (found["name"] and quoted_name) or len(name) > MAX_NAME_CHARS:
        return None
    return Sample(name, labels, float(found["value"]))


def _labels(text: str) -> tuple[str, dict[str, str]] | None:
    """The name where it stands among the labels, in quotes, and the labels; None where they do not read."""
    labels: dict[str, str] = {}
    name = ""
    at = 0
    text = text.strip()
    while at < len(text):
        found = _LABEL.match(text, at)
        if found is None or len(labels) >= MAX_LABELS:
            return None
        if found["value"] is None:
            if name or labels or not found["name"].startswith('"'):
                return None
            name = _bare(found["name"])
        else:
            key, value = _bare(found["name"]), _bare(found["value"])
            if len(key) > MAX_NAME_CHARS or len(value) > MAX_LABEL_CHARS or key in labels:
                return None
            labels[key] = value
        at = found.end()
    return name, labels


def _bare(text: str) -> str:
    """Without its quotes and escapes, if it has any."""
    if not text.startswith('"'):
        return text
    return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[0]), text[1:-1])


def _what_it_is(text: str) -> str:
    start = text.lstrip()[:1]
    what = {"<": "a web page", "{": "JSON", "[": "JSON"}.get(start, "text of another kind")
    return f"what the address sends is {what}, not a metrics page"
