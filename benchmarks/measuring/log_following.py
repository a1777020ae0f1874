"""A backend that follows one source and stores what it hears, without anybody looking: how much memory it takes, and
how fast it goes. Run in a process of its own; the address of the database comes in KVXRAY_DATABASE_URL, figures go to
standard output.

Messages come through a socket, as many as it takes, and it takes none while its log has much to write: what is wanted
is the memory of a backend that keeps up, but only just.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import kvxray_backend.main  # noqa: F401  (what a backend has in memory that serves a page)
from kvxray_backend.analysis.inspector import Inspector
from kvxray_backend.live_state import LiveState
from kvxray_backend.sources.archive import Archive
from kvxray_backend.sources.follower import Follower
from kvxray_backend.sources.privacy import NameFilter
from kvxray_backend.stored_findings import row_of
from kvxray_engine.clock import SystemClock
from kvxray_engine.stream.subscriber import Published
from kvxray_storage.database import Database, open_database
from kvxray_storage.event_log import EventLog

from benchmarks.measuring.generated_log import FLUSH_S
from benchmarks.measuring.log_ingest import FULL_PAUSE_S
from benchmarks.measuring.message_file import MessageFile
from benchmarks.measuring.message_stream import received

SOURCE = "followed"
MUCH_BYTES = 32 << 20
AT_ONCE = 64


class AskNobody:
    """There is no publisher to ask."""

    def request_snapshot(self) -> None: ...

    def request_replay(self, first: int, last: int) -> None: ...


class Following:
    """The source's thread of a backend, run by hand."""

    def __init__(self, database: Database, log: EventLog) -> None:
        clock = SystemClock()
        live = LiveState(SOURCE)
        self.live = live
        self.queue_peak = 0
        self._log = log
        self._inspector = Inspector(live, clock, lambda finding: log.finding(row_of(finding)))
        names = NameFilter(database.digest_key())
        archive = Archive(database, log, clock)
        self._follower = Follower(
            live, archive, self._inspector, names, AskNobody(), clock, snapshots=False, replay=False
        )

    def hear(self, payloads: list[bytes]) -> None:
        now_ns = time.monotonic_ns()
        self._follower.receive([Published(payload) for payload in payloads], now_ns)
        self._follower.advance(now_ns)
        self._inspector.inspect(now_ns)
        self.queue_peak = max(self.queue_peak, self._log.stats().queue_bytes)


def follow(following: Following, log: EventLog, file: MessageFile, payloads: Iterator[bytes], rows: int) -> int:
    """Until so many events are durable, or there are no more; how many they were."""
    following.hear([next(file.payloads())])
    while (told := following.live.seq or 0) < rows:
        some = list(islice(payloads, AT_ONCE))
        if not some:
            break
        following.hear(some)
        while log.stats().queue_bytes > MUCH_BYTES:
            time.sleep(FULL_PAUSE_S)
    assert log.flush(FLUSH_S), "the database takes no writes"
    assert following.live.counters.gaps == 0, "something was lost"
    return (following.live.seq or told) + 1


def memory_mb(name: str) -> float:
    """VmHWM: the most that was resident since this program began; VmRSS: now."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return round(int(fields[name].split()[0]) * 1024 / 1e6, 1)


def measure(file: MessageFile, rows: int) -> dict[str, Any]:
    database = open_database(os.environ["KVXRAY_DATABASE_URL"])
    idle = memory_mb("VmRSS")
    with EventLog(database) as log, received(file) as payloads:
        following = Following(database, log)
        gc.collect()
        gc.freeze()  # as `kvxray serve` does when it begins
        cpu, begun = time.process_time(), time.perf_counter()
        told = follow(following, log, file, payloads, rows)
        wall_s, cpu_s = time.perf_counter() - begun, time.process_time() - cpu
        dropped = log.stats().dropped
    database.close()
    assert dropped == 0, f"the log refused {dropped} messages"
    return {
        "backend_rss_mb": memory_mb("VmHWM"),
        "backend_rss_idle_mb": idle,
        "backend_rows_per_s_512": round(told / wall_s),
        "backend_cpu_s_per_million_rows_512": round(cpu_s / told * 1e6, 3),
        "backend_rows": told,
        "backend_queue_peak_mb": round(following.queue_peak / 1e6, 1),
    }


def main() -> int:
    path, incarnation, num_blocks, num_rows, num_messages, rows = sys.argv[1:]
    file = MessageFile(Path(path), incarnation, int(num_blocks), int(num_rows), int(num_messages))
    print(json.dumps(measure(file, int(rows))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
