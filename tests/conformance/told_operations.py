"""What an engine tells of its stream when one of a case's operations happens to it."""

from __future__ import annotations

from hashlib import sha256

from kvxray_engine.stream.schema import NO_ORDINAL, Cause, Kind, Name, QueueEnd

from tests.backend.told import Story
from tests.conformance.operations import Operation

_ENDS = {
    "finish": Kind.RequestFinished,
    "abort": Kind.RequestAborted,
    # A client that has gone wants nothing any more: from then on its request has no right to its blocks.
    "client_gone": Kind.RequestAborted,
    "error": Kind.RequestFailed,
}


class ToldOperations:
    """`_holders`: of each block, the last one last; an engine's own references, which need not be what it should do."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._requests: dict[str, int] = {}
        self._holders: dict[int, list[int]] = {}
        self._tokens: dict[int, int] = {}
        self._num_pins = 0

    def tell(self, operation: Operation) -> None:
        match operation.name:
            case "alloc":
                self._refer(self._request(operation.request), operation.blocks, Cause.hit)
            case "cache":
                self._cache(operation.blocks[0], operation.hash)
            case "fill":
                self._story.fill({operation.blocks[0]: int(operation.amount)})
            case "deref":
                self._release(operation.blocks, self._request(operation.request))
            case "free":
                self._release(operation.blocks, None)
            case "hold" | "pin":
                self._pin(operation)
            case _:
                self._tell_of_request(operation, self._request(operation.request))

    def _tell_of_request(self, operation: Operation, request: int) -> None:
        recorder, tokens = self._story.begin(), int(operation.amount)
        match operation.name:
            case "step":
                self._tokens[request] = self._tokens.get(request, 0) + tokens
                recorder.ops(Kind.TokensGenerated, [request], [tokens], [self._tokens[request]])
            case "preempt":
                recorder.op(Kind.RequestPreempted, Cause.none, request, 0, NO_ORDINAL)
            case "resume":
                recorder.op(Kind.RequestResumed, Cause.none, request)
            case ending:
                recorder.op(_ENDS[ending], Cause.none, request, 0, self._tokens.get(request, 0))

    def _request(self, request_id: str) -> int:
        if request_id not in self._requests:
            self._requests[request_id] = self._story.arrive(request_id, 0)
        return self._requests[request_id]

    def _refer(self, holder: int, blocks: tuple[int, ...], cause: Cause) -> None:
        """A block that nobody held is allocated, any other is shared."""
        recorder = self._story.begin()
        for block in blocks:
            held = self._holders.setdefault(block, [])
            held.append(holder)
            if len(held) == 1 and cause == Cause.hit:
                recorder.rows(Kind.BlockAllocated, Cause.none, holder, [block])
            else:
                recorder.values(Kind.BlockReferenced, cause, holder, [block], [len(held)])

    def _release(self, blocks: tuple[int, ...], holder: int | None) -> None:
        """holder None: whoever holds a block last."""
        recorder = self._story.begin()
        for block in blocks:
            held = self._holders.setdefault(block, [])
            who = holder if holder is not None else held[-1] if held else NO_ORDINAL
            num_before = len(held)
            if who in held:
                held.remove(who)
            if num_before == 1 or (num_before == 0 and holder is None):
                recorder.rows(Kind.BlockFreed, Cause.release, who, [block], QueueEnd.tail)
            else:
                recorder.values(Kind.BlockDereferenced, Cause.release, who, [block], [num_before - 1])

    def _pin(self, operation: Operation) -> None:
        """It is there for whoever holds the block by then."""
        holders = [self._holders[block][-1] for block in operation.blocks if self._holders.get(block)]
        self._num_pins += 1
        name = Name(operation.request or f"pin {self._num_pins}", kind="pin", parent=holders[0] if holders else -1)
        self._refer(self._story.begin().new_holder(name), operation.blocks, Cause.pin)

    def _cache(self, block: int, block_hash: str) -> None:
        holder = next(reversed(self._holders.get(block, [])), NO_ORDINAL)
        self._story.begin().cached(holder, [block], [sha256(block_hash.encode()).digest()], -1)
