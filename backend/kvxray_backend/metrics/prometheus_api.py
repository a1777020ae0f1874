"""An existing Prometheus, Thanos, Mimir or VictoriaMetrics as the source of an engine's metrics: its past at attach,
then its present every so often.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

import httpx2

from kvxray_backend.metrics.exposition import Page
from kvxray_backend.metrics.metrics_http import checked_url, get_bytes
from kvxray_backend.metrics.names import any_spelling
from kvxray_backend.metrics.prometheus_answer import read_answer
from kvxray_backend.metrics.series import MAX_POINTS
from kvxray_backend.metrics.signal import Kind
from kvxray_backend.metrics.signals import metric_kinds

TIMEOUT_S: Final = 30.0
MAX_ANSWER_BYTES: Final = 64 << 20
LONGEST_BACK_S: Final = 15 * 86_400.0
LEAST_STEP_S: Final = 15.0
_LABEL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SUFFIXES: Final[Mapping[Kind, str]] = {"gauge": "", "counter": "(_total)?", "histogram": "_(bucket|sum|count)"}
# What engines say of themselves. Not when processes began: beside an engine others of its pod may tell that.
_BESIDES: Final = (
    any_spelling("vllm", ["cache_config_info"]),
    any_spelling("sglang", ["cache_config_info"]),
    any_spelling("trtllm", ["kv_cache_config_info"]),
)


class PrometheusApi:
    """`matchers`: label values that choose one engine, such as namespace and pod. Raises ValueError for an address that
    is none and for labels that are none; its questions raise FetchError and AnswerError, each with one sentence.
    """

    def __init__(self, http: httpx2.AsyncClient, url: str, matchers: Mapping[str, str]) -> None:
        self._http = http
        self._base = checked_url(url).rstrip("/")
        self._selectors = [_selector(pattern, matchers) for pattern in _questions()]

    async def page(self, at_s: float) -> Page:
        """Everything that the table of signals knows, as it stood then."""
        pages = [await self._ask("query", {"query": selector, "time": f"{at_s:.3f}"}) for selector in self._selectors]
        found = [page for answer in pages for page in answer.values()]
        return _joined(found)

    async def back_fill(
        self, from_s: float, to_s: float, step_s: float | None = None
    ) -> AsyncIterator[tuple[float, Page]]:
        """Pages of the past, in order: at most fifteen days back, and at most as many as series keep. step_s None: as
        close together as that allows.
        """
        from_s = max(from_s, to_s - LONGEST_BACK_S)
        step_s = max(step_s or 0.0, LEAST_STEP_S, (to_s - from_s) / MAX_POINTS)
        at: dict[float, list[Page]] = {}
        for selector in self._selectors:
            params = {"query": selector, "start": f"{from_s:.3f}", "end": f"{to_s:.3f}", "step": f"{step_s:.3f}"}
            for when, page in (await self._ask("query_range", params)).items():
                at.setdefault(when, []).append(page)
        for when in sorted(at):
            yield when, _joined(at[when])

    async def _ask(self, what: str, params: Mapping[str, str]) -> dict[float, Page]:
        body = await get_bytes(
            self._http,
            f"{self._base}/api/v1/{what}",
            max_bytes=MAX_ANSWER_BYTES,
            timeout_s=TIMEOUT_S,
            params=params,
            accept="application/json",
            bad_request_too=True,
        )
        return await asyncio.to_thread(read_answer, body)


def _questions() -> list[str]:
    """Patterns of names, one a prefix and kind, so that a question stays shorter than what servers take in a URL."""
    names: dict[tuple[str, Kind], list[str]] = {}
    for name, kind in metric_kinds().items():
        prefix, _, rest = name.partition(":")
        names.setdefault((prefix, kind), []).append(rest)
    asked = [any_spelling(prefix, rests) + _SUFFIXES[kind] for (prefix, kind), rests in names.items()]
    return ["|".join(_BESIDES), *asked]


def _selector(pattern: str, matchers: Mapping[str, str]) -> str:
    chosen = [f"__name__=~{_quoted(pattern)}"]
    for label, value in sorted(matchers.items()):
        if not _LABEL.fullmatch(label) or label == "__name__":
            raise ValueError(f"{label[:40]!r} is no name of a label")
        chosen.append(f"{label}={_quoted(value)}")
    return "{" + ",".join(chosen) + "}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _joined(pages: Sequence[Page]) -> Page:
    return Page(
        tuple(sample for page in pages for sample in page.samples),
        num_bad_lines=sum(page.num_bad_lines for page in pages),
    )
