"""What a cache, its requests and its figures are, recounted event by event from what the API tells of an early moment
and of every event since: plain Python that reads JSON and nothing of the product, so that it can be checked by eye.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Any

Event = dict[str, Any]

RATE_S, HIT_S = 10, 60
LEAK_GRACE_S, LEAK_GRACE_STEPS = 3, 2
ENDED = {"RequestFinished": "finished", "RequestAborted": "aborted", "RequestFailed": "failed"}


def ms_of(time: str) -> int:
    """Milliseconds since 1970: the engines of these tests live in whole ones, so that nothing is lost in the API."""
    return round(datetime.fromisoformat(time).timestamp() * 1000)


@dataclass
class Block:
    """`holders`: ids of requests, one entry a hold. `allocated_ms`, `last_ms`: 0 never."""

    block_id: int
    ref: int = 0
    slots: int = 0
    has_hash: bool = False
    is_written: bool = False
    allocated_ms: int = 0
    last_ms: int = 0
    holders: list[str] = field(default_factory=list)

    @property
    def state(self) -> str:
        if self.ref > 0:
            return "active" if self.ref == 1 else "shared"
        if self.has_hash:
            return "cached"
        return "free" if self.is_written else "empty"


@dataclass
class Request:
    """Times in ms, None where it has not come to it."""

    ordinal: int
    prompt: int
    status: str = "waiting"
    output: int = 0
    queried: int = 0
    hit: int = 0
    preemptions: int = 0
    arrived_ms: int = 0
    scheduled_ms: int | None = None
    first_token_ms: int | None = None
    last_token_ms: int | None = None
    ended_ms: int | None = None
    ended_step: int = 0


class Recount:
    """Everything after the events so far. `now_ms`, `step`: what the last of them told."""

    def __init__(self, blocks: Iterable[dict[str, Any]], requests: Iterable[dict[str, Any]], block_size: int) -> None:
        """From /api/blocks/{id} of every usable block and from /api/requests, both of one moment."""
        self.block_size = block_size
        self.blocks = {told["block_id"]: _block(told) for told in blocks}
        self.requests = {told["request_id"]: _request(told) for told in requests}
        self.events: list[Event] = []
        self.now_ms = 0
        self.step = 0
        self._step_began_ms = 0

    def happen(self, event: Event) -> None:
        """One event more."""
        self.events.append(event)
        self.now_ms, self.step = ms_of(event["time"]), event["step"]
        if event["kind"] == "StepStarted":
            self._step_began_ms = self.now_ms
        if event["block_id"] is not None:
            self._change_block(self.blocks[event["block_id"]], event)
        elif event["request_id"] is not None:
            self._change_request(event)

    def _change_block(self, block: Block, event: Event) -> None:
        block.is_written, block.last_ms = True, self.now_ms
        match event["kind"]:
            case "BlockAllocated":
                block.ref, block.slots, block.has_hash = 1, 0, False
                block.allocated_ms, block.holders = self.now_ms, [event["request_id"]]
            case "BlockReferenced":
                block.ref = event["value"]
                block.holders.append(event["request_id"])
            case "BlockDereferenced":
                block.ref = event["value"]
                block.holders.remove(event["request_id"])
            case "BlockFreed":
                block.ref = 0
                block.holders.remove(event["request_id"])
            case "BlockCached":
                block.has_hash, block.slots = True, self.block_size
            case "BlockEvicted":
                block.has_hash = False
            case "BlockFilled":
                block.slots = event["value"]
            case other:
                raise AssertionError(f"{other} is not recounted")

    def _change_request(self, event: Event) -> None:
        kind, a0, a1 = event["kind"], event["a0"], event["a1"]
        if kind == "RequestArrived":
            ordinal = 1 + max((request.ordinal for request in self.requests.values()), default=-1)
            self.requests[event["request_id"]] = Request(ordinal, a1, arrived_ms=self._step_began_ms + a0 // 1000)
            return
        request = self.requests[event["request_id"]]
        if kind == "RequestScheduled":
            request.status, request.scheduled_ms = "running", self.now_ms
            request.queried, request.hit = request.queried + a0, request.hit + a1
        elif kind == "RequestResumed":
            request.status = "running"
        elif kind == "RequestPreempted":
            request.status, request.preemptions = "preempted", request.preemptions + 1
        elif kind == "TokensGenerated":
            request.output, request.last_token_ms = a1, self.now_ms
            request.first_token_ms = request.first_token_ms or self.now_ms
        else:
            request.status, request.prompt, request.output = ENDED[kind], a0, a1
            request.ended_ms, request.ended_step = self.now_ms, self.step

    def num_blocks(self, *states: str) -> int:
        return sum(block.state in states for block in self.blocks.values())

    def num_holes(self) -> int:
        """Places where events are missing between two that were told."""
        seqs = [int(event["seq"].partition(".")[2]) for event in self.events]
        return sum(later != earlier + 1 for earlier, later in pairwise(seqs))

    def num_requests(self, *statuses: str) -> int:
        return sum(request.status in statuses for request in self.requests.values())

    def share_of_blocks(self, *states: str) -> float:
        return self.num_blocks(*states) / len(self.blocks)

    def internal_fragmentation(self) -> float | None:
        """Empty slots of the blocks that somebody holds, among all of theirs."""
        held = [block for block in self.blocks.values() if block.ref > 0]
        slots = self.block_size * len(held)
        return sum(self.block_size - block.slots for block in held) / slots if slots else None

    def held_by(self, request_id: str) -> list[Block]:
        """One entry a hold."""
        return [block for block in self.blocks.values() for holder in block.holders if holder == request_id]

    def leaks(self, request_id: str) -> bool:
        """Whether what it holds outlived it, longer than the grace."""
        request = self.requests[request_id]
        if request.ended_ms is None or not self.held_by(request_id):
            return False
        is_past_steps = self.step - request.ended_step >= LEAK_GRACE_STEPS or not self.num_requests("running")
        return is_past_steps and self.now_ms - request.ended_ms > 1000 * LEAK_GRACE_S

    def leaked_blocks(self, request_id: str) -> set[int]:
        return {block.block_id for block in self.held_by(request_id)} if self.leaks(request_id) else set()

    def leaked(self) -> set[int]:
        """Blocks with a leaked hold."""
        return {block_id for request_id in self.requests for block_id in self.leaked_blocks(request_id)}

    def leaked_only(self) -> set[int]:
        """Blocks of which every hold is leaked."""
        leaking = {request_id for request_id in self.requests if self.leaks(request_id)}
        return {block_id for block_id in self.leaked() if leaking.issuperset(self.blocks[block_id].holders)}

    def between(self, begin_ms: int, end_ms: int, *kinds: str) -> Iterator[Event]:
        """Events of these kinds from a time up to, not including, another."""
        return (event for event in self.events if event["kind"] in kinds and begin_ms <= ms_of(event["time"]) < end_ms)

    def last(self, seconds: int, *kinds: str) -> Iterator[Event]:
        """Events of these kinds of the last seconds."""
        return self.between(self.now_ms - 1000 * seconds + 1, self.now_ms + 1, *kinds)

    def per_second(self, kind: str) -> float:
        return sum(1 for _ in self.last(RATE_S, kind)) / RATE_S

    def tokens_per_second(self) -> float:
        return sum(event["a0"] for event in self.last(RATE_S, "TokensGenerated")) / RATE_S

    def hit_rate(self) -> float | None:
        return hit_rate_of(self.last(HIT_S, "RequestScheduled"))

    def ttft_p50_s(self) -> float | None:
        """The median wait for a first token, of those that came in the last minute."""
        waits = [
            (request.first_token_ms - request.arrived_ms) / 1000
            for request in self.requests.values()
            if request.first_token_ms is not None and request.first_token_ms > self.now_ms - 1000 * HIT_S
        ]
        return median(waits) if waits else None


def hit_rate_of(scheduled: Iterable[Event]) -> float | None:
    """Of the prompt tokens that were looked up, those found."""
    looked_up = [(event["a0"], event["a1"]) for event in scheduled]
    queried = sum(queried for queried, _ in looked_up)
    return sum(hit for _, hit in looked_up) / queried if queried else None


def _block(told: dict[str, Any]) -> Block:
    return Block(
        told["block_id"],
        ref=told["ref_cnt"]["value"],
        slots=told["slots"]["value"],
        has_hash=told["block_hash"] is not None,
        is_written=told["last_event_at"] is not None,
        allocated_ms=ms_of(told["allocated_at"]) if told["allocated_at"] else 0,
        last_ms=ms_of(told["last_event_at"]) if told["last_event_at"] else 0,
        holders=[holder["request_id"] for holder in told["holders"]],
    )


def _request(told: dict[str, Any]) -> Request:
    arrived, ttft = ms_of(told["arrived_at"]), told["ttft_s"]["value"]
    return Request(
        told["ordinal"],
        told["prompt_tokens"],
        status=told["status"],
        output=told["output_tokens"],
        hit=told["hit_tokens"],
        preemptions=told["preemptions"],
        arrived_ms=arrived,
        first_token_ms=arrived + round(1000 * ttft) if ttft is not None else None,
        ended_ms=ms_of(told["ended_at"]) if told["ended_at"] else None,
    )
