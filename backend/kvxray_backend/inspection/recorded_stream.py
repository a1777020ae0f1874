"""One stream of a recording, step by step: what it is by now, and what is said of it."""

from __future__ import annotations

from typing import Final

from kvxray_engine.stream.residency_state import StoreSemantics

from kvxray_backend.analysis.seed_mismatch import HashesByTokens
from kvxray_backend.inspection.dialect import hash_words, msgpack_dialect
from kvxray_backend.inspection.inspection_report import StreamReport
from kvxray_backend.inspection.recorded_formats import Format
from kvxray_backend.inspection.stream_reporting import grouped, stream_report
from kvxray_backend.inspection.stream_tally import StreamTally
from kvxray_backend.sources.foreign.batch_steps import Apply, Restarted, Step
from kvxray_backend.sources.foreign.followed_source import FollowedSource
from kvxray_backend.sources.foreign.ordered_stream import Delivery
from kvxray_backend.sources.privacy import NameFilter

_DIALECTS: Final[dict[Format, str]] = {
    "dynamo": "JSON, as Dynamo records its router's events",
    "trtllm": "JSON, as TensorRT-LLM's LLM.get_kv_cache_events() gives it",
}
_KEY: Final = b"inspection"
"""Salts and sessions are not shown here: their digests only have to differ."""


class RecordedStream:
    """`rank`: None where it is not told."""

    def __init__(self, name: str, rank: int | None, semantics: StoreSemantics) -> None:
        self.name = name
        self.rank = rank
        self.tally = StreamTally()
        # Without digests of tokens: recordings have zeros in the place of tokens, which prove nothing about seeds.
        self._source = FollowedSource(name, NameFilter(_KEY), HashesByTokens(), store_semantics=semantics)

    def take(self, step: Step[Delivery]) -> None:
        """One step, in order."""
        if isinstance(step, Restarted):
            self.tally.begin_life()
        elif isinstance(step, Apply):
            self.tally.note_batch(step.seq, step.batch.batch)
        self._source.take(step)

    def report(self, format: Format) -> StreamReport:
        """As of the last step."""
        dialect = _DIALECTS.get(format) or msgpack_dialect(self.tally.encodings)
        words = hash_words(self.tally.widths)
        found = self._source.findings
        findings = grouped([*found.all, *self._source.state_findings()], found.times)
        told = f"{dialect}, {words}" if words else dialect
        return stream_report(self.name, self.rank, told, self._source.fold, self.tally, findings)

    def check_integrity(self) -> None:
        """Asserts the invariants of every part."""
        self._source.check_integrity()
        self.tally.returns.check_integrity()
