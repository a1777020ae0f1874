"""Pages for tests: written by hand, or as a real vLLM 0.32 served them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from kvxray_backend.metrics.book import MetricsBook
from kvxray_backend.metrics.exposition import Page, parse_page

DATA = Path(__file__).parents[2] / "data"


def page(text: str) -> Page:
    return parse_page(text.encode())


def recorded_body() -> bytes:
    """The whole page of a server with 24 blocks of 32 tokens, after 23 requests."""
    with gzip.open(DATA / "metrics" / "server-vllm-0.32.0.metrics.txt.gz") as file:
        return file.read()


def recorded_log() -> list[dict[str, Any]]:
    """Snapshots of the same server while it worked: t, note, nframes, metrics {series: value}."""
    with gzip.open(DATA / "metrics" / "server-vllm-0.32.0.log.jsonl.gz") as file:
        return [json.loads(line) for line in file]


def book_of(*texts: str, every_s: float = 10.0) -> MetricsBook:
    """Pages that came ten seconds apart."""
    book = MetricsBook()
    for number, text in enumerate(texts):
        book.take(number * every_s, page(text))
    return book
