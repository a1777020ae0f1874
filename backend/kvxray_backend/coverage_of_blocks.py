"""What is known of an engine that tells of blocks: what its coverage follows from."""

from __future__ import annotations

from kvxray_engine.stream.schema import BlockState

from kvxray_backend.coverage import SPOILS_OF_BLOCKS, Known
from kvxray_backend.live_state import LiveState


def known_of_blocks(live: LiveState) -> Known:
    """Takes the state's lock."""
    with live.lock:
        block_map = live.block_map
        if block_map is None:
            return Known(kind="blocks")
        is_known = not block_map.counts()[BlockState.unknown] and block_map.holders_known
        spoiled = any(finding.kind in SPOILS_OF_BLOCKS for finding in live.open_findings.found)
        return Known(
            kind="blocks",
            is_heard=True,
            is_whole=is_known and not spoiled,
            has_capacity=True,
            findings=live.open_findings.found,
        )
