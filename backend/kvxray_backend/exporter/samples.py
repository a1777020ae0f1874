"""The samples of one page as they are gathered: by metric, bounded, without what is not known."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from typing import Final

from kvxray_engine.server.prometheus_text import Family, LabelText, Sample

from kvxray_backend.exporter.metrics import METRICS

MAX_SAMPLES: Final = 500_000
MAX_OF_ENGINE: Final = 5_000
"""Of one engine, so that none takes the room of the others."""
MAX_LABEL_CHARS: Final = 128
NO_LABELS: Final = LabelText()


class Samples:
    """Invariant: of one metric no two samples have the same labels."""

    def __init__(self) -> None:
        self._by_metric: dict[str, list[Sample]] = {}
        self._num = self._num_of_engine = 0
        self.num_left_out = 0

    def begin_engine(self) -> None:
        """What follows is of another one."""
        self._num_of_engine = 0

    def add(self, metric: str, value: float | None, labels: LabelText = NO_LABELS, suffix: str = "") -> None:
        """A value that is not known is no sample."""
        if value is None or isnan(value):
            return
        assert metric in METRICS, f"{metric} is not in the table of metrics"
        if not self.has_room(1):
            return
        self._num += 1
        self._num_of_engine += 1
        self._by_metric.setdefault(metric, []).append(Sample(value, labels, suffix))

    def has_room(self, num: int) -> bool:
        """For so many that go together; where there is none, all of them are left out."""
        if self._num + num <= MAX_SAMPLES and self._num_of_engine + num <= MAX_OF_ENGINE:
            return True
        self.num_left_out += num
        return False

    def families(self) -> Iterator[Family]:
        """In the order of the table; a metric without samples is left out."""
        for name, metric in METRICS.items():
            if name in self._by_metric:
                yield Family(name, metric.help, metric.type, self._by_metric[name])


def label(text: str) -> str:
    """As a label may be: whatever came from outside, short, and text that can be encoded."""
    return text[:MAX_LABEL_CHARS].encode("utf-8", "replace").decode("utf-8", "replace")
