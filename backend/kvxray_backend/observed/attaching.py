"""Attaches and detaches engines while the server runs: what settings, files and names ask for, and people on the page.

One pass compares what is wanted with what is watched: what did not change is not touched. What people attach is kept in
the database, and is wanted until they remove it.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kvxray_engine.clock import Clock
from kvxray_engine.errors import UserError
from kvxray_storage.attached_engines import AttachedEngine, attached_engines, forget_attached, keep_attached
from kvxray_storage.database import Database

from kvxray_backend.observed.address_book import AddressBook
from kvxray_backend.observed.entries import Entry
from kvxray_backend.observed.origin import Origin
from kvxray_backend.observed.registry import NameTaken, ObservedEngines
from kvxray_backend.observed.spec import BadSpec, ObserveSpec, read_spec
from kvxray_backend.observed.wanted import Asked, Wanted

LOOK_EVERY_S: Final = 1.0
TRY_AGAIN_S: Final = 10.0

logger = logging.getLogger(__name__)


class NotOfThePage(UserError):
    """An engine that was not attached on the page, and cannot be removed there."""


class Attaching:
    """From `start` to `close`. Safe to call from any thread."""

    def __init__(
        self,
        entries: Sequence[Entry],
        files: Sequence[Path],
        engines: ObservedEngines,
        database: Database,
        clock: Clock,
        book: AddressBook | None = None,
    ) -> None:
        self._book = book or AddressBook()
        self._asked = Asked(entries, files, self._book)
        self._engines = engines
        self._database = database
        self._clock = clock
        # One at a time changes what is watched: a pass, or somebody on the page.
        self._changing = threading.Lock()
        self._of_page: dict[str, ObserveSpec] = {}
        self._unreadable: dict[str, str] = {}
        self._try_again_s: float | None = 0.0  # the first pass is due
        self._has_to_end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kvxray-attaching", daemon=True)

    def check(self) -> None:
        """Raises `UserError` where a file that was named is not there, or is broken."""
        self._asked.look()
        for sentence in self._asked.wanted().problems.values():
            raise UserError(sentence)

    def start(self) -> None:
        """Attaches what is wanted now; later changes follow by themselves."""
        self._read_database()
        self._book.start()
        self._pass()
        self._thread.start()

    def close(self) -> None:
        """Nothing more is attached; what is watched stays so."""
        self._has_to_end.set()
        self._book.close()
        if self._thread.is_alive():
            self._thread.join()

    def attach(self, spec: ObserveSpec) -> None:
        """As somebody on the page asks. Raises `UserError`; `NameTaken` where the name is the reason."""
        with self._changing:
            if spec.name in self._of_page or spec.name in self._unreadable:
                raise NameTaken(spec.name)
            self._engines.attach(spec, "page")
            try:
                keep_attached(self._database, AttachedEngine(spec.name, _told(spec), self._clock.wall_ns()))
            except BaseException:
                self._engines.detach(spec.name)
                raise
            self._of_page[spec.name] = spec

    def remove(self, name: str) -> bool:
        """False: there is none. Raises `NotOfThePage`."""
        with self._changing:
            origin = self._engines.origin_of(name) if self._engines.get(name) is not None else "page"
            is_kept = forget_attached(self._database, name)
            self._of_page.pop(name, None)
            self._unreadable.pop(name, None)
            self._try_again_s = 0.0  # what stood in its way is to be told no longer
            if origin != "page" and not is_kept:
                raise NotOfThePage(_NOT_HERE[origin].format(name=name))
            return (origin == "page" and self._engines.detach(name)) or is_kept

    def _read_database(self) -> None:
        for row in attached_engines(self._database):
            try:
                self._of_page[row.name] = read_spec({**json.loads(row.spec), "name": row.name})
            except (BadSpec, ValueError, TypeError) as error:
                self._unreadable[row.name] = f"{row.name} was attached by another kvxray, and cannot be read: {error}"

    def _run(self) -> None:
        while not self._has_to_end.wait(LOOK_EVERY_S):
            try:
                self._pass()
            except Exception:
                logger.exception("Looking for engines to watch stumbled; it goes on.")

    def _pass(self) -> None:
        is_changed = self._asked.look()
        if not is_changed and (self._try_again_s is None or time.monotonic() < self._try_again_s):
            return
        with self._changing:
            wanted = self._asked.wanted()
            for spec in self._of_page.values():
                wanted.add(spec, "page", "The page")
            wanted.problems |= self._unreadable
            self._let_go(wanted)
            failed = self._take_up(wanted)
        self._try_again_s = time.monotonic() + TRY_AGAIN_S if failed else None
        self._engines.troubles.set({**wanted.problems, **failed}, self._clock.wall_ns())

    def _let_go(self, wanted: Wanted) -> None:
        watched = [(engine.spec.name, engine.spec) for engine in self._engines.all]
        self._engines.detach_all(
            [name for name, spec in watched if wanted.specs.get(name) != (spec, self._engines.origin_of(name))]
        )

    def _take_up(self, wanted: Wanted) -> dict[str, str]:
        """By name, why it is not watched."""
        failed: dict[str, str] = {}
        for name, (spec, origin) in wanted.specs.items():
            if self._has_to_end.is_set():
                break
            if self._engines.get(name) is None:
                try:
                    self._engines.attach(spec, origin)
                except UserError as error:
                    failed[name] = f"{name} is not watched: {error}"
                except Exception:
                    logger.exception("%s could not be attached.", name)
                    failed[name] = f"{name} is not watched: kvxray made a mistake over it, its log tells which."
        return failed


def _told(spec: ObserveSpec) -> str:
    return spec.model_dump_json(exclude_defaults=True)


_NOT_HERE: Final[dict[Origin, str]] = {
    "settings": "{name} was named when the server was started; start it without it.",
    "file": "{name} is named in a file; take it out there, and it is removed within seconds.",
}
