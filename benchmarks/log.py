"""The event log: how fast it takes events in beside row inserts, what they take on disk, and how long it takes to look
at any moment of them.

An engine that is made up tells rows of every kind; its messages are made beforehand, into a file. They are received
from another process, decoded, put into the log and waited for until they are durable, about 512 rows a message and,
fewer of them, 64. In between, on the same kind of database and in turns, the same events are inserted row by row:
tuples through the driver, and dicts through SQLAlchemy Core. Then 40 random moments are looked at in fresh processes.

What is written into a database that was named stays there, as sources of their own; without --database it is a
temporary SQLite file.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import sqlalchemy as sa
from kvxray_engine.errors import UserError
from kvxray_storage import history
from kvxray_storage.database import Database, open_database
from kvxray_storage.event_log import EventLog
from kvxray_storage.records import EpochKey

from benchmarks.measuring import message_file
from benchmarks.measuring.log_ingest import Ingest, Slice
from benchmarks.measuring.message_file import MessageFile
from benchmarks.measuring.message_stream import ROOT, received
from benchmarks.measuring.row_inserts import RowInserts

ROUND_ROWS, MOST_ROUNDS, LEAST_ROUNDS = 1_000_000, 12, 3
INSERTED_ROWS = 81_920
SMALL_MESSAGES_ROWS = FOLLOWED_ROWS = 2_000_000
"""At most, of the rows at 64 a message, and of those that a whole backend follows."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="kvxray bench log", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    parser.add_argument("--database", metavar="URL", help="sqlite:///PATH or postgresql://…; default: a temporary file")
    parser.add_argument("--rows", type=int, default=10_000_000, help="events to store at 512 a message")
    parser.add_argument("--blocks", type=int, default=32_768, help="blocks of the made-up engine")
    parser.add_argument("--moments", type=int, default=40, help="random moments to look at")
    options = parser.parse_args()
    try:
        result = measure(options)
    except UserError as error:
        print(f"kvxray: {error}", file=sys.stderr)
        return 2
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    return 0


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="kvxray-bench-") as name:
        folder = Path(name)
        url = options.database or f"sqlite:///{folder / 'kvxray.db'}"
        database = open_database(url)
        try:
            return {
                "database": database.url_scheme,
                "rows": options.rows,
                "blocks": options.blocks,
                "moments": options.moments,
            } | Bench(options, folder, url, database).run()
        finally:
            database.close()


