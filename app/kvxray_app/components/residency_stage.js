// The stage of the map of cached hashes: canvases, pointer and keyboard. What a hash is it does not know.

import { el, setAttribute, setStyle } from "./elements.js";
import { listenForGestures } from "./map_gestures.js";
import { ResidencyCard } from "./residency_card.js";
import { rowsLayout, treeLayout } from "./residency_layout.js";
import { ResidencyOverlay, boxOf } from "./residency_overlay.js";
import { ResidencyPainter } from "./residency_painter.js";
import { WHOLE, fitted, revealed, zoomed } from "./residency_part.js";
import { ResidencyWriting } from "./residency_writing.js";

const LEAST_HEIGHT = 120; // CSS pixels
const ROW_HEIGHT = 34;
const FEW_ROWS = [64, 260]; // of a small cache rows may be so high, as long as all of them are no higher than that
const ROWS_CELL = 26;
const REST_MS = 10_000; // a pointer that was forgotten on the map does not stop it

export class ResidencyStage {
  /** `on`: {changed(), select(cell), key(event, stage): whether it was for somebody else}. */
  constructor(feed, view, on) {
    Object.assign(this, { feed, view, on });
    this.frame = this.layout = null;
    this.hover = this.cursor = null;
    this.bottom = el("canvas", { class: "cells" });
    this.top = el("canvas", {
      class: "over",
      tabindex: "0",
      role: "application",
      "aria-roledescription": "map of cached prefixes",
      "aria-describedby": "kx-residency-help",
    });
    this.card = new ResidencyCard(feed, () => on.changed());
    this.writing = new ResidencyWriting();
    this.node = el("div", { class: "stage" }, this.bottom, this.writing.canvas, this.top, this.card.node);
    this.painter = new ResidencyPainter(this.bottom);
    this.overlay = new ResidencyOverlay(this.top);
    const resized = new ResizeObserver(() => on.changed());
    resized.observe(this.node);
    const exit = listenForGestures(this.top, {
      zoom: (factor, event) => this.zoom(factor, ...this.#point(event)),
      pan: (dx, dy) => this.#look({ ...this.part, x: this.part.x - dx, y: this.part.y - dy }),
      canPan: () => view.part.zoom > 1,
      point: (event) => this.#hoverAt(event && this.#cellAt(event)),
      select: (event) => on.select(this.#cellAt(event)),
      mark: () => {},
    });
    this.top.addEventListener("keydown", (event) => this.#key(event));
    this.top.addEventListener("blur", () => this.#moveCursor(null));
    this.restsUntil = 0;
    this.top.addEventListener("pointermove", () => (this.restsUntil = performance.now() + REST_MS));
    for (const kind of ["pointerleave", "pointercancel"]) this.top.addEventListener(kind, () => this.#goOn());
    this.exits = [() => resized.disconnect(), exit, () => this.card.close()];
  }

  /** Whether somebody points at it, so that no cell may move from under the pointer. */
  get rests() {
    return performance.now() < this.restsUntil;
  }

  close() {
    for (const exit of this.exits) exit();
  }

  /** Another frame: cells have other numbers, and so have hover and cursor. */
  take(frame, moved) {
    const [hover, cursor] = [this.hover, this.cursor].map((at) => moved(at));
    Object.assign(this, { frame, hover, cursor, layout: null });
    this.overlay.forget();
  }

  /**
   * `look`: {classes: u1 a cell, pixels: u4 a class}; `blockSize`: tokens, null where not all have the same; `selected`: a
   * cell or null; `marked`: cells that an alert is about. Returns whether to draw again soon.
   */
  draw(look, palette, selected, blockSize, marked = []) {
    const { frame } = this;
    setAttribute(this.node, "data-blank", !frame?.count);
    if (!frame?.count) return false;
    this.#lay();
    const { width, height, layout, part } = this;
    setAttribute(this.top, "data-enlarged", part.zoom > 1);
    const key = [width, height, devicePixelRatio, blockSize, ...Object.values(part)].join();
    if (this.painted !== look || this.key !== key || this.paintedLayout !== layout) {
      this.painter.paint({ frame, layout, view: part, ...look, palette, width, height });
      this.writing.draw({ frame, layout, view: part, look, palette, width, height, blockSize });
      Object.assign(this, { painted: look, key, paintedLayout: layout });
    }
    const { hover, cursor } = this;
    const again = this.overlay.draw({ layout, view: part, palette, width, height }, { selected, marked, hover, cursor });
    const pointed = cursor ?? hover;
    this.card.draw(frame, pointed, pointed === null ? null : boxOf(layout, part, pointed), this.node);
    return again;
  }

  /** Enlarge by a factor around a point of the stage (its middle), 0: as a whole. Returns whether it did. */
  zoom(factor, px = this.width / 2, py = this.height / 2) {
    if (!this.layout) return false;
    const refit = (part) => fitted(part, this.layout, this.width, this.height);
    const part = factor ? zoomed(this.part, factor, px, py, refit) : WHOLE;
    if (part) this.#look(part);
    return part !== null;
  }

  /** The middle of a cell on the screen, for tests: [x, y]. */
  centreOf(at) {
    const [x, y, w, h] = boxOf(this.layout, this.part, at);
    const { left, top } = this.top.getBoundingClientRect();
    return [left + x + w / 2, top + y + h / 2];
  }

  #lay() {
    const width = this.node.clientWidth;
    const isOther = this.layout?.kind !== this.view.layout || this.laidFor !== width;
    if (isOther) {
      this.laidFor = width;
      this.layout = this.view.layout === "tree" ? treeLayout(this.frame) : rowsLayout(this.frame, this.#columns(width));
    }
    const { rows } = this.layout;
    const wanted = Math.max(LEAST_HEIGHT, rows * ROW_HEIGHT, Math.min(rows * FEW_ROWS[0], FEW_ROWS[1]));
    setStyle(this.node, "--rows-height", `${wanted}px`);
    Object.assign(this, { width, height: this.node.clientHeight });
    this.part = fitted(this.view.part, this.layout, this.width, this.height);
  }

  // As many a row as let all of them fit the stage as squares.
  #columns(width) {
    const n = this.frame.count;
    const most = parseFloat(getComputedStyle(this.node).maxHeight) || 400;
    const size = Math.max(1, Math.min(ROWS_CELL, Math.sqrt((width * most) / n)));
    return Math.max(1, Math.floor(width / size));
  }

  #look(part) {
    this.view.look(part);
    this.part = fitted(this.view.part, this.layout, this.width, this.height); // several moves may come before the next frame
  }

  #point(event) {
    const { left, top } = this.top.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  }

  #cellAt(event) {
    if (!this.layout || !this.part) return null;
    const [x, y] = this.#point(event);
    return this.layout.at(Math.floor((x + this.part.x) / this.part.w), Math.floor((y + this.part.y) / this.part.h));
  }

  #goOn() {
    this.restsUntil = 0;
    this.on.changed();
  }

