"""Where the map puts each block, in a real browser: cells of their own, whole and enlarged."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

pytestmark = pytest.mark.browser

LAYOUTS = """async cases => {
  const { MapLayout } = await import("/assets/kvxray/map_layout.js");
  return cases.map(([number, hole, width, height, margin]) => {
    const layout = new MapLayout(number, hole, width, height, margin);
    const seen = new Set();
    const wrong = [];
    for (let block = 0; block < number; block++) {
      if (block === hole) continue;
      const [x, y, w, h] = layout.box(block);
      const inside = x >= margin && y >= margin && x + w <= width - margin + 1 && y + h <= height - margin + 1;
      const found = layout.blockAt(x + w / 2, y + h / 2);
      if (layout.grid.size >= 1 && (!inside || found !== block)) wrong.push(block);
      seen.add(layout.cellOf(block));
    }
    return { wrong, cells: seen.size, size: layout.grid.size };
  });
}"""

# For zoomed layouts: no gap in the area, and every block in sight points back to itself.
ENLARGED = """async cases => {
  const { MapLayout } = await import("/assets/kvxray/map_layout.js");
  return cases.map(([number, width, height, margin, part]) => {
    const layout = new MapLayout(number, 0, width, height, margin);
    layout.look(layout.clamped(part, 60));
    const { xs, ys, columns, rows } = layout.grid;
    const wrong = [];
    for (let block = 1; block < number; block++) {
      if (!layout.isInSight(block)) continue;
      const [x, y, w, h] = layout.box(block);
      if (layout.blockAt(x + w / 2, y + h / 2) !== block) wrong.push(block);
    }
    const covers = xs[0] <= margin + 1 && xs[columns] >= width - margin - 1
      && ys[0] <= margin + 1 && ys[rows] >= height - margin - 1;
    const seen = Array.from({ length: number }, (_, block) => block).filter(b => b && layout.isInSight(b)).length;
    return { wrong, covers, seen, size: layout.grid.size, part: layout.view };
  });
}"""


def test_every_block_has_a_cell_of_its_own_that_points_back_to_it(page: Page) -> None:
    cases = [
        [number, hole, width, height, 4]
        for number, hole in [(2, 0), (9, 0), (100, -1), (1024, 0), (1025, 512), (32_768, 0), (200_000, 0)]
        for width, height in [(850, 400), (320, 640), (1500, 560), (3001, 1117)]
    ]
    for case, layout in zip(cases, page.evaluate(LAYOUTS, cases), strict=True):
        assert layout["wrong"] == [], case
        assert layout["cells"] == case[0] - (case[1] >= 0), case


def test_a_million_blocks_fit_a_small_map(page: Page) -> None:
    (layout,) = page.evaluate(LAYOUTS, [[1_000_001, 0, 850, 400, 4]])
    assert layout["cells"] == 1_000_000
    assert 0 < layout["size"] < 1


def test_enlarged_map_covers_its_stage_and_points_back_to_blocks(page: Page) -> None:
    parts = [{"zoom": zoom, "x": x, "y": y} for zoom in (1.5, 4, 400) for x, y in [(0, 0), (0.5, 0.5), (1, 0.3)]]
    cases = [[number, 850, 400, 4, part] for number in (100, 4097, 100_000) for part in parts]
    for case, layout in zip(cases, page.evaluate(ENLARGED, cases), strict=True):
        assert layout["wrong"] == [], case
        assert layout["covers"], case
        assert 0 < layout["seen"] < case[0] - 1, case
        assert layout["size"] <= 61 or layout["part"]["zoom"] <= 2, case
