// One picture of all blocks, or of the part looked at: two canvases (blocks, and what lies over them), a minimap and a
// card for the block pointed at. Draws only what changed. Which block is pointed at, walked to or selected, and which
// part is looked at, is decided by whoever made it: two panes beside each other share that.

import { BlockCard } from "./block_facts.js";
import { BlockHover } from "./block_hover.js";
import { el, setAttribute } from "./elements.js";
import { listenForGestures } from "./map_gestures.js";
import { MapDetails, isAsked } from "./map_details.js";
import { MapLayout } from "./map_layout.js";
import { MapOverlay } from "./map_overlay.js";
import { MapPainter } from "./map_painter.js";
import { Minimap } from "./minimap.js";
import { prefersStillness } from "./theme.js";

const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const MARGIN = 4; // CSS pixels by which the canvases stand out of the stage, as in block_map.css
const GLOW_STEP_MS = 33; // a glow fades at 30 frames a second: enough for the eye, half the work
const MOST_CHANGES = 256; // deltas kept to be painted one by one
const LARGEST_CELL = 44; // CSS pixels

export class MapPane {
  /**
   * `view`: a MapView; `order`: a MapOrder. `on`: {changed(): draw again; point(block or null); key(event, pane); select(block);
   * mark(blocks): these are being marked; leave(): the keyboard left}.
   */
  constructor(feed, view, order, on, note = null) {
    Object.assign(this, { feed, view, order, on });
    this.layout = null;
    this.changed = "all"; // what to paint in the next frame: null, arrays of block ids, or "all"
    this.moved = false; // another part is looked at
    this.bottom = el("canvas", { class: "blocks" });
    this.top = el("canvas", {
      class: "over",
      tabindex: "0",
      role: "application",
      "aria-roledescription": "block map",
      "aria-describedby": "kx-map-help",
    });
    this.card = new BlockCard();
    this.minimap = new Minimap((x, y) => this.#look({ ...view.part, x, y }));
    this.node = el("div", { class: "stage" }, this.bottom, this.top, note, this.minimap.node, this.card.node);
    this.details = new MapDetails(feed, () => on.changed());
    this.facts = new BlockHover(feed, () => on.changed());
    this.overlay = new MapOverlay(this.top, prefersStillness());
    this.painter = new MapPainter(this.bottom);
    const resized = new ResizeObserver(() => this.on.changed());
    resized.observe(this.node);
    this.exits = [
      () => resized.disconnect(),
      () => clearTimeout(this.timer),
      () => this.details.close(),
      () => this.facts.rest(),
      feed.subscribe("blocks", (ids, turned) => this.#blocksChanged(ids, turned)),
      view.subscribe((what) => what === "part" && this.on.changed()),
      this.#listen(),
    ];
  }

  close() {
    for (const exit of this.exits) exit();
  }

  /** Paint everything anew. */
  repaint() {
    this.changed = "all";
    this.on.changed();
  }

  /** Whether a hand is on it, so that nothing should move away from under it. */
  get isHeld() {
    return this.top.matches(":hover") && matchMedia("(hover: hover)").matches;
  }

  /** `marks`: {selected, lit, marked, differing, range, cursor, hover}; `focus`: a MapFocus. Returns whether blocks were painted. */
  draw(marks, palette, focus) {
    const { table, status } = this.feed;
    const { mode } = this.view;
    const isSummedUp = marks.range !== null;
    this.details.want(isAsked(mode) || isSummedUp, isSummedUp);
    const look = (this.look = focus.look(mode, palette, this.feed, this.details, marks));
    setAttribute(this.node, "data-phase", status.phase);
    setAttribute(this.node, "data-late", status.phase === "past" && status.reason !== "");
    setAttribute(this.node, "data-blank", !table);
    if (!table || !this.#ensureLayout(table, palette)) return false;
    if (look !== this.painter.look || palette !== this.painter.palette) this.changed = "all";
    const painted = this.#drawBlocks(table, look, palette);
    Object.assign(this.overlay, marks);
    this.overlay.draw(table, performance.now());
    this.#drawCard(table, marks.hover ?? marks.cursor);
    const isBehind = this.minimap.draw(this.layout, this.painter.sheet, painted);
    if (this.overlay.isMoving() || isBehind)
      this.timer ??= setTimeout(() => this.#goOn(), this.overlay.isMoving() ? GLOW_STEP_MS : 250);
    setAttribute(this.top, "data-enlarged", this.layout.view.zoom > 1);
    return painted;
  }

  /** Centre of a block's cell in page coordinates; null before there is a picture. */
  cellCentre(block) {
    if (!this.layout) return null;
    const [x, y, width, height] = this.layout.box(block);
    const place = this.bottom.getBoundingClientRect();
    const scale = place.width / this.layout.width;
    return {
      x: place.left + scrollX + (x + width / 2) * scale,
      y: place.top + scrollY + (y + height / 2) * scale,
    };
  }

  /** Where the keyboard leads from a block: the block, or null when the key means nothing here. */
  walk(key, from, begun) {
    const { layout } = this;
    if (key in MOVES) return begun ? layout.neighbour(from, ...MOVES[key]) : from;
    if (key === "Home") return layout.blockOf(0);
    return key === "End" ? layout.blockOf(layout.cells - 1) : null;
  }

  /** Enlarge by a factor, around a point of the canvas (CSS pixels) or its middle. Returns whether anything changed. */
  zoom(factor, at = null) {
    if (!this.layout) return false;
    const { layout, ratio } = this;
    const [px, py] = at ? at.map((length) => length * ratio) : [layout.width / 2, layout.height / 2];
    const { zoom } = layout.view;
    const next = layout.clamped({ ...layout.view, zoom: zoom * factor }, LARGEST_CELL * ratio).zoom;
    // What is under the point stays under it.
    const [across, down] = layout.shareAt(px, py);
    const stretch = zoom / next;
    const [middleX, middleY] = layout.shareAt(layout.width / 2, layout.height / 2);
    return this.#look({
      zoom: next,
      x: across + (middleX - across) * stretch,
      y: down + (middleY - down) * stretch,
    });
  }

  /** Move an enlarged map so that all of a block's cell is in sight. */
  reveal(block) {
    const [x, y, width, height] = this.layout.box(block);
    const { margin } = this.layout;
    const missing = (from, length, whole) => {
      if (from < margin) return margin - from;
      return Math.min(0, whole - margin - from - length);
    };
    const [dx, dy] = [missing(x, width, this.layout.width), missing(y, height, this.layout.height)];
    if (this.layout.view.zoom > 1 && (dx || dy)) this.#pan(dx / this.ratio, dy / this.ratio);
  }

  #look(part) {
    if (!this.layout) return false;
    const next = this.layout.clamped(part, LARGEST_CELL * this.ratio);
    const { zoom, x, y } = this.layout.view;
    if (next.zoom === zoom && Math.abs(next.x - x) < 1e-9 && Math.abs(next.y - y) < 1e-9) return false;
    this.view.look(next);
    this.#showPart(); // several moves may come before the next frame
    return true;
  }

  #pan(dx, dy) {
    const { columns, rows, xs, ys } = this.layout.grid;
    const { zoom, x, y } = this.layout.view;
    const [width, height] = [xs[columns] - xs[0], ys[rows] - ys[0]];
    this.#look({ zoom, x: x - (dx * this.ratio) / width, y: y - (dy * this.ratio) / height });
  }

