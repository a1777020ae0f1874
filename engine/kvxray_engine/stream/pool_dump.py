"""The state of an engine's pool as plain lists: what the publisher asks for, once, after messages were dropped at the
recorder.

The engine copies these lists at the end of a step; the publisher builds its fold anew from them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kvxray_engine.stream.schema import Name, RequestStatus


@dataclass(slots=True)
class RequestDump:
    """One request that lives, or that has ended and still holds blocks. Times in wall ns, 0 = not yet."""

    ordinal: int
    name: Name
    status: RequestStatus
    prompt_tokens: int = 0
    output_tokens: int = 0
    queried_tokens: int = 0
    hit_tokens: int = 0
    preemptions: int = 0
    arrived_ns: int = 0
    scheduled_ns: int = 0
    first_token_ns: int = 0
    ended_ns: int = 0


@dataclass(slots=True)
class PoolDump:
    """One entry a block in each list, the null block included.

    `block_hash` None = not cached. `hash_ordinal`, `parent_ordinal`: NO_ORDINAL where there is none. `high_water`:
    block ids below it have been allocated in this epoch; the others are empty. `next_seq`, `t_ns` (wall): filled in by
    the recorder. `holds`: a pair (block id, holder ordinal) for each hold, leaked ones included.
    """

    ref_cnt: list[int]
    block_hash: list[bytes | None]
    hash_ordinal: list[int]
    slots: list[int]
    high_water: int
    holds: list[tuple[int, int]]
    next_req: int
    next_hash: int
    next_seq: int = 0
    step: int = 0
    t_ns: int = 0
    parent_ordinal: list[int] = field(default_factory=list)
    requests: list[RequestDump] = field(default_factory=list)