  #hoverAt(at) {
    if (at === this.hover) return;
    this.hover = at;
    this.cursor = null; // the pointer has taken over
    this.on.changed();
  }

  #moveCursor(at) {
    this.cursor = at;
    this.on.changed();
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.layout) return;
    const from = this.cursor ?? this.hover ?? 0;
    const next = this.cursor === null ? from : neighbour(this.layout, from, event.key);
    if (event.key.startsWith("Arrow")) this.#walkTo(next ?? from);
    else if (event.key === "Enter" || event.key === " ") this.on.select(from);
    else if (this.on.key(event, this)) return;
    event.preventDefault();
  }

  #walkTo(at) {
    this.#look(revealed(this.part, this.layout, at, this.width, this.height));
    this.#moveCursor(at);
  }
}

// The cell beside one: in its chain to the left and right, a branch up or down.
function neighbour(layout, at, key) {
  const [col, row, span] = [layout.col[at], layout.row[at], layout.span[at]];
  if (key === "ArrowLeft") return layout.at(col - 1, row);
  if (key === "ArrowRight") return layout.at(col + 1, row);
  if (key === "ArrowUp") return nearest(layout, col, row - 1, -1);
  return nearest(layout, col, row + span, 1);
}

// A band may have no cell in this column: the next that has one.
function nearest(layout, col, row, step) {
  for (let y = row; y >= 0 && y < layout.rows; y += step) {
    const at = layout.at(col, y);
    if (at !== null) return at;
  }
  return null;
}
