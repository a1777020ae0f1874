"""What a Prometheus' HTTP API answers (Thanos, Mimir and VictoriaMetrics answer alike), and pages out of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from kvxray_backend.metrics.exposition import MAX_LABEL_CHARS, MAX_LABELS, MAX_NAME_CHARS, Page, Sample

MAX_SERIES: Final = 20_000
MAX_POINTS: Final = 2_000_000


class AnswerError(ValueError):
    """It answered, but not with what was asked for; says in one sentence what with."""


class _Series(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str] | None = None
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct):
    result_type: str = msgspec.field(name="resultType")
    result: list[_Series]


class _Answer(msgspec.Struct):
    status: str
    data: _Data | None = None
    error: str = ""


_DECODER: Final = msgspec.json.Decoder(_Answer)


def read_answer(body: bytes) -> dict[float, Page]:
    """Pages by their time, in order of time: all samples that have it. Raises AnswerError."""
    data = _decoded(body)
    if len(data.result) > MAX_SERIES:
        raise AnswerError(f"it has {len(data.result):,} series that match, more than {MAX_SERIES:,}: ask for fewer")
    if sum(len(series.values) for series in data.result) > MAX_POINTS:
        raise AnswerError(f"it sends more than {MAX_POINTS:,} numbers: ask for less time")
    samples: dict[float, list[Sample]] = {}
    num_bad = 0
    for series in data.result:
        name, labels = series.metric.get("__name__", ""), _labels(series.metric)
        if not name or len(name) > MAX_NAME_CHARS or labels is None:
            num_bad += 1
            continue
        for at_s, text in [series.value] if series.value is not None else series.values:
            number = _number(text)
            if number is None:
                num_bad += 1
            else:
                samples.setdefault(at_s, []).append(Sample(name, labels, number))
    pages = {at_s: Page(tuple(samples[at_s])) for at_s in sorted(samples)}
    if num_bad and pages:
        last = max(pages)
        pages[last] = Page(pages[last].samples, num_bad_lines=num_bad)
    return pages


def _decoded(body: bytes) -> _Data:
    try:
        answer = _DECODER.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        raise AnswerError("what it answers is not what a Prometheus answers") from None
    if answer.status != "success" or answer.data is None:
        raise AnswerError(f"it refuses the question: {answer.error[:200] or 'and does not say why'}")
    if answer.data.result_type not in ("vector", "matrix"):
        raise AnswerError(f"it answers with {answer.data.result_type[:20]!r}, not with series")
    return answer.data


def _labels(metric: Mapping[str, str]) -> dict[str, str] | None:
    labels = {name: value for name, value in metric.items() if name != "__name__"}
    if len(labels) > MAX_LABELS or any(
        len(name) > MAX_NAME_CHARS or len(value) > MAX_LABEL_CHARS for name, value in labels.items()
    ):
        return None
    return labels


def _number(text: str) -> float | None:
    try:
        return float(text) if len(text) <= 40 else None
    except ValueError:
        return None
