"""A Prometheus of which the test knows every number: it answers as the HTTP API does, over real HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

Series = Mapping[tuple[str, tuple[tuple[str, str], ...]], Any]


class FakePrometheus:
    """`series`: (name, labels) to a function from time to value, None where it has none then."""

    def __init__(self, series: Series) -> None:
        self._series = series
        self.asked: list[dict[str, str]] = []

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        url = urlsplit(handler.path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        self.asked.append({"path": url.path} | asked)
        times = [float(asked["time"])] if url.path.endswith("/query") else _times(asked)
        key = "value" if url.path.endswith("/query") else "values"
        result = []
        for (name, labels), value in self._series.items():
            if not _chosen(asked["query"], {"__name__": name} | dict(labels)):
                continue
            points = [[at, str(number)] for at in times if (number := value(at)) is not None]
            if points:
                result.append(
                    {"metric": {"__name__": name} | dict(labels), key: points if key == "values" else points[0]}
                )
        kind = "vector" if key == "value" else "matrix"
        body = json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}).encode()
        handler.send_response(200)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


def _times(asked: Mapping[str, str]) -> list[float]:
    start, end, step = (float(asked[name]) for name in ("start", "end", "step"))
    return [start + step * number for number in range(int((end - start) / step) + 1)]


def _chosen(selector: str, labels: Mapping[str, str]) -> bool:
    """Whether `{a="b",c=~"d"}` chooses these labels."""
    matchers = re.findall(r'(\w+)(=~|=)"((?:[^"\\]|\\.)*)"', selector)
    assert matchers, f"no selector: {selector}"
    for label, how, quoted in matchers:
        wanted, value = json.loads(f'"{quoted}"'), labels.get(label, "")
        if not (re.fullmatch(wanted, value) if how == "=~" else wanted == value):
            return False
    return True
