"""A made-up engine that forgets to give blocks back: of many requests that end, one block stays held."""

from __future__ import annotations

from kvxray_engine.stream.schema import NO_ORDINAL

from benchmarks.measuring.model_engine import ModelEngine, ModelRequest


class LeakyEngine(ModelEngine):
    """`leaks`: holders that leak by now, at most `most`."""

    def __init__(self, num_blocks: int, rows: int, most: int) -> None:
        super().__init__(num_blocks, rows)
        self.most = most
        self.leaks = 0

    def _end(self, request: ModelRequest) -> None:
        if self.leaks < self.most and request.fork == NO_ORDINAL and len(request.blocks) > 1:
            self.leaks += 1
            request.blocks = request.blocks[:-1]
        super()._end(request)
