"""Which engines are to be watched now: by the settings, by files that are read again, by names that stand for many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from kvxray_engine.errors import UserError

from kvxray_backend.observed.address_book import AddressBook
from kvxray_backend.observed.dns import expanded, host_to_expand
from kvxray_backend.observed.engines_file import entries_of, targets_in
from kvxray_backend.observed.entries import Entry
from kvxray_backend.observed.origin import Origin
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_backend.observed.target_list import TargetList
from kvxray_backend.observed.watched_file import WatchedFile


@dataclass(slots=True)
class Wanted:
    """`specs`: by name. `problems`: by place, why others are not among them."""

    specs: dict[str, tuple[ObserveSpec, Origin]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    def add(self, spec: ObserveSpec, origin: Origin, where: str) -> None:
        """The first of a name has it."""
        if spec.name in self.specs:
            self.problems[spec.name] = f"{where} asks for another engine {spec.name!r}; give one of them another name."
        else:
            self.specs[spec.name] = spec, origin


class Asked:
    """What was asked for where the server was started. For one thread."""

    def __init__(self, entries: Sequence[Entry], files: Sequence[Path], book: AddressBook) -> None:
        self._entries = entries
        self._files = [WatchedFile[list[Entry]](path, partial(entries_of, path), []) for path in files]
        self._lists: dict[str, WatchedFile[list[ObserveSpec]]] = {}
        self._book = book
        self._version = -1

    def look(self) -> bool:
        """Reads the files again; whether what is wanted may have changed."""
        changed = [file.look() for file in self._files]
        lists = {_key(entry): self._list_of(entry) for _, entry, _ in self._all() if isinstance(entry, TargetList)}
        changed += [lists.keys() != self._lists.keys()]
        self._lists = lists
        changed += [file.look() for file in lists.values()]
        changed += [self._book.version != self._version]
        self._version = self._book.version
        return any(changed)

    def wanted(self) -> Wanted:
        """As of the last look."""
        wanted = Wanted()
        hosts: set[str] = set()
        for origin, entry, where in self._all():
            for spec in self._specs_of(entry):
                if spec.expand == "none":
                    wanted.add(spec, origin, where)
                else:
                    self._expand(wanted, hosts, spec, origin, where)
        self._book.want(hosts)
        wanted.problems |= _troubles(self._files) | _troubles(self._lists.values()) | self._book.troubles
        return wanted

    def _all(self) -> Iterable[tuple[Origin, Entry, str]]:
        for entry in self._entries:
            yield "settings", entry, "What the server was started with"
        for file in self._files:
            for entry in file.meaning:
                yield "file", entry, str(file.path)

    def _specs_of(self, entry: Entry) -> list[ObserveSpec]:
        return [entry] if isinstance(entry, ObserveSpec) else self._lists[_key(entry)].meaning

    def _list_of(self, entry: TargetList) -> WatchedFile[list[ObserveSpec]]:
        known = self._lists.get(_key(entry))
        return known or WatchedFile[list[ObserveSpec]](Path(entry.file_sd), partial(targets_in, entry), [])

    def _expand(self, wanted: Wanted, hosts: set[str], spec: ObserveSpec, origin: Origin, where: str) -> None:
        try:
            host = host_to_expand(spec)
        except UserError as error:
            wanted.problems[spec.name] = str(error)
            return
        hosts.add(host)
        for one in expanded(spec, host, self._book.addresses(host)):
            wanted.add(one, origin, where)


def _key(entry: TargetList) -> str:
    return entry.model_dump_json()


def _troubles(files: Iterable[WatchedFile[list[Any]]]) -> dict[str, str]:
    """By path."""
    return {
        str(file.path): f"{file.trouble}{' What was watched by it goes on.' if file.meaning else ''}"
        for file in files
        if file.trouble
    }
