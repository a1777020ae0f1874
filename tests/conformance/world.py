"""A case told to the product: batches encoded and decoded, ordered, folded; pages read; sockets where it needs them."""

from __future__ import annotations

from typing import Any

import msgspec
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.metrics.exposition import parse_page
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.followed_source import FollowedSource
from kvxray_backend.sources.foreign.offline import OfflineSession
from kvxray_backend.sources.foreign.told import Told

from tests.conformance.case import Case, NotBuilt
from tests.conformance.engine_steps import BlockEngine
from tests.conformance.hashes import to_wire
from tests.conformance.transport_steps import accepts_live, accepts_replay, listed, stall_consumer
from tests.engine.verdict import BadInput, require

SECOND = 1_000_000_000
PAGE_EVERY_S = 10
_HASHES = ("block_hashes", "parent_block_hash")


class World:
    """Time stands still but for silence, and ten seconds before each page of metrics. `accepted`: whether each framing
    that was tried was read; `equal`: whether encodings said the same; None where nothing of the kind was tried.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.session = OfflineSession(
            b"conformance",
            hold_for_replay=case.setting("hold_for_replay", True),
            store_semantics=case.setting("store_semantics", "unknown"),
            num_blocks=case.setting("capacity", None),
        )
        self.accepted: list[bool] = []
        self.equal: bool | None = None
        self.engine_blocked: bool | None = None
        self.blocks: BlockEngine | None = None
        self.other_findings: list[Finding] = []
        self._now_ns = 0
        self.engine_name = next((step["src"] for step in case.steps if "src" in step), "engine")

    def run(self) -> None:
        operations = [one for step in self.case.steps for one in step.get("eng", [])]
        if operations:
            self.blocks = BlockEngine(operations, self.case.setting("block_size", 16))
        for step in self.case.steps:
            self._do(step)
        self.session.finish()
        self.session.check_integrity()

    @property
    def sources(self) -> list[FollowedSource]:
        return self.session.sources

    def findings(self) -> list[Finding]:
        of_blocks = self.blocks.findings if self.blocks is not None else []
        return [*self.session.findings(), *self.other_findings, *of_blocks]

    def _do(self, step: dict[str, Any]) -> None:
        if "ev" in step:
            payload = batch_payload(step["ev"], step.get("ts"), step.get("rank"))
            self.session.feed(step["src"], b"kv-events", step["seq"], payload, self._now_ns)
        elif "prom" in step:
            self._pass(PAGE_EVERY_S)
            self.session.take_page(step.get("src", self.engine_name), parse_page(step["prom"].encode()), self._now_ns)
            self.session.advance(self._now_ns)
        elif "eng" in step:
            assert self.blocks is not None, "there are operations"
            self.blocks.do(step["eng"])
        else:
            self._control(step)

    def _control(self, step: dict[str, Any]) -> None:
        named, details = step["ctl"], {key: value for key, value in step.items() if key != "ctl"}
        match named:
            case "silence":
                require(details, ("seconds",), "A silence")
                self._pass(details["seconds"])
                self.session.advance(self._now_ns)
            case "stall_consumer":
                require(details, ("seconds",), "A stall")
                stalled = stall_consumer(details["seconds"])
                self.engine_blocked = stalled.engine_blocked
                self.other_findings += stalled.findings
            case "replay":
                ends = [name for name in details if name.startswith("end")]
                for end in ends:
                    frames = f"frames{end.removeprefix('end')}"
                    require(details, (frames,), "A replay")
                    self.accepted.append(accepts_replay(details[frames], details[end]))
            case "frames":
                self.accepted += map(accepts_live, listed(details))
            case "encodings":
                self.equal = _are_equal([_event(value) for value in details.values()])
            case _:
                raise NotBuilt(f"the step {str(named)[:40]!r}")

    def _pass(self, seconds: float) -> None:
        if not isinstance(seconds, int | float) or not 0 <= seconds < 1e9:
            raise BadInput(f"{str(seconds)[:40]!r} are no seconds.")
        self._now_ns += round(seconds * SECOND)


def batch_payload(events: list[Any], ts: float | None, rank: int | None) -> bytes:
    """As an engine packs it: its events as the case has them, maps or arrays."""
    told = [[*map(_hash_or_not, event)] if isinstance(event, list) else _with_bytes(event) for event in events]
    return msgspec.msgpack.encode([ts, told] if rank is None else [ts, told, rank])


def _with_bytes(event: Any) -> Any:
    if not isinstance(event, dict):
        return event
    return {key: _hash_or_not(value) if key in _HASHES else value for key, value in event.items()}


def _hash_or_not(value: Any) -> Any:
    return [to_wire(one) for one in value] if isinstance(value, list) else to_wire(value)


def _event(value: Any) -> Told:
    batch = decode_batch(batch_payload([value], 0.0, 0))
    if len(batch.events) != 1 or batch.oddities:
        raise BadInput(f"{str(value)[:80]!r} is no event that is known: {batch.oddities}")
    return batch.events[0]


def _are_equal(events: list[Told]) -> bool:
    """Whether nothing that any two of them tell differs: arrays end before the newest fields."""
    return all(_agree(one, other) for one in events for other in events)


def _agree(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if not isinstance(one, msgspec.Struct):
        return bool(one == other or (isinstance(one, str) and "" in (one, other)))
    return all(_agree(getattr(one, name), getattr(other, name)) for name in one.__struct_fields__)
