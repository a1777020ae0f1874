"""Stores what a `.kvx` file holds: through the event log, like what an engine tells, so that chunks, keyframes and all
that is looked up are made here and nothing of them is believed. Rollups, findings and bookmarks are taken as they are.

An imported epoch keeps its number, so that links and findings still mean the same moments. Until all of the file is
stored its epochs say that they are unfinished: when the process is killed half way, the next import takes their place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import sqlalchemy as sa
from kvxray_engine.errors import UserError
from kvxray_engine.stream.codec import encode_descriptor
from kvxray_engine.stream.residency_descriptor import following
from kvxray_engine.stream.schema import Descriptor

from kvxray_storage import models
from kvxray_storage.database import Database
from kvxray_storage.event_log import EventLog
from kvxray_storage.exchange.handover import Handover
from kvxray_storage.exchange.imported_epochs import add_epoch, add_rollups, finish, remove, remove_epochs
from kvxray_storage.exchange.imported_rows import add_rows
from kvxray_storage.exchange.items import Framed, Item, Told, read_items
from kvxray_storage.exchange.kvx_check import Life, Summary, check_file
from kvxray_storage.exchange.records import (
    Bookmarks,
    EpochHead,
    FileHead,
    Findings,
    Hole,
    Rollups,
    StoredFinding,
)
from kvxray_storage.records import EpochKey
from kvxray_storage.state_kinds import is_of_hashes, kind_of, read_descriptor


@dataclass(slots=True, eq=False)
class Importer:
    """Stores one file. `rename`: what a source of the file is called here. Everything is checked beforehand; what goes
    wrong after that is the database's fault, and is taken back while the database takes writes.
    """

    database: Database
    log: EventLog
    path: Path
    now_ns: int
    rename: Callable[[str], str]
    check_finding: Callable[[StoredFinding], None]
    _life: tuple[str, dict[str, str], str] = field(init=False)
    _descriptor: Descriptor = field(init=False)
    _ended: dict[EpochKey, int] = field(default_factory=dict)
    _new_rows: list[str] = field(default_factory=list)
    _handover: Handover = field(init=False)

    def __post_init__(self) -> None:
        self._handover = Handover(self.database, self.log)

    def run(self) -> Summary:
        """Raises BadFile, OSError, and UserError where it does not fit what is stored, or cannot be."""
        summary = check_file(self.path, self.check_finding)
        self._refuse_what_falls_together(summary.epochs)
        unfinished = self._refuse_what_is_here(summary.epochs)
        try:
            if unfinished:
                self._handover.write(lambda connection: remove_epochs(connection, unfinished))
            key: EpochKey | None = None
            for item in read_items(self.path):
                if isinstance(item, EpochHead):
                    key = self._open(item)
                elif not isinstance(item, FileHead):
                    self._store(item, key)
            self._handover.flush()
            self._handover.write(lambda connection: finish(connection, self._ended))
        except BaseException:
            # Where not even that can be written, what is there says that it is unfinished.
            with contextlib.suppress(UserError):
                self._take_back()
            raise
        return summary

    def _refuse_what_falls_together(self, lives: list[Life]) -> None:
        places = [(self.rename(life.source), one) for life in lives for one in (life.epoch, life.incarnation)]
        if len(set(places)) < len(places):
            names = ", ".join(dict.fromkeys(life.source for life in lives))
            raise UserError(f"{self.path} holds several sources ({names}); one name does not do for all of them.")

    def _refuse_what_is_here(self, lives: list[Life]) -> list[EpochKey]:
        """Returns the epochs of it that an import began and did not finish."""
        source, epoch = models.source, models.epoch
        columns = (source.c.name, epoch.c.source_id, epoch.c.epoch, epoch.c.incarnation, epoch.c.importing_ns)
        with self.database.reading() as connection:
            rows = connection.execute(sa.select(*columns).join_from(source, epoch)).all()
        there = {(row.name, one): row for row in rows for one in (row.epoch, row.incarnation)}
        unfinished = set()
        for life in lives:
            name = self.rename(life.source)
            places = ((name, life.epoch), (name, life.incarnation))
            for row in [there[place] for place in places if place in there]:
                if row.importing_ns is None:
                    raise UserError(
                        f"Epoch {life.epoch} of the source {name} is stored already; "
                        "import it under another name with --as NAME."
                    )
                unfinished.add(EpochKey(row.source_id, row.epoch))
        return sorted(unfinished)

    def _open(self, head: EpochHead) -> EpochKey:
        """The number is settled first, so that the log goes on with it."""
        name = self.rename(head.source)
        ended_ns = head.started_ns if head.ended_ns is None else head.ended_ns
        descriptor = read_descriptor(head.descriptor.encode())
        text = encode_descriptor(descriptor).decode()
        row = {
            "epoch": head.epoch, "incarnation": head.incarnation, "descriptor": text,
            "first_descriptor": text, "started_ns": head.started_ns, "ended_ns": ended_ns,
            "num_events": 0, "num_chunks": 0, "importing_ns": self.now_ns,
        }  # fmt: skip
        self._handover.write(lambda connection: add_epoch(connection, name, head.labels, row, self.now_ns))
        self._life = (name, head.labels, head.incarnation)
        key = self._tell(descriptor)
        assert key.epoch == head.epoch, "an imported epoch keeps its number"
        self._ended[key] = ended_ns
        return key

    def _tell(self, descriptor: Descriptor) -> EpochKey:
        """What the epoch's source is from here on."""
        self._descriptor = descriptor
        return self.log.open_epoch(*self._life, descriptor, self.now_ns, is_past=True)

    def _store(self, item: Item, key: EpochKey | None) -> None:
        if isinstance(item, Findings | Bookmarks):
            self._handover.write(lambda connection: self._new_rows.extend(add_rows(connection, item, self.rename)))
            return
        assert key is not None, "whatever else a file holds is of an epoch"
        if isinstance(item, Told):
            self._append(key, item)
        elif isinstance(item, Framed):
            self._frame(key, item)
        elif isinstance(item, Hole):
            hole = (item.wire_seq0, item.wire_seq1, item.seq0, item.seq1, item.at_ns, item.reason)
            self._handover.until_taken(partial(self.log.gap, key, *hole))
        elif isinstance(item, Rollups):
            self._handover.flush()
            self._handover.write(lambda connection: add_rollups(connection, key, item))

    def _append(self, key: EpochKey, told: Told) -> None:
        for message in told.messages:
            header = message.header
            self._handover.until_taken(partial(self.log.append, key, message))
            self._ended[key] = max(self._ended[key], header.t0_wall_ns)
            if header.descriptor:
                descriptor, before = read_descriptor(header.descriptor), self._descriptor
                self._descriptor = following(before, descriptor) if is_of_hashes(descriptor) else descriptor

    def _frame(self, key: EpochKey, framed: Framed) -> None:
        """Of another source than the events told, where those that told of the change are missing."""
        frame, descriptor = framed.frame, framed.state.descriptor
        if descriptor != self._descriptor:
            self._tell(descriptor)
        told = (key, frame.seq, frame.wire_seq, frame.t_ns, frame.state, kind_of(framed.state))
        self._handover.until_taken(partial(self.log.keyframe, *told))

    def _take_back(self) -> None:
        # What waits still refers to them.
        self._handover.flush()
        keys, ids = list(self._ended), self._new_rows
        self._handover.write(lambda connection: remove(connection, keys, ids))
