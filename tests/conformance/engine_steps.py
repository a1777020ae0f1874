"""Steps of an engine that reports blocks, told to our own recorder, folded and inspected as a live one; what is said
of it then.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.inspector import INSPECT_EVERY_NS, Inspector
from kvxray_backend.analysis.leaks import Leak
from kvxray_backend.figures import Reading, figures_of
from kvxray_backend.live_state import LiveState
from kvxray_backend.windows import EventWindows
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.holder_ends import GRACE_STEPS
from kvxray_engine.stream.schema import BlockState

from tests.backend.told import SECOND, Story, descriptor
from tests.conformance.operations import Operation, read_operation
from tests.conformance.told_operations import ToldOperations

EPOCH = 1


class BlockEngine:
    """Blocks 1 and up, as many as are named; 0 is the null block. Each operation is a step; time passes in ticks."""

    def __init__(self, operations: list[Any], block_size: int) -> None:
        self._all = [read_operation(operation) for operation in operations]
        num_blocks = 1 + max((block for one in self._all for block in one.blocks), default=0)
        self._story = Story(num_blocks)
        self._story.map = BlockMap(descriptor(num_blocks, block_size), source="told", incarnation="life-1")
        self._told = ToldOperations(self._story)
        self._live = LiveState("told")
        self._by_id: dict[str, Finding] = {}
        self._has_faults = False
        self._inspector = Inspector(self._live, self._story.clock, self._keep)
        begun = BlockMap(descriptor(num_blocks, block_size), source="told", incarnation="life-1")
        self._live.begin(EPOCH, begun, heard_ns=self._story.clock.now)
        self._fewest_free = self._num_free()

    def do(self, operations: list[Any]) -> None:
        for operation in map(read_operation, operations):
            self._do(operation)
        self._pass(INSPECT_EVERY_NS)

    @property
    def findings(self) -> list[Finding]:
        return list(self._by_id.values())

    @property
    def leaks(self) -> tuple[Leak, ...]:
        return self._live.leaks

    @property
    def block_map(self) -> BlockMap:
        assert self._live.block_map is not None, "it was begun"
        return self._live.block_map

    def figure(self, name: str) -> float | int | None:
        reading = Reading(self.block_map, EventWindows(), EPOCH, 0, self._story.clock.now, 0)
        return figures_of(reading)[name].value

    def leaked(self, kind: str | None = None) -> list[int]:
        """Blocks that holders of that kind leak; None: of any."""
        kinds = self.block_map.requests.names
        theirs = [leak.blocks for leak in self.leaks if kind is None or kinds[leak.holder].kind == kind]
        return sorted({int(block) for blocks in theirs for block in blocks})

    def blocks_in(self, *states: BlockState) -> list[int]:
        """The null block is outside all counts."""
        found = np.flatnonzero(np.isin(self.block_map.state, states)).tolist()
        return [block for block in found if block != self.block_map.descriptor.null_block]

    def free_count_delta(self) -> int:
        """How much the number of free blocks rose from where it was least."""
        return self._num_free() - self._fewest_free

    def _do(self, operation: Operation) -> None:
        if operation.name == "tick":
            self._pass(round(operation.amount * SECOND))
            return
        self._told.tell(operation)
        self._step()
        self._fewest_free = min(self._fewest_free, self._num_free())

    def _pass(self, nanoseconds: int) -> None:
        """Time without work: an engine's idle steps."""
        self._story.clock.now += nanoseconds
        for _ in range(GRACE_STEPS):
            self._story.begin()
            self._step()
        self._inspector.inspect(self._story.clock.mono_ns())

    def _step(self) -> None:
        message = self._story.step()
        faults = self._live.fold(message)
        self._inspector.folded(message, faults)
        self._has_faults |= bool(faults)
        if not self._has_faults:  # a stream that breaks the laws leaves a state that does too
            self._live.check_integrity()

    def _num_free(self) -> int:
        counts = self.block_map.counts()
        return counts[BlockState.empty] + counts[BlockState.free] + counts[BlockState.cached]

    def _keep(self, finding: Finding) -> None:
        self._by_id[finding.id] = finding
