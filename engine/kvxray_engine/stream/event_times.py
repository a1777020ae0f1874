"""When each operation of a message happened, and in which step.

StepStarted times what follows it. What a step brings about (tokens, filled blocks, and whatever is told after them)
exists when the step completes, so it counts from there: else a prompt computed in one step would have no time to its
first token. A request that arrives while a step computes is told after it, and says how long after the step's beginning
it came.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvxray_engine.stream.codec import Message, Timing
from kvxray_engine.stream.columns import I8, Columns, kind_table
from kvxray_engine.stream.schema import Header, Kind

# Plain numbers: to compare a column with a member of an enum takes seven times as long.
_STARTED, _COMPLETED = int(Kind.StepStarted), int(Kind.StepCompleted)
_IS_RESULT: Final = kind_table(frozenset({Kind.TokensGenerated, Kind.BlockFilled, Kind.StepCompleted}))


def timing_of(message: Message) -> Timing:
    """When each operation of a message happened: a part of one brings it along."""
    if message.timing is not None:
        return message.timing
    header, columns = message.header, message.columns
    begun = begun_times(header, columns)
    return Timing(at_completion(columns, begun), operation_steps(header, columns), begun)


def operation_times(header: Header, columns: Columns) -> I8:
    """Wall ns of each operation of a message (or of several joined)."""
    return at_completion(columns, begun_times(header, columns))


def begun_times(header: Header, columns: Columns) -> I8:
    """Wall ns at which the step of each operation began."""
    starts = np.flatnonzero(columns.kind == _STARTED)
    marks = np.concatenate(([0], columns.a0[starts].astype(np.int64) * 1000)) + header.t0_wall_ns
    begun: I8 = marks[np.cumsum(columns.kind == _STARTED)]
    return begun


def at_completion(columns: Columns, times: I8) -> I8:
    """`times` of the start of each operation's step, with the results of a step moved to its end."""
    kind = columns.kind
    completed = np.flatnonzero(kind == _COMPLETED)
    if not len(completed):
        return times
    last_start = _last_at(kind == _STARTED)
    last_result = _last_at(_IS_RESULT[kind])
    is_completed = kind == _COMPLETED
    following = np.cumsum(is_completed) - is_completed
    end = completed[np.minimum(following, len(completed) - 1)]
    is_result = (last_result > last_start) & (following < len(completed)) & (last_start[end] == last_start)
    return np.where(is_result, times + columns.a0[end].astype(np.int64) * 1000, times)


def operation_steps(header: Header, columns: Columns) -> I8:
    """The engine's step of each operation: StepStarted tells its low 32 bits, the header the whole of the last one."""
    starts = np.flatnonzero(columns.kind == _STARTED)
    low = np.concatenate(([header.step & 0xFFFFFFFF], columns.a1[starts].astype(np.int64)))
    steps = header.step - ((header.step - low) & 0xFFFFFFFF)
    told: I8 = steps[np.cumsum(columns.kind == _STARTED)]
    return told


def _last_at(marked: NDArray[np.bool_]) -> NDArray[np.intp]:
    """For each position the last marked one at or before it, -1 where there is none."""
    last: NDArray[np.intp] = np.maximum.accumulate(np.where(marked, np.arange(len(marked)), -1))
    return last
