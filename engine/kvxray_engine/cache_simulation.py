"""What a prefix cache could hit at best on a trace: an endless one, or one of so many blocks that forgets the least
recently used. Pure: no engine, no time, no running requests; requests come one after the other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from kvxray_engine.traces import TraceRequest


def hit_ratio(trace: Sequence[TraceRequest], capacity: int | None = None) -> float:
    """Prompt tokens found in the cache / prompt tokens, 0..1, where each segment of a prompt is one block.

    `capacity`: blocks, None = endless. As in the engine, the end of a chain is forgotten before its beginning, which is
    of no use alone.
    """
    cached: OrderedDict[int, None] = OrderedDict()  # least recently used first
    hit = total = 0
    for request in trace:
        chain = _chain(request)
        hits = next((index for index, block in enumerate(chain) if block not in cached), len(chain))
        hit += sum(tokens for _, tokens in request.segments[:hits])
        total += request.prompt_tokens
        for block in reversed(chain):
            cached[block] = None
            cached.move_to_end(block)
        while capacity is not None and len(cached) > capacity:
            cached.popitem(last=False)
    return hit / total if total else 0.0


def _chain(request: TraceRequest) -> list[int]:
    """A number for each segment that stands for the whole prompt up to its end."""
    chain: list[int] = []
    prefix = 0
    for number, _ in request.segments:
        prefix = hash((prefix, number))
        chain.append(prefix)
    return chain
