"""Steps of an engine that reports blocks, told to our own recorder and folded; what its figures say then."""

from __future__ import annotations

from typing import Any

from kvxray_backend.figures import Reading, figures_of
from kvxray_backend.windows import EventWindows
from kvxray_engine.stream.block_map import BlockMap

from tests.backend.told import Story, descriptor
from tests.conformance.case import NotBuilt
from tests.engine.verdict import BadInput

_BUILT = {"alloc": 2, "fill": 2}


class BlockEngine:
    """Blocks 1 and up, as many as are named; 0 is the null block."""

    def __init__(self, operations: list[list[Any]], block_size: int) -> None:
        blocks = [_blocks(operation) for operation in operations]
        num_blocks = 1 + max((block for named in blocks for block in named), default=0)
        self._story = Story(num_blocks)
        self._story.map = BlockMap(descriptor(num_blocks, block_size), source="told", incarnation="life-1")
        self._requests: set[str] = set()
        self._epoch_of_figures = 1

    def do(self, operations: list[list[Any]]) -> None:
        for operation in operations:
            self._do(*operation)
        self._story.step()

    def internal_fragmentation(self) -> float | int | None:
        reading = Reading(self._story.map, EventWindows(), self._epoch_of_figures, 0, self._story.clock.now, 0)
        return figures_of(reading)["internal_fragmentation"].value

    def _do(self, name: str, *arguments: Any) -> None:
        if name == "alloc":
            request, blocks = arguments
            if request not in self._requests:
                self._requests.add(request)
                self._story.arrive(request)
            self._story.allocate(request, *blocks)
        else:
            block, slots = arguments
            self._story.fill({block: slots})


def _blocks(operation: Any) -> list[int]:
    if not isinstance(operation, list) or not operation or not isinstance(operation[0], str):
        raise BadInput(f"{str(operation)[:80]!r} is no operation of an engine.")
    name, *arguments = operation
    if name not in _BUILT:
        raise NotBuilt(f"the operation {name} of an engine")
    named = arguments[1] if name == "alloc" and len(arguments) == 2 else arguments[:1]
    is_right = len(arguments) == _BUILT[name] and all(type(one) is int and 0 <= one < 1 << 20 for one in named)
    if not is_right:
        raise BadInput(f"{str(operation)[:80]!r} is no operation of an engine.")
    return list(named)