class Bench:
    """One run. `peaks`: bytes that waited in the log's queue, at most."""

    def __init__(self, options: argparse.Namespace, folder: Path, url: str, database: Database) -> None:
        self.options = options
        self.folder = folder
        self.environment = os.environ | {"KVXRAY_DATABASE_URL": url}
        self.database = database
        self.peaks: list[int] = []

    def run(self) -> dict[str, Any]:
        large = self._generate(512, self.options.rows)
        key, result = self._ingest_beside_inserts(large)
        result |= self._read(key)
        result |= self._follow(large)
        large.path.unlink()
        small = self._generate(64, min(max(self.options.rows // 5, 1), SMALL_MESSAGES_ROWS))
        result |= self._ingest_alone(small)
        result["queue_peak_mb"] = round(max(self.peaks) / 1e6, 1)
        return result

    def _generate(self, per_message: int, rows: int) -> MessageFile:
        progress = Progress(f"making messages of {per_message} rows", rows)
        return message_file.write(
            self.folder / f"messages-{per_message}", rows, per_message, self.options.blocks, progress.note
        )

    def _ingest_beside_inserts(self, file: MessageFile) -> tuple[EpochKey, dict[str, Any]]:
        empty = size_on_disk(self.database)
        rounds = min(max(file.rows // ROUND_ROWS, LEAST_ROUNDS), MOST_ROUNDS)
        progress = Progress("storing, beside row inserts", file.rows)
        slices: list[Slice] = []
        rates: dict[str, list[float]] = {"tuples": [], "dicts": []}
        with EventLog(self.database) as log, received(file) as payloads, self._row_database() as rows:
            ingest = Ingest(log, unique("stored", file), file, payloads)
            inserts: RowInserts | None = None
            for number in range(rounds):
                gc.collect()
                gc.freeze()  # neither what this process began with nor the rows made beforehand is anybody's work
                # Who begins changes from round to round; in the first there is nothing yet to be inserted.
                if inserts is not None and number % 2:
                    insert(inserts, rates)
                slices.append(ingest.take(-(-file.rows // rounds)))
                inserts = inserts or RowInserts(rows, self.database, ingest.key, min(INSERTED_ROWS, ingest.rows))
                if not number % 2:
                    insert(inserts, rates)
                progress.note(ingest.rows)
            gc.unfreeze()
            if inserts is not None:
                inserts.drop()
            self._check(log, ingest, file)
        return ingest.key, {
            **self._ingest_figures(slices, file, "512"),
            "ratio_driver_tuples": of_rounds(slices, rates["tuples"]),
            "ratio_core_dicts": of_rounds(slices, rates["dicts"]),
            "driver_tuples_per_s": round(median(rates["tuples"])),
            "core_dicts_per_s": round(median(rates["dicts"])),
            "bytes_per_row": round((size_on_disk(self.database) - empty) / file.rows, 3),
        }

    def _ingest_alone(self, file: MessageFile) -> dict[str, Any]:
        progress = Progress("storing small messages", file.rows)
        slices = []
        with EventLog(self.database) as log, received(file) as payloads:
            ingest = Ingest(log, unique("stored-small", file), file, payloads)
            gc.collect()
            gc.freeze()  # as `kvxray serve` does when it begins
            for _ in range(LEAST_ROUNDS):
                slices.append(ingest.take(-(-file.rows // LEAST_ROUNDS)))
                progress.note(ingest.rows)
            gc.unfreeze()
            self._check(log, ingest, file)
        return self._ingest_figures(slices, file, "64")

    def _ingest_figures(self, slices: list[Slice], file: MessageFile, name: str) -> dict[str, Any]:
        rows = sum(one.rows for one in slices)
        return {
            f"ingest_rows_per_s_{name}": round(rows / sum(one.wall_s for one in slices)),
            f"ingest_rows_per_s_{name}_rounds": [round(one.rate) for one in slices],
            f"ingest_cpu_s_per_million_rows_{name}": round(sum(one.cpu_s for one in slices) / rows * 1e6, 3),
            f"rows_per_message_{name}": round(file.rows_per_message, 1),
        }

    def _check(self, log: EventLog, ingest: Ingest, file: MessageFile) -> None:
        """All of it is there, once."""
        self.peaks.append(ingest.queue_peak)
        cursor = log.cursor(ingest.key)
        assert cursor is not None, "nothing is durable"
        assert cursor.next_seq == ingest.rows == file.rows, f"{cursor.next_seq} of {file.rows} events are stored"
        assert log.stats().duplicates == 0, "something came twice"
        assert history.count_gaps(self.database, ingest.key) == 0, "something is missing"

    def _row_database(self) -> RowDatabase:
        return RowDatabase(self.database, self.folder)

    def _read(self, key: EpochKey) -> dict[str, Any]:
        self.database.close()
        told: dict[str, Any] = {}
        for how in ("warm", "cold"):
            print(f"looking at {self.options.moments} moments, {how}", file=sys.stderr)
            arguments = (key.source_id, key.epoch, self.options.moments, how)
            told |= self._in_child("log_reading", *arguments)
        return told

    def _follow(self, file: MessageFile) -> dict[str, Any]:
        print("following as a backend", file=sys.stderr)
        self.database.close()
        fields = (file.path, file.incarnation, file.num_blocks, file.rows, file.num_messages)
        told = self._in_child("log_following", *fields, min(file.rows, FOLLOWED_ROWS))
        self.peaks.append(int(told["backend_queue_peak_mb"] * 1e6))
        return told

    def _in_child(self, name: str, *arguments: object) -> dict[str, Any]:
        command = [sys.executable, "-m", f"benchmarks.measuring.{name}", *map(str, arguments)]
        done = subprocess.run(command, cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, check=True)
        told: dict[str, Any] = json.loads(done.stdout)
        return told


class RowDatabase:
    """Where rows are inserted: on SQLite a file of its own, with the same settings; on a server beside the log."""

    def __init__(self, log: Database, folder: Path) -> None:
        self._is_file = log.url_scheme == "sqlite"
        self._database = open_database(f"sqlite:///{folder / 'rows.db'}") if self._is_file else log

    def __enter__(self) -> Database:
        return self._database

    def __exit__(self, *_: object) -> None:
        if self._is_file:
            self._database.close()


class Progress:
    """Says on standard error how far it is, ten times."""

    def __init__(self, what: str, rows: int) -> None:
        self._what, self._rows, self._next = what, rows, rows / 10
        self._begun = time.perf_counter()

    def note(self, done: int) -> None:
        if done >= self._next:
            self._next = done + self._rows / 10
            seconds = time.perf_counter() - self._begun
            print(f"{self._what}: {done:,} of {self._rows:,} after {seconds:.0f} s", file=sys.stderr)


def insert(inserts: RowInserts, rates: dict[str, list[float]]) -> None:
    rates["tuples"].append(inserts.tuples())
    rates["dicts"].append(inserts.dicts())


def of_rounds(slices: list[Slice], rates: list[float]) -> float:
    """Median over the rounds of our rate to theirs."""
    return round(median(one.rate / rate for one, rate in zip(slices, rates, strict=True)), 2)


def unique(name: str, file: MessageFile) -> str:
    return f"bench-{name}-{file.incarnation[:8]}"


def size_on_disk(database: Database) -> int:
    """SQLite: its file, with nothing left in the log beside it. PostgreSQL: the whole database."""
    if database.path is None:
        with database.reading() as connection:
            return int(connection.execute(sa.text("SELECT pg_database_size(current_database())")).scalar_one())
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    return database.path.stat().st_size


if __name__ == "__main__":
    sys.exit(main())
