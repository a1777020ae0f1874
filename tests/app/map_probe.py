"""What tests of the map share: its states and flags, how to read its pixels, and answers about a block."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence

import numpy as np
from playwright.sync_api import Page

from tests.app.scripted_backend import ScriptedBackend

LEAKED, LEAKED_ONLY = 1, 8
EMPTY, FREE, CACHED, ACTIVE, SHARED = 1, 2, 3, 4, 5

# The colour in the middle of a cell, low down: below the number, within the slots written of a full block.
PIXEL = """block => {
  const canvas = inside("block_map", ".blocks");
  const box = canvas.getBoundingClientRect();
  const { x, y } = __kvxray.map.cellCentre(block);
  const [r, g, b] = canvas.getContext("2d").getImageData(x - box.left - scrollX, y - box.top - scrollY, 1, 1).data;
  return "#" + [r, g, b].map(part => part.toString(16).padStart(2, "0")).join("");
}"""

# Near the upper right corner of a cell, and below its middle.
CORNER, PIXEL_LOW = (
    PIXEL.replace(
        "const { x, y } = __kvxray.map.cellCentre(block);",
        "const [at, first, second] = [block, 1, 2].map(id => __kvxray.map.cellCentre(id));"
        "const side = second.x - first.x;"
        f"const [x, y] = [at.x + {across} * side, at.y + {down} * side];",
    )
    for across, down in ((0.4, -0.4), (0, 0.3))
)

ZOOM = "__kvxray.map.part()?.zoom"


def open_at(page: Page, backend: ScriptedBackend, query: str) -> None:
    """Open the bare page at an address that says more than where it is."""
    page.goto(f"{backend.url}/?{query}")
    page.wait_for_function("window.ready")


def point_at(page: Page, block: int) -> dict[str, float]:
    """Move the pointer to a block; its middle on the page."""
    centre: dict[str, float] = page.evaluate("block => __kvxray.map.cellCentre(block)", block)
    page.mouse.move(centre["x"], centre["y"])
    return centre


def block_answer(block: int, state: str = "active", holders: tuple[str, ...] = ("agent-1",)) -> dict[str, object]:
    age = {"value": 3.0, "unit": "seconds", "certainty": "exact", "since_seq": None, "taints": []}
    return {
        "block_id": block,
        "state": state,
        "ref_cnt": {**age, "value": len(holders)},
        "slots": {**age, "value": 16},
        "block_hash": "ab" * 32,
        "parent_block_hash": None,
        "group": 0,
        "medium": "GPU",
        "holders": [
            {"holder": at, "request_id": name, "kind": "request", "status": "running", "leaked": False}
            for at, name in enumerate(holders)
        ],
        "allocated_at": "2026-01-01T00:00:00.000Z",
        "last_event_at": "2026-01-01T00:00:01.000Z",
        "age_s": age,
        "idle_s": age,
        "history": [],
        "taints": [],
    }


def choose(page: Page, option: str) -> None:
    """Press what the colours shall tell, or how the blocks shall lie."""
    page.evaluate("option => inside('block_map', `.modes [data-option=${option}]`).click()", option)


def details_of(
    backend: ScriptedBackend,
    ages: Mapping[int, int],
    holders: Mapping[int, int],
    known: bool = True,
    tenants: Mapping[int, int] | None = None,
    together: Sequence[Sequence[int]] = (),
) -> bytes:
    """As `/api/state/details` answers: ages in hundredths of a second, holders by ordinal, classes of tenants; unknown
    and nobody else. together: sets of holders, the first of which holders tell as 2^31.
    """
    names = {"7": "agent-7", "8": "agent-8"}
    told = {"holders": names, "tenants": ["a" * 32, "b" * 32], "together": together, "sharers": {"10": "agent-10"}}
    tail, flags = json.dumps(told).encode(), int(known) + 2 * (tenants is not None)
    blocks = range(backend.num_blocks)
    head = struct.pack("<4sBB2xIIdI4x", b"KVXD", 3, flags, 1, backend.num_blocks, 0.0, len(tail))
    columns = [[column.get(block, 2**32 - 1) for block in blocks] for column in (ages, holders)]
    body = b"".join(struct.pack(f"<{backend.num_blocks}I", *column) for column in columns)
    if tenants is not None:
        body += bytes(tenants.get(block, 1) for block in blocks)
    return head + body + tail


def order_of(blocks: Sequence[int], num_hashed: int = 0, num_trees: int = 0) -> bytes:
    """As `/api/state/order` answers: each block as the difference from the one before."""
    head = struct.pack("<4sB3xIIdII", b"KVXO", 1, 1, len(blocks), 0.0, num_hashed, num_trees)
    return head + np.diff(np.array(blocks, np.uint32), prepend=np.uint32(0)).astype("<u4").tobytes()
