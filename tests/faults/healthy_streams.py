"""Recorded streams of real engines that nothing was wrong with, through the foreign path and all rules, with the
metrics of their server where those were recorded too; and after the recording an idle quarter of an hour.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kvxray_backend.alerts.alert_watch import LOOK_EVERY_S
from kvxray_backend.alerts.rule import Server
from kvxray_backend.metrics.exposition import Page, parse_page
from kvxray_backend.metrics.minute import latest
from kvxray_backend.signal_history import Timed
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.offline import OfflineSession
from kvxray_backend.sources.foreign.recording import Recording
from kvxray_backend.sources.foreign.told import Removed, Stored

from tests.backend.metrics.pages import recorded_body, recorded_log
from tests.faults.alert_desk import AlertDesk

SECOND: Final = 1_000_000_000
BEGAN_NS: Final = 1_800_000_000 * SECOND
BATCH_NS: Final = 200_000_000
PAGE_EVERY_NS: Final = 10 * SECOND
IDLE_NS: Final = 900 * SECOND
ENDING: Final = ".frames.jsonl.gz"
SERVER: Final = "server-vllm-0.32.0"


@dataclass
class HealthyStream:
    """A recording, followed. `rows`: hashes that were stored or removed."""

    path: Path
    rows: int = 0
    _now_ns: int = BEGAN_NS
    _look_ns: int = BEGAN_NS
    _told: list[Timed] = field(default_factory=list)

    def __post_init__(self) -> None:
        serves: tuple[Server, ...] = ("vllm", "events") if self.has_pages else ("events",)
        self.desk = AlertDesk(self.name, *serves)
        self._session = OfflineSession(b"healthy")

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(ENDING)

    @property
    def has_pages(self) -> bool:
        return self.name == SERVER

    @property
    def seconds(self) -> float:
        return (self._now_ns - BEGAN_NS) / 1e9

    def run(self) -> None:
        frames = list(Recording(self.path).frames())
        pages = self._pages()
        for number, frame in enumerate(frames):
            while pages and pages[0][0] <= number:
                self._page(pages.pop(0)[1])
            self._session.feed(self.name, frame.topic, frame.seq, frame.payload, self._now_ns)
            self.rows += _rows(frame.payload)
            self._pass(BATCH_NS)
        last = [page for _, page in pages] or [parse_page(recorded_body())] if self.has_pages else []
        for page in last[:-1]:
            self._page(page)
        for _ in range(IDLE_NS // PAGE_EVERY_NS):
            if last:
                self._page(last[-1])
            self._pass(PAGE_EVERY_NS)
        self._session.check_integrity()

    def _pages(self) -> list[tuple[int, Page]]:
        """With the number of batches that came before each."""
        if not self.has_pages:
            return []
        texts = [
            (moment["nframes"], "".join(f"{name} {value}\n" for name, value in moment["metrics"].items()))
            for moment in recorded_log()
        ]
        return [(num_frames, parse_page(text.encode())) for num_frames, text in texts]

    def _page(self, page: Page) -> None:
        self._pass(BATCH_NS)
        self._session.take_page(self.name, page, self._now_ns)
        watch = self._session.pages(self.name)
        assert watch is not None, "it was just told one"
        at_s = self._now_ns / 1e9
        self._told.append(Timed(at_s, at_s - self._told[-1].at_s if self._told else 0.0, latest(watch.book)))

    def _pass(self, ns: int) -> None:
        end_ns = self._now_ns + ns
        while self._now_ns < end_ns:
            self._now_ns = min(end_ns, self._now_ns + round(LOOK_EVERY_S * SECOND))
            self._session.advance(self._now_ns)
            if self._now_ns >= self._look_ns:
                self._look_ns = self._now_ns + round(LOOK_EVERY_S * SECOND)
                self._look()

    def _look(self) -> None:
        found = self._session.findings()
        for finding in found:
            self.desk.note(finding)
        self.desk.look(self._now_ns, [one for one in found if one.state == "open"], [*self._told])


def _rows(payload: bytes) -> int:
    events = decode_batch(payload).events
    return sum(len(event.hashes) for event in events if isinstance(event, Stored | Removed))


def streams(folder: Path) -> Iterator[HealthyStream]:
    """All that were recorded, in order."""
    for path in sorted(folder.glob(f"*{ENDING}")):
        yield HealthyStream(path)
