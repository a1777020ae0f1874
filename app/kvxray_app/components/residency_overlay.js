// What lies over the map: which cells an alert marks, where the pointer and the keyboard are, what is selected and the chain before it, and the glow
// of what just came or was used again.

import { blankCanvas } from "./blank_canvas.js";
import { prefersStillness } from "./theme.js";

const GLOW_MS = 900;
const GLOWS_MOST = 4000;
const RING_LEAST = 6; // CSS pixels

export class ResidencyOverlay {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.glows = { cells: [], until: 0 };
  }

  /** These cells changed just now. */
  glow(cells) {
    if (!cells.length || prefersStillness()) return;
    this.glows = { cells: cells.slice(0, GLOWS_MOST), until: performance.now() + GLOW_MS };
  }

  /** Cells have other numbers now. */
  forget() {
    this.glows = { cells: [], until: 0 };
  }

  /** `marks`: {selected, cursor, hover}: cells or null; marked: cells that an alert is about. Returns whether it has to be drawn again soon. */
  draw({ layout, view, palette, width, height }, marks) {
    blankCanvas(this.canvas, this.context, { width, height });
    if (!layout) return false;
    const left = this.#drawGlow(layout, view, palette);
    for (const at of marks.marked) this.#ring(layout, view, at, palette);
    if (marks.selected !== null) this.#drawChain(layout, view, palette, marks.selected);
    if (marks.hover !== null) this.#outline(layout, view, marks.hover, palette["kx-text"], 1.5);
    if (marks.cursor !== null) this.#outline(layout, view, marks.cursor, palette["kx-accent"], 2.5);
    return left;
  }

  #drawGlow(layout, view, palette) {
    const left = this.glows.until - performance.now();
    if (left <= 0) return false;
    this.context.globalAlpha = 0.75 * (left / GLOW_MS);
    this.context.fillStyle = palette["kx-glow"];
    for (const at of this.glows.cells) this.context.fillRect(...boxOf(layout, view, at));
    this.context.globalAlpha = 1;
    return true;
  }

  // The selected cell and all before it in its chain.
  #drawChain(layout, view, palette, selected) {
    const seen = new Set();
    for (let at = selected; at >= 0 && !seen.has(at); at = layout.parent[at]) {
      seen.add(at);
      this.#outline(layout, view, at, palette["kx-accent"], at === selected ? 2.5 : 1);
    }
  }

  // Seen on every colour, and never smaller than a few pixels.
  #ring(layout, view, at, palette) {
    const [x, y, w, h] = boxOf(layout, view, at);
    const [growX, growY] = [w, h].map((side) => Math.max(0, (RING_LEAST - side) / 2));
    for (const [colour, width] of [[palette["kx-panel"], 5], [palette["kx-critical"], 2.5]]) {
      this.context.strokeStyle = colour;
      this.context.lineWidth = width;
      this.context.strokeRect(x - growX, y - growY, w + 2 * growX, h + 2 * growY);
    }
  }

  #outline(layout, view, at, colour, width) {
    const [x, y, w, h] = boxOf(layout, view, at);
    this.context.strokeStyle = colour;
    this.context.lineWidth = width;
    this.context.strokeRect(x + width / 2 - 0.5, y + width / 2 - 0.5, Math.max(1, w - width + 0.5), Math.max(1, h - width + 0.5));
  }
}

/** Where a cell lies on the stage: [x, y, width, height] in CSS pixels. */
export function boxOf(layout, view, at) {
  return [
    layout.col[at] * view.w - view.x,
    layout.row[at] * view.h - view.y,
    Math.max(1, view.w - (view.w >= 4 ? 1 : 0)),
    Math.max(1, layout.span[at] * view.h - (view.h >= 4 ? 1 : 0)),
  ];
}
