"""A chunk cut where its seconds end, so that each of them has its own reading of the gauges. Pure.

Chunks that are cut while an engine runs are a quarter of a second long. What comes faster than it happened (an import,
a replay, a queue that was full) fills chunks of minutes: their gauges would be known where they end and nowhere else.
"""

from __future__ import annotations

import msgspec
import numpy as np
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.cutting import Divisible
from kvxray_engine.stream.event_times import timing_of

from kvxray_storage.rollup_book import NS


def by_second(message: Message) -> list[Message]:
    """Parts that fold to what the whole does, a second each; the whole where it is no longer than one."""
    times = timing_of(message).times
    if not len(times) or times[-1] - times[0] <= NS:
        return [message]
    seconds = np.maximum.accumulate(times // NS)
    first = np.flatnonzero(seconds[1:] != seconds[:-1]) + 1
    counts = message.columns.events_by_operation()
    ends = np.append(np.cumsum(counts)[first - 1], counts.sum()).tolist()
    whole = Divisible(message)
    parts = [whole.part(begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
    return [*map(_in_its_own_step, parts[:-1]), parts[-1]]


def _in_its_own_step(part: Message) -> Message:
    """The whole's header tells the step that the whole ends in."""
    step = int(timing_of(part).steps[-1])
    return Message(msgspec.structs.replace(part.header, step=step), part.columns, part.timing)