  #listen() {
    const { top, on } = this;
    const exit = listenForGestures(top, {
      zoom: (factor, event) => this.zoom(factor, this.#place(event)),
      pan: (dx, dy) => this.layout && this.#pan(dx, dy),
      canPan: () => this.view.part.zoom > 1,
      point: (event) => on.point(event && this.#blockUnder(event)),
      select: (event) => on.select(this.#blockUnder(event)),
      mark: (from, to) => this.#mark(from, to),
    });
    top.addEventListener("keydown", (event) => this.layout && this.feed.table && on.key(event, this));
    top.addEventListener("blur", () => on.leave());
    return exit;
  }

  #mark(from, to) {
    if (!this.layout || !this.feed.table) return;
    const [one, other] = [from, to].map((event) =>
      this.layout.nearestBlock(...this.#place(event).map((length) => length * this.ratio)),
    );
    this.on.mark(this.layout.between(one, other));
  }

  #goOn() {
    this.timer = null;
    this.on.changed();
  }

  #blocksChanged(ids, turned) {
    if (ids === null) return this.repaint();
    if (this.layout) this.overlay.glow(ids, turned, performance.now());
    if (this.changed !== "all") (this.changed ??= []).push(ids);
    if (this.changed.length > MOST_CHANGES) this.changed = "all"; // nobody sees the stage: nothing is drawn
    this.on.changed();
  }

  // The layout follows the size of the pool and of the stage, and the part looked at; false while there is nothing to
  // draw on.
  #ensureLayout(table, palette) {
    const ratio = (this.ratio = devicePixelRatio || 1);
    const width = Math.floor(this.top.clientWidth * ratio);
    const height = Math.floor(this.top.clientHeight * ratio);
    if (!width || !height) return false;
    const wanted = [width, height, table.numBlocks, table.nullBlock, palette];
    if (!this.layout || wanted.some((part, at) => part !== this.laidOut[at])) {
      this.laidOut = wanted;
      this.layout = new MapLayout(
        table.numBlocks,
        table.nullBlock,
        width,
        height,
        Math.round(MARGIN * ratio),
      );
      this.shown = null;
      for (const canvas of [this.bottom, this.top]) Object.assign(canvas, { width, height });
      this.overlay.setLayout(this.layout, palette);
      this.changed = "all";
    }
    this.#arrange(table);
    this.#showPart();
    return true;
  }

  #arrange(table) {
    const order = this.view.layout === "chain" ? this.order.of(table) : null;
    if (order === this.layout.order) return;
    this.layout.arrange(order);
    this.changed = "all";
  }

  #showPart() {
    if (this.shown === this.view.part) return;
    this.shown = this.view.part;
    this.layout.look(this.layout.clamped(this.shown, LARGEST_CELL * this.ratio));
    this.moved = true;
  }

  #drawBlocks(table, look, palette) {
    const { changed, moved } = this;
    if (changed === null && !moved) return false;
    if (changed === "all") this.painter.paintAll(table, this.layout, look, palette);
    else this.painter.paint(table, changed ?? [], moved);
    this.changed = null;
    this.moved = false;
    return changed !== null;
  }

  #drawCard(table, block) {
    if (block === null || block >= table.numBlocks || !this.layout.isInSight(block)) {
      this.facts.rest();
      return this.card.hide();
    }
    const place = this.layout.box(block).map((length, at) => length / this.ratio - (at < 2 ? MARGIN : 0));
    this.card.show(table, block, place, this.facts.linesOf(table, block));
  }

  // Where an event is on the canvas, in CSS pixels.
  #place(event) {
    const place = this.top.getBoundingClientRect();
    return [event.clientX - place.left, event.clientY - place.top];
  }

  #blockUnder(event) {
    if (!this.layout || !this.feed.table) return null;
    return this.layout.blockAt(...this.#place(event).map((length) => length * this.ratio));
  }
}
