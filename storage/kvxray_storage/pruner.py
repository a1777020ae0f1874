"""Carries out what retention plans, in slices short enough that the writer's commits hardly notice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import sqlalchemy as sa
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import BadMessage

from kvxray_storage import models, pruning
from kvxray_storage.alerts import delete_alerts
from kvxray_storage.database import Database
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.errands import Write
from kvxray_storage.fold_rows import TABLES
from kvxray_storage.hash_tables import add_hashes
from kvxray_storage.postings import NEIGHBOURS
from kvxray_storage.records import EpochKey
from kvxray_storage.residency_travel import add_all_hashes
from kvxray_storage.retention import Cut, Edge
from kvxray_storage.retention_plan import OldRollups, Plan
from kvxray_storage.signal_minutes import MINUTE_S, delete_minutes, oldest_quarter
from kvxray_storage.state_kinds import dump_state, holds_a_state, load_state

Run = Callable[[Sequence[Write]], None]
"""Runs short transactions as the writer, in order, and returns when all are durable. Raises what the first raises that
fails.
"""

LEAST_SECONDS: Final = 600
"""Of rollups, however small the limit."""


class Pruner:
    """`is_followed`: asked again inside the transaction that takes an epoch's end away. `on_cut`: messages of an epoch
    before this number are gone for good.
    """

    def __init__(
        self,
        database: Database,
        run: Run,
        is_followed: Callable[[EpochKey], bool] = lambda key: False,
        on_cut: Callable[[EpochKey, int], None] = lambda key, wire_seq: None,
    ) -> None:
        self._database = database
        self._run = run
        self._is_followed = is_followed
        self._on_cut = on_cut

    def carry_out(self, plan: Plan) -> bool:
        """Whether any of the history that takes room went."""
        has_cut = False
        for cut in plan.cuts:
            try:
                self._cut(cut)
                has_cut = True
            except pruning.EdgeIsGone:
                continue
        self._run([partial(pruning.delete_keyframes, key=key, seqs=seqs) for key, seqs in plan.frames.items()])
        for old in plan.rollups:
            self._delete_rollups(old)
        findings = plan.findings_before_ns.items()
        self._run([partial(pruning.delete_findings, source=name, before_ns=at) for name, at in findings])
        if plan.alerts_before_ns is not None:
            self._delete_alerts(plan.alerts_before_ns)
        return self._shorten_rollups() or has_cut if plan.is_short else has_cut

    def _cut(self, cut: Cut) -> None:
        """All of it is handed over at once, so that it costs one wait for the writer and not one a slice."""
        edge, state = cut.edge, self._with_hashes(cut.edge)
        has_begun = False

        def begin(connection: sa.Connection) -> None:
            nonlocal has_begun
            if edge.wire_seq is None and self._is_followed(edge.key):
                raise pruning.EdgeIsGone
            pruning.begin_at(connection, edge, state)
            has_begun = True

        def go_on(connection: sa.Connection, write: Write) -> None:
            if has_begun:
                write(connection)

        self._run([begin, *(partial(go_on, write=write) for write in self._slices(cut))])
        if edge.wire_seq is not None:
            self._on_cut(edge.key, edge.wire_seq)

    def _slices(self, cut: Cut) -> Iterator[Write]:
        edge, first_req, spoken_of = cut.edge, self._first_req(cut.edge), self._spoken_of(cut.edge.key)
        for _ in range(cut.num_chunks // pruning.CHUNKS_AT_ONCE + 1):
            yield partial(pruning.delete_chunks, edge=edge)
        end = None if first_req is None else first_req // NEIGHBOURS + 1
        for first, last in self._stretches(models.posting, "bucket", edge, end):
            yield partial(pruning.delete_postings, edge=edge, first=first, last=last)
        for first, last in self._stretches(models.name, "ordinal", edge, first_req):
            yield partial(pruning.delete_names, key=edge.key, first=first, last=last, spoken_of=spoken_of)

    def _with_hashes(self, edge: Edge) -> bytes | None:
        """The keyframe at the edge with the bytes of its hashes; None where it needs none, or cannot be read."""
        frame = models.keyframe
        query = sa.select(frame.c.state, frame.c.origin, frame.c.kind).where(
            *of_epoch(frame, edge.key), frame.c.seq == edge.seq
        )
        with self._database.reading() as connection:
            row = connection.execute(query.where(holds_a_state())).one_or_none()
        if row is None or row.origin != "periodic":
            return None
        try:
            state = load_state(row.kind, row.state)
        except BadMessage:
            return None
        if isinstance(state, BlockMap):
            add_hashes(self._database, edge.key, state)
        else:
            add_all_hashes(self._database, edge.key, state)
        return dump_state(state)

    def _spoken_of(self, key: EpochKey) -> set[str]:
        """Ids of requests that findings of the epoch name."""
        finding, source = models.finding, models.source
        named = sa.select(source.c.name).where(source.c.source_id == key.source_id).scalar_subquery()
        query = sa.select(finding.c.subjects).where(finding.c.source == named, finding.c.epoch == key.epoch)
        with self._database.reading() as connection:
            return {one for row in connection.execute(query) for one in json.loads(row.subjects).get("requests", [])}

    def _first_req(self, edge: Edge) -> int | None:
        """The first ordinal that what is left tells; None: nothing is left, or told."""
        chunk = models.chunk
        if edge.wire_seq is None:
            return None
        query = sa.select(chunk.c.req0).where(*of_epoch(chunk, edge.key), chunk.c.wire_seq1 >= edge.wire_seq)
        with self._database.reading() as connection:
            first = connection.execute(query.order_by(chunk.c.wire_seq0).limit(1)).scalar()
        return None if first is None else int(first)

    def _stretches(self, table: sa.Table, name: str, edge: Edge, end: int | None) -> Iterator[tuple[int, int]]:
        """Ranges of ordinals, or of their buckets, below `end` with a bounded number of rows each, in order."""
        column, begin = table.c[name], -1
        while True:
            query = sa.select(column).where(*of_epoch(table, edge.key), column > begin)
            query = query if end is None else query.where(column < end)
            with self._database.reading() as connection:
                rows = connection.execute(query.order_by(column).limit(pruning.ROWS_AT_ONCE)).scalars().all()
            if not rows:
                return
            begin = int(rows[-1])
            yield int(rows[0]), begin

    def _delete_rollups(self, old: OldRollups) -> None:
        """Slice by slice, until nothing is left to delete."""
        counts = [1]

        def delete(connection: sa.Connection) -> None:
            counts.append(pruning.delete_rollups(connection, old.source_id, old.span, old.before_s))

        while counts[-1]:
            self._run([delete])

    def _delete_alerts(self, before_ns: int) -> None:
        """Slice by slice, until nothing is left to delete."""
        counts = [1]

        def delete(connection: sa.Connection) -> None:
            counts.append(delete_alerts(connection, before_ns))

        while counts[-1]:
            self._run([delete])

    def _shorten_rollups(self) -> bool:
        """No events are left to go: the oldest quarter of the seconds, then of the minutes, of every source, then of
        what metrics told. False: there is none.
        """
        quarters = self._oldest_quarters(1) or self._oldest_quarters(60)
        for old in quarters:
            self._delete_rollups(old)
        return bool(quarters) or self._shorten_signals()

    def _shorten_signals(self) -> bool:
        before_s = oldest_quarter(self._database, LEAST_SECONDS * MINUTE_S)
        counts = [1] if before_s is not None else [0]

        def delete(connection: sa.Connection) -> None:
            assert before_s is not None, "nothing is deleted otherwise"
            counts.append(delete_minutes(connection, before_s))

        while counts[-1]:
            self._run([delete])
        return before_s is not None

    def _oldest_quarters(self, span: int) -> list[OldRollups]:
        t_s, source_id = TABLES[span].c.t_s, TABLES[span].c.source_id
        query = sa.select(source_id, sa.func.min(t_s).label("first"), sa.func.max(t_s).label("last"))
        with self._database.reading() as connection:
            rows = connection.execute(query.group_by(source_id)).all()
        long = [row for row in rows if row.last - row.first > LEAST_SECONDS * span]
        return [OldRollups(row.source_id, span, row.first + (row.last - row.first) // 4) for row in long]
