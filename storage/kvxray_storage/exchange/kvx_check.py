"""Reads a whole `.kvx` file and believes nothing: what comes out can be stored. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kvxray_storage.exchange.epoch_check import EpochCheck
from kvxray_storage.exchange.items import Told, read_items
from kvxray_storage.exchange.records import BadFile, Bookmarks, EpochHead, FileHead, Findings, StoredFinding

MOST_EPOCHS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Life:
    """An epoch that a file holds."""

    source: str
    epoch: int
    incarnation: str


@dataclass(frozen=True, slots=True)
class Summary:
    """What a file holds: its epochs, and how many events."""

    epochs: list[Life]
    num_events: int


def check_file(path: Path, check_finding: Callable[[StoredFinding], None]) -> Summary:
    """Goes through all of it once, folding every event. Raises BadFile, and OSError."""
    lives: dict[tuple[str, int | str], Life] = {}
    num_events, epoch = 0, None
    for number, item in enumerate(read_items(path)):
        if (number == 0) != isinstance(item, FileHead):
            raise BadFile("it does not begin with what it is")
        if isinstance(item, EpochHead):
            _note_epoch(lives, item)
            epoch = EpochCheck(item)
        elif isinstance(item, Told):
            num_events += sum(message.header.n for message in item.messages)
        elif isinstance(item, Findings):
            for finding in item.rows:
                check_finding(finding)
        if isinstance(item, Findings | Bookmarks):
            if not all((row.source, row.epoch) in lives for row in item.rows):
                raise BadFile("a finding or a bookmark is of no epoch that it holds")
        elif epoch is not None:
            epoch.take(item)
    return Summary(list(dict.fromkeys(lives.values())), num_events)


def _note_epoch(lives: dict[tuple[str, int | str], Life], head: EpochHead) -> None:
    """By its number, and by what it calls itself."""
    names = ((head.source, head.epoch), (head.source, head.incarnation))
    if any(name in lives for name in names) or len(lives) >= 2 * MOST_EPOCHS:
        raise BadFile("an epoch occurs in it twice, or there are too many")
    lives |= dict.fromkeys(names, Life(head.source, head.epoch, head.incarnation))
