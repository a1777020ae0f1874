"""Which addresses names stand for, looked up again every 30 s in a thread of its own, since a look-up may take long."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import Final

from kvxray_engine.errors import UserError

from kvxray_backend.observed.dns import Resolver, resolve

EVERY_S: Final = 30.0
MISSED_BEFORE_GONE: Final = 2
"""Answers in a row without an address before it is taken for gone: some servers tell only a part each time."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Name:
    """`missed`: by address, the answers in a row that did not have it."""

    missed: dict[str, int] = field(default_factory=dict)
    trouble: str = ""


class AddressBook:
    """Safe to call from any thread. `version` grows with each change of what it says."""

    def __init__(self, resolver: Resolver = resolve, every_s: float = EVERY_S) -> None:
        self.version = 0
        self._resolver = resolver
        self._every_s = every_s
        self._lock = threading.Lock()
        self._names: dict[str, _Name] = {}
        self._is_new = threading.Event()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="kvxray-names", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def want(self, hosts: set[str]) -> None:
        """These, and no others, are looked up from now on; new ones at once."""
        with self._lock:
            is_new = not hosts <= self._names.keys()
            self._names = {host: self._names.get(host) or _Name() for host in sorted(hosts)}
        if is_new:
            self._is_new.set()

    def addresses(self, host: str) -> list[str]:
        """Sorted; none before the first answer."""
        with self._lock:
            known = self._names.get(host)
            return sorted(known.missed) if known is not None else []

    @property
    def troubles(self) -> dict[str, str]:
        """By host, why it could not be looked up last."""
        with self._lock:
            return {host: one.trouble for host, one in self._names.items() if one.trouble}

    def look_up(self) -> None:
        """All of them, once."""
        with self._lock:
            hosts = list(self._names)
        for host in hosts:
            if self._is_closing:
                return
            try:
                found, trouble = self._resolver(host), ""
            except UserError as error:
                found, trouble = [], str(error)
            self._note(host, found, trouble)

    def close(self) -> None:
        """Does not wait for a look-up that is under way."""
        self._is_closing = True
        self._is_new.set()

    def _note(self, host: str, found: list[str], trouble: str) -> None:
        with self._lock:
            known = self._names.get(host)
            if known is None:
                return
            before = sorted(known.missed), known.trouble
            known.trouble = trouble
            # A server that does not answer tells nothing of who is there.
            if not trouble:
                known.missed = {
                    address: count
                    for address in {*known.missed, *found}
                    if (count := 0 if address in found else known.missed[address] + 1) < MISSED_BEFORE_GONE
                }
            if (sorted(known.missed), known.trouble) != before:
                self.version += 1

    def _run(self) -> None:
        while not self._is_closing:
            self._is_new.clear()
            try:
                self.look_up()
            except Exception:
                logger.exception("Looking up names stumbled; it goes on.")
            self._is_new.wait(self._every_s)
