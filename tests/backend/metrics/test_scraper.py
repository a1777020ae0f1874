"""Scraping a metrics page over real HTTP: slow, huge, redirecting, dying and lying servers."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import Awaitable, Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx2
import pytest
from kvxray_backend.metrics.bearer import Bearer, NoTokenError, TokenPlace
from kvxray_backend.metrics.book import MetricsBook
from kvxray_backend.metrics.exposition import MAX_PAGE_BYTES, NotMetricsError, Page
from kvxray_backend.metrics.metrics_http import FetchError, checked_url, metrics_http
from kvxray_backend.metrics.scraper import Scraper, fetch_page

from tests.backend.metrics.pages import recorded_body
from tests.backend.metrics.web import serving, text

PAGE = "vllm:num_requests_running 3\n"
SOON_S = 0.3


def fetched(url: str, timeout_s: float = 5.0, **client: Any) -> Page:
    async def story() -> Page:
        async with metrics_http(**client) as http:
            return await fetch_page(http, url, timeout_s)

    return asyncio.run(story())


def test_a_page_is_fetched_and_read() -> None:
    with serving(text(recorded_body())) as web:
        assert len(fetched(f"{web.url}/metrics").samples) == 510
    assert web.seen[0][0] == "/metrics"
    assert web.seen[0][1]["accept-encoding"] == "identity"


def test_a_redirect_is_refused_and_not_followed() -> None:
    with serving(text("", 302, location="http://169.254.169.254/latest")) as web:
        with pytest.raises(FetchError, match="redirects"):
            fetched(web.url)
        assert len(web.seen) == 1


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (text("gone", 404), "answers with 404"),
        (text("who are you", 401), "token is missing or wrong"),
        (text("broken", 500), "answers with 500"),
        (text(gzip.compress(b"a 1\n" * 100), content_encoding="gzip"), "compresses"),
    ],
)
def test_other_answers_are_refused_in_a_sentence(answer: Any, what: str) -> None:
    with serving(answer) as web, pytest.raises(FetchError, match=what):
        fetched(web.url)


def test_a_web_page_is_no_metrics_page() -> None:
    with serving(text("<html></html>")) as web, pytest.raises(NotMetricsError, match="web page"):
        fetched(web.url)


def test_a_page_that_is_declared_huge_is_refused_before_it_is_read() -> None:
    def declare(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-length", str(1 << 30))
        handler.end_headers()

    with serving(declare) as web, pytest.raises(FetchError, match="larger than 8 MiB"):
        fetched(web.url)


def test_a_page_that_never_ends_is_cut_off_at_the_bound() -> None:
    sent = 0

    def endless(handler: BaseHTTPRequestHandler) -> None:
        nonlocal sent
        handler.send_response(200)
        handler.end_headers()
        while not web.over.is_set():
            handler.wfile.write(b"a 1\n" * 16_384)
            sent += 1 << 16

    with serving(endless) as web, pytest.raises(FetchError, match="larger than 8 MiB"):
        fetched(web.url, timeout_s=60)
    assert sent >= MAX_PAGE_BYTES


def test_a_page_that_drips_is_given_up_in_time() -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not web.over.wait(0.02):
            handler.wfile.write(b"a 1\n")
            handler.wfile.flush()

    # Each piece comes soon enough; only the whole never does.
    with serving(drip) as web, pytest.raises(FetchError, match="no whole answer within"):
        fetched(web.url, timeout_s=SOON_S)


def test_a_server_that_says_nothing_is_given_up_in_time() -> None:
    with serving(lambda _: None) as web:
        web.answer = lambda _: web.over.wait() and None
        with pytest.raises(FetchError, match="answer within"):
            fetched(web.url, timeout_s=SOON_S)


def test_a_connection_that_breaks_off_is_told() -> None:
    def die(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-length", "1000")
        handler.end_headers()
        handler.wfile.write(b"a 1\n")
        handler.close_connection = True

    with serving(die) as web, pytest.raises(FetchError, match="broke off"):
        fetched(web.url)


def test_nobody_at_an_address_is_told() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(FetchError, match="nothing answers there: connection refused"):
            fetched(f"http://127.0.0.1:{unused.getsockname()[1]}/metrics")


def test_an_address_without_tls_is_not_taken_for_one_with_it() -> None:
    with serving(text(PAGE)) as web, pytest.raises(FetchError, match="does not speak TLS"):
        fetched(web.url.replace("http:", "https:"))
    assert web.seen == []


def test_a_file_that_holds_no_certificates_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("no certificate\n")
    for name in ("empty", "missing"):
        with pytest.raises(ValueError, match="holds no certificates"):
            metrics_http(ca_file=tmp_path / name)


@pytest.mark.parametrize(
    "url", ["engine:8000", "ftp://engine/metrics", "http://", "file:///etc/passwd", "http://u:p@engine/metrics", "\x00"]
)
def test_what_is_no_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError):
        checked_url(url)


def test_the_token_is_read_anew_for_each_request(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    with serving(text(PAGE)) as web:

        async def story() -> None:
            async with metrics_http(TokenPlace(file=file)) as http:
                await fetch_page(http, web.url)
                file.write_text("second\n")
                await fetch_page(http, web.url)

        asyncio.run(story())
        assert [headers["authorization"] for _, headers in web.seen] == ["Bearer first", "Bearer second"]


def test_a_token_that_cannot_be_had_is_told_without_asking(tmp_path: Path) -> None:
    with serving(text(PAGE)) as web:
        with pytest.raises(FetchError, match="cannot be read"):
            fetched(web.url, token=TokenPlace(file=tmp_path / "none"))
        assert web.seen == []


@pytest.mark.parametrize("held", ["", "two words", "line\nbreak", "x" * 20_000, "\u00e4"])
def test_what_is_no_token_is_not_sent(held: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRAPE_TOKEN", held)
    with pytest.raises(NoTokenError) as told:
        TokenPlace(variable="SCRAPE_TOKEN").read()
    assert not held or held not in str(told.value)


def test_a_token_has_one_place() -> None:
    with pytest.raises(ValueError, match="one of the two"):
        TokenPlace()
    with pytest.raises(ValueError, match="one of the two"):
        TokenPlace(Path("a"), "B")


@pytest.mark.parametrize(
    ("url", "sent"), [("https://prometheus.example/", True), ("http://prometheus.example/", False)]
)
def test_a_token_leaves_this_machine_over_tls_only(url: str, sent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRAPE_TOKEN", "secret")
    flow = Bearer(TokenPlace(variable="SCRAPE_TOKEN")).auth_flow(httpx2.Request("GET", url))
    if sent:
        assert next(flow).headers["authorization"] == "Bearer secret"
    else:
        with pytest.raises(NoTokenError, match="https only"):
            next(flow)


def scraping(web_url: str, story: Callable[[Scraper], Awaitable[None]], book: MetricsBook, **scraper: Any) -> None:
    async def run() -> None:
        async with metrics_http() as http:
            await story(
                Scraper(http, web_url, lambda scrape: book.take_reading(scrape.at_s, scrape.reading), **scraper)
            )

    asyncio.run(run())


def test_a_scraper_fills_a_book_and_goes_on_after_the_engine_died_and_came_back() -> None:
    async def until(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.005)

    async def story(scraper: Scraper) -> None:
        running = asyncio.create_task(scraper.run())
        await until(lambda: scraper.status.num_pages >= 2)
        web.answer = text("down", 503)
        await until(lambda: scraper.status.num_failures >= 2)
        assert scraper.status.failure == "it answers with 503"
        web.answer = text("vllm:num_preemptions_total 2\n")
        await until(lambda: scraper.status.num_failures == 0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    book = MetricsBook()
    with serving(text("vllm:num_preemptions_total 5\n")) as web:
        scraping(web.url, story, book, every_s=0.01)
    assert book.grown("preemptions", 1e9).amount == 2


def test_failures_in_a_row_are_tried_less_and_less_often() -> None:
    waits = []

    async def story(scraper: Scraper) -> None:
        for _ in range(7):
            assert not await scraper.scrape()
            waits.append(scraper.wait_s())
        web.answer = text(PAGE)
        assert await scraper.scrape()
        waits.append(scraper.wait_s())

    with serving(text("down", 503)) as web:
        scraping(web.url, story, MetricsBook(), every_s=5.0)
    assert waits == [10.0, 20.0, 40.0, 60.0, 60.0, 60.0, 60.0, 5.0]


def test_a_scraper_says_when_what_it_read_is_stale_and_why() -> None:
    now = 1000.0

    async def story(scraper: Scraper) -> None:
        nonlocal now
        assert scraper.stale_sentence(now) == ""
        await scraper.scrape()
        web.answer = text("down", 503)
        now = 1020.0
        await scraper.scrape()
        assert scraper.stale_sentence(1019.0) == ""
        assert scraper.stale_sentence(now) == "no metrics for 20 s: it answers with 503"

    with serving(text(PAGE)) as web:
        scraping(web.url, story, MetricsBook(), every_s=5.0, timeout_s=4.0, clock=lambda: now)


def test_a_scraper_that_never_read_a_page_says_why() -> None:
    async def story(scraper: Scraper) -> None:
        await scraper.scrape()
        assert scraper.stale_sentence(0.0) == "no metrics yet: what the address sends is JSON, not a metrics page"

    with serving(text('{"detail":"Not Found"}')) as web:
        scraping(web.url, story, MetricsBook())


def test_bad_lines_are_counted_over_pages() -> None:
    async def story(scraper: Scraper) -> None:
        await scraper.scrape()
        await scraper.scrape()
        assert (scraper.status.num_pages, scraper.status.num_bad_lines) == (2, 2)

    with serving(text(PAGE + "nonsense\n")) as web:
        scraping(web.url, story, MetricsBook())


def test_why_nothing_came_is_said_as_the_system_says_it():
    async def asked(url: str) -> str:
        async with metrics_http() as http:
            with pytest.raises(FetchError) as failure:
                await fetch_page(http, url)
        return str(failure.value)

    with serving(text("x")) as web:
        assert asyncio.run(asked("http://127.0.0.1:1/metrics")) == "nothing answers there: connection refused"
        assert asyncio.run(asked("http://no-such.invalid/")).startswith("nothing answers there: ")
        assert asyncio.run(asked(web.url.replace("http:", "https:"))) == (
            "what answers there does not speak TLS: is it http:// rather than https://?"
        )
