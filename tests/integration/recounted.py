"""Every number of the API's answers by where it stands there, and how it is recounted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.integration.recount import Block, Recount, Request
from tests.integration.watched_life import BLOCK_SIZE, NUM_BLOCKS

Number = float | int | None

OF_THE_STATE: Final[dict[str, Callable[[Recount], Number]]] = {
    "epoch": lambda truth: 1,
    "step": lambda truth: truth.step,
    "usable_blocks": lambda truth: NUM_BLOCKS - 1,
    "block_size": lambda truth: BLOCK_SIZE,
    "bytes_per_block": lambda truth: 0,
    "counts.unknown": lambda truth: 0,
    "counts.empty": lambda truth: truth.num_blocks("empty"),
    "counts.free": lambda truth: truth.num_blocks("free"),
    "counts.cached": lambda truth: truth.num_blocks("cached"),
    "counts.active": lambda truth: truth.num_blocks("active"),
    "counts.shared": lambda truth: truth.num_blocks("shared"),
    "figures.used": lambda truth: truth.share_of_blocks("active", "shared"),
    "figures.cached": lambda truth: truth.share_of_blocks("cached"),
    "figures.shared": lambda truth: truth.share_of_blocks("shared"),
    "figures.internal_fragmentation": Recount.internal_fragmentation,
    "figures.leaked": lambda truth: len(truth.leaked()),
    "figures.leaked_only": lambda truth: len(truth.leaked_only()),
    "figures.hit_rate": Recount.hit_rate,
    "figures.evictions_per_s": lambda truth: truth.per_second("BlockEvicted"),
    "figures.allocations_per_s": lambda truth: truth.per_second("BlockAllocated"),
    "figures.preemptions_per_s": lambda truth: truth.per_second("RequestPreempted"),
    "figures.tokens_per_s": Recount.tokens_per_second,
    "figures.ttft_p50_s": Recount.ttft_p50_s,
    "figures.running": lambda truth: truth.num_requests("running"),
    "figures.waiting": lambda truth: truth.num_requests("waiting", "preempted"),
}

OF_THE_SOURCE: Final[dict[str, Callable[[Recount], Number]]] = {
    "epoch": lambda truth: 1,
    "step": lambda truth: truth.step,
    "gaps": lambda truth: truth.num_holes(),
    "drops": lambda truth: truth.num_holes(),
    "bad_messages": lambda truth: 0,
    "descriptor.num_blocks": lambda truth: NUM_BLOCKS,
    "descriptor.block_size": lambda truth: BLOCK_SIZE,
    "descriptor.null_block": lambda truth: 0,
    "descriptor.bytes_per_block": lambda truth: 0,
    "descriptor.bytes_per_block_fp16": lambda truth: 0,
}
NOT_TOLD_BY_EVENTS: Final = {"wire_seq", "lag_s"}
"""How messages were cut and how long they took: the events do not tell."""

OfRequest = Callable[[Recount, str, Request], Number]
OF_A_ROW: Final[dict[str, OfRequest]] = {
    "ordinal": lambda truth, name, request: request.ordinal,
    "prompt_tokens": lambda truth, name, request: request.prompt,
    "output_tokens": lambda truth, name, request: request.output,
    "hit_tokens": lambda truth, name, request: request.hit,
    "blocks": lambda truth, name, request: len(truth.held_by(name)),
    "shared_blocks": lambda truth, name, request: sum(block.ref > 1 for block in truth.held_by(name)),
    "leaked_blocks": lambda truth, name, request: len(truth.leaked_blocks(name)),
    "ttft_s": lambda truth, name, request: seconds_between(request.arrived_ms, request.first_token_ms),
    "preemptions": lambda truth, name, request: request.preemptions,
}
OF_A_REQUEST: Final[dict[str, OfRequest]] = OF_A_ROW | {
    "queried_tokens": lambda truth, name, request: request.queried,
    "waiting_s": lambda truth, name, request: seconds_between(request.arrived_ms, only_time(request)),
    "prefill_s": lambda truth, name, request: seconds_between(only_time(request), request.first_token_ms),
    "decode_s": lambda truth, name, request: seconds_between(request.first_token_ms, request.last_token_ms),
}

OF_A_BLOCK: Final[dict[str, Callable[[Recount, Block], Number]]] = {
    "block_id": lambda truth, block: block.block_id,
    "group": lambda truth, block: 0,
    "ref_cnt": lambda truth, block: block.ref,
    "slots": lambda truth, block: block.slots,
    "age_s": lambda truth, block: seconds_between(block.allocated_ms or None, truth.now_ms),
    "idle_s": lambda truth, block: seconds_between(block.last_ms or None, truth.now_ms),
}


def seconds_between(begin_ms: int | None, end_ms: int | None) -> float | None:
    """None where one of them is not known."""
    return None if begin_ms is None or end_ms is None else (end_ms - begin_ms) / 1000


def only_time(request: Request) -> int | None:
    """When it was scheduled; of one that was preempted several times, and none is told."""
    return None if request.preemptions else request.scheduled_ms
