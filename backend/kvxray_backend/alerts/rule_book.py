"""All rules there are, and which are on: built-in ones, those of files, which are read again when they change, and
those that were written on the page. Each name is one rule's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from kvxray_engine.clock import Clock
from kvxray_engine.errors import UserError
from kvxray_storage.alerts import RuleRow, forget_rule, keep_rule, kept_rules
from kvxray_storage.database import Database

from kvxray_backend.alert_types import RuleOrigin
from kvxray_backend.alerts.own_rules import rules_in
from kvxray_backend.alerts.rule import Rule
from kvxray_backend.alerts.rules import RULES
from kvxray_backend.observed.plain_data import read_plain
from kvxray_backend.observed.watched_file import WatchedFile

MAX_PAGE_RULES: Final = 200


@dataclass(frozen=True, slots=True)
class KnownRule:
    """`text`: its YAML where it was written on the page."""

    rule: Rule
    origin: RuleOrigin
    is_on: bool
    text: str = ""


class NotHere(UserError):
    """It cannot be changed here: it is built in, or of a file, or its name is taken."""


class RuleBook:
    """Safe to call from any thread. What somebody decided stands in the database."""

    def __init__(self, database: Database, clock: Clock, files: Sequence[Path]) -> None:
        self._database, self._clock = database, clock
        self._files = [WatchedFile[tuple[Rule, ...]](path, _of_file(path), ()) for path in files]
        self._lock = threading.RLock()
        self._decided: dict[str, RuleRow] = {}
        self._of_page: dict[str, Rule] = {}
        self._page_problems: dict[str, str] = {}
        self._known: dict[str, KnownRule] = {}
        self._file_problems: list[str] = []
        self._put_together()

    def check(self) -> None:
        """Raises `UserError` where a file that was named is not there, or is broken."""
        with self._lock:
            for file in self._files:
                file.look()
                if file.trouble:
                    raise UserError(file.trouble)
            self._put_together()
            for sentence in self._file_problems:
                raise UserError(sentence)

    def read(self) -> None:
        """What was decided before. Raises `OPENING_ERRORS`."""
        rows = kept_rules(self._database)
        with self._lock:
            self._decided = {row.name: row for row in rows}
            self._of_page, self._page_problems = {}, {}
            for row in rows:
                if row.text is not None:
                    self._take(row.name, row.text)
            self._put_together()

    def look(self) -> None:
        """Takes files anew that changed; one that is broken stays as it was. Waits for nobody: while the database is
        slow to keep what somebody decides, the watch goes on.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            changed = [file for file in self._files if file.look()]
            if changed:
                self._put_together()
        finally:
            self._lock.release()

    @property
    def all(self) -> dict[str, KnownRule]:
        """Built-in ones first, in their order."""
        return self._known

    def rule_of(self, name: str) -> Rule | None:
        known = self._known.get(name)
        return known.rule if known is not None else None

    @property
    def problems(self) -> list[str]:
        return [*self._file_problems, *self._page_problems.values()]

    def switch(self, name: str, *, is_on: bool) -> bool:
        """False: there is no such rule. Durable when this returns."""
        with self._lock:
            known = self._known.get(name)
            if known is None:
                return False
            self._decide(self._stored(name, is_on, known.text if known.origin == "page" else None))
            return True

    def add(self, text: str, *, is_on: bool = True) -> list[str]:
        """Rules as somebody wrote them on the page, each kept with its own text; their names. One of the page that has
        the name already is replaced. Raises `UserError`: one sentence with line and field.
        """
        rules = rules_in(text.encode())
        if not rules:
            raise UserError("There is no rule in it: what it holds is rules, a list.")
        with self._lock:
            for rule in rules:
                known = self._known.get(rule.name)
                if known is not None and known.origin != "page":
                    raise NotHere(f"There is a rule {rule.name} already, in a file: give this one another name.")
            if len({*self._of_page, *(rule.name for rule in rules)}) > MAX_PAGE_RULES:
                raise NotHere(f"There are {MAX_PAGE_RULES} rules of the page already; remove some first.")
            for rule in rules:
                row = self._stored(rule.name, is_on, text_of(text, rule.name) if len(rules) > 1 else text)
                self._of_page[rule.name] = rule
                self._decide(row)
        return [rule.name for rule in rules]

    def remove(self, name: str) -> bool:
        """Of the page only; False: there is none. Raises `NotHere`."""
        with self._lock:
            known = self._known.get(name)
            if known is not None and known.origin != "page" and name not in self._of_page:
                where = "built in" if known.origin == "built-in" else "of a file"
                raise NotHere(f"{name} is {where}: switch it off instead.")
            is_gone = forget_rule(self._database, name)
            self._decided.pop(name, None)
            self._page_problems.pop(name, None)
            is_known = self._of_page.pop(name, None) is not None
            self._put_together()
            return is_gone or is_known

    def _stored(self, name: str, is_on: bool, text: str | None) -> RuleRow:
        """Before anything here changes: what the database refuses is not so."""
        row = RuleRow(name, is_on, text, self._clock.wall_ns())
        keep_rule(self._database, row)
        return row

    def _decide(self, row: RuleRow) -> None:
        self._decided[row.name] = row
        self._page_problems.pop(row.name, None)
        self._put_together()

    def _take(self, name: str, text: str) -> None:
        try:
            found = {rule.name: rule for rule in rules_in(text.encode())}
            self._of_page[name] = found[name]
        except (UserError, KeyError) as error:
            self._page_problems[name] = f"The rule {name}, written on the page, cannot be read: {error}"

    def _put_together(self) -> None:
        known = {name: self._made(rule, "built-in") for name, rule in RULES.items()}
        problems = [file.trouble for file in self._files if file.trouble]
        for file in self._files:
            for rule in file.meaning:
                if rule.name in known:
                    problems.append(f"Mend the file {file.path}: {rule.name} is the name of a rule elsewhere.")
                else:
                    known[rule.name] = self._made(rule, "file")
        for rule in self._of_page.values():
            if rule.name in known:
                problems.append(f"The rule {rule.name} of the page is not used: a file has one of that name.")
            else:
                known[rule.name] = self._made(rule, "page")
        self._known, self._file_problems = known, problems

    def _made(self, rule: Rule, origin: RuleOrigin) -> KnownRule:
        decided = self._decided.get(rule.name)
        text = decided.text or "" if decided is not None and origin == "page" else ""
        return KnownRule(rule, origin, decided.is_on if decided is not None else True, text)


def text_of(text: str, name: str) -> str:
    """One rule out of a text with several, as YAML of its own."""
    whole = read_plain(text.encode(), "rules.yaml")
    alone = {"rules": [one for one in whole["rules"] if one["name"] == name]}
    return str(yaml.safe_dump(alone, sort_keys=False, allow_unicode=True))


def _of_file(path: Path) -> Callable[[bytes], tuple[Rule, ...]]:
    def read(text: bytes) -> tuple[Rule, ...]:
        try:
            return rules_in(text)
        except UserError as error:
            raise UserError(f"Mend the file {path}: {error}") from error

    return read


def on(known: Iterable[KnownRule]) -> dict[str, Rule]:
    return {one.rule.name: one.rule for one in known if one.is_on}
