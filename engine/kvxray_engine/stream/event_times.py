"""When each operation of a message happened, and in which step.

StepStarted times what follows it. What a step brings about (tokens, filled blocks, and whatever is told after them)
exists when the step completes, so it counts from there: else a prompt computed in one step would have no time to its
first token.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvxray_engine.stream.columns import I8, Columns
from kvxray_engine.stream.schema import Header, Kind

_RESULTS = (Kind.TokensGenerated, Kind.BlockFilled, Kind.StepCompleted)


def operation_times(header: Header, columns: Columns) -> I8:
    """Wall ns of each operation of a message (or of several joined)."""
    starts = np.flatnonzero(columns.kind == Kind.StepStarted)
    marks = np.concatenate(([0], columns.a0[starts].astype(np.int64) * 1000)) + header.t0_wall_ns
    times: I8 = marks[np.searchsorted(starts, np.arange(len(columns.kind)), side="right")]
    return at_completion(columns, times)


def at_completion(columns: Columns, times: I8) -> I8:
    """`times` of the start of each operation's step, with the results of a step moved to its end."""
    kind = columns.kind
    completed = np.flatnonzero(kind == Kind.StepCompleted)
    if not len(completed):
        return times
    position = np.arange(len(kind))
    last_start = _last_at(np.flatnonzero(kind == Kind.StepStarted), position)
    last_result = _last_at(np.flatnonzero(np.isin(kind, _RESULTS)), position)
    following = np.searchsorted(completed, position)
    end = completed[np.minimum(following, len(completed) - 1)]
    is_result = (last_result > last_start) & (following < len(completed)) & (last_start[end] == last_start)
    return np.where(is_result, times + columns.a0[end].astype(np.int64) * 1000, times)


def operation_steps(header: Header, columns: Columns) -> I8:
    """The engine's step of each operation: StepStarted tells its low 32 bits, the header the whole of the last one."""
    starts = np.flatnonzero(columns.kind == Kind.StepStarted)
    low = np.concatenate(([header.step & 0xFFFFFFFF], columns.a1[starts].astype(np.int64)))
    steps = header.step - ((header.step - low) & 0xFFFFFFFF)
    told: I8 = steps[np.searchsorted(starts, np.arange(len(columns.kind)), side="right")]
    return told


def _last_at(marks: NDArray[np.intp], position: NDArray[np.intp]) -> NDArray[np.intp]:
    """For each position the last mark at or before it, -1 where there is none."""
    before: NDArray[np.intp] = np.concatenate(([-1], marks))[np.searchsorted(marks, position, side="right")]
    return before
