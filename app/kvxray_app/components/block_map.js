// The block map: one cell a block, coloured by state, drawn on two canvases (blocks, and what lies over them).
// Hover for a card, click or Enter to inspect, arrows to move. Draws only in animation frames and only when
// something changed.

import { BlockCard, factsOf } from "./block_facts.js";
import { el, setAttribute, setText } from "./elements.js";
import { onEscape } from "./escape_key.js";
import { count, plural } from "./format.js";
import { LiveView, defineLiveComponent } from "./live_view.js";
import { MapLayout } from "./map_layout.js";
import { MapOverlay } from "./map_overlay.js";
import { painterFor } from "./map_painter.js";
import { Legend, MapNotice, Readout } from "./map_words.js";
import { prefersStillness } from "./theme.js";
import { onUnit } from "./units.js";

const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const MARGIN = 4; // CSS pixels by which the canvases stand out of the stage, as in block_map.css
const GLOW_STEP_MS = 33; // a glow fades at 30 frames a second: enough for the eye, half the work
const HELP = [
  [9, "Each square is a block. Its filled part shows the slots written, its number how many hold it."],
  [1, "Each square is a block, coloured by its state."],
  [0, "More blocks than pixels: the colours of neighbours blend."],
];

class BlockMap extends LiveView {
  constructor(context) {
    super(context);
    this.layout = null;
    this.changed = null; // what to paint in the next frame: arrays of block ids, or "all"
    this.hover = null;
    this.cursor = null; // the block that the keyboard is on
    this.#build();
    this.overlay = new MapOverlay(this.top, prefersStillness());
    const resized = new ResizeObserver(() => this.#all());
    resized.observe(this.stage);
    this.listen(
      () => resized.disconnect(),
      () => clearTimeout(this.glowTimer),
      this.feed.subscribe("blocks", (ids, turned) => this.#blocksChanged(ids, turned)),
      this.feed.subscribe("summary", () => this.requestDraw()),
      this.feed.subscribe("status", () => this.requestDraw()),
      this.selection.subscribe(() => this.requestDraw()),
      onUnit(() => this.requestDraw()),
      onEscape(() => this.#letGo()),
      this.#hook(),
    );
    this.selection.writeAddress();
    this.#all();
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

  retheme(palette) {
    super.retheme(palette);
    this.#all();
  }

  draw() {
    const { table } = this.feed;
    this.#drawWords(table);
    if (!table || !this.#ensureLayout(table)) return;
    this.#drawBlocks(table);
    this.overlay.selected = this.selection.block;
    this.overlay.lit = this.selection.lit?.blocks ?? null;
    this.overlay.cursor = this.cursor;
    this.overlay.hover = this.hover;
    this.overlay.draw(table, performance.now());
    this.#drawCard(table);
    if (this.overlay.isMoving()) this.glowTimer ??= setTimeout(() => this.#glowOn(), GLOW_STEP_MS);
  }

  #build() {
    this.legend = new Legend(this.tip, this.data.words);
    this.notice = new MapNotice();
    this.readout = new Readout();
    this.card = new BlockCard();
    this.bottom = el("canvas", { class: "blocks" });
    this.top = el("canvas", {
      class: "over",
      tabindex: "0",
      role: "application",
      "aria-roledescription": "block map",
      "aria-describedby": "kx-map-help",
    });
    this.lit = el("button", { class: "lit quiet-button", hidden: true, onclick: () => this.#clearLit() });
    this.help = el("span", { id: "kx-map-help" });
    this.spoken = el("span", { class: "sr-only", "aria-live": "polite" });
    const { age, note } = this.notice;
    this.stage = el("div", { class: "stage" }, this.bottom, this.top, note, this.card.node);
    this.root.append(
      el(
        "section",
        { class: "panel map", "aria-label": "Block map" },
        el("div", { class: "panel-head" }, el("h2", {}, "Block map"), age, this.legend.node),
        el("div", { class: "frame" }, this.stage),
        el("div", { class: "foot" }, this.help, this.lit, this.readout.node),
        this.spoken,
      ),
    );
    this.top.addEventListener("pointermove", (event) => this.#point(this.#blockUnder(event)));
    this.top.addEventListener("pointerleave", () => this.#point(null));
    this.top.addEventListener("click", (event) => this.#select(this.#blockUnder(event)));
    this.top.addEventListener("keydown", (event) => this.#key(event));
    this.top.addEventListener("blur", () => this.#moveCursor(null));
  }

  // For browser tests, see feed.js. Returns the way out.
  #hook() {
    const hook = { cellCentre: (block) => this.cellCentre(block) };
    window.__kvxray.map = hook;
    return () => window.__kvxray.map === hook && delete window.__kvxray.map;
  }

  #all() {
    this.changed = "all";
    this.requestDraw();
  }

  #glowOn() {
    this.glowTimer = null;
    this.requestDraw();
  }

  #blocksChanged(ids, turned) {
    if (ids === null) return this.#all();
    if (this.layout) this.overlay.glow(ids, turned, performance.now());
    if (this.changed !== "all") (this.changed ??= []).push(ids);
    this.requestDraw();
  }

  // The layout follows the size of the pool and of the stage; false while there is nothing to draw on.
  #ensureLayout(table) {
    const ratio = devicePixelRatio || 1;
    const width = Math.floor(this.top.clientWidth * ratio);
    const height = Math.floor(this.top.clientHeight * ratio);
    if (!width || !height) return false;
    const wanted = [width, height, table.numBlocks, table.nullBlock, this.palette];
    if (this.layout && wanted.every((part, at) => part === this.laidOut[at])) return true;
    this.laidOut = wanted;
    this.layout = new MapLayout(table.numBlocks, table.nullBlock, width, height, Math.round(MARGIN * ratio));
    for (const canvas of [this.bottom, this.top]) Object.assign(canvas, { width, height });
    this.painter = painterFor(this.bottom, this.layout, this.palette);
    this.overlay.setLayout(this.layout, this.palette);
    const cell = this.layout.grid.size;
    setText(this.help, HELP.find(([least]) => cell >= least)[1]);
    this.changed = "all";
    return true;
  }

  #drawBlocks(table) {
    if (this.changed === null) return;
    if (this.changed === "all") this.painter.paintAll(table);
    else this.painter.paint(table, this.changed);
    this.changed = null;
    this.readout.mark(this.feed.status.phase === "live" ? this.feed.changedAt : 0);
  }

  #drawWords(table) {
    const { status, summary } = this.feed;
    const { lit } = this.selection;
    this.legend.draw(table, summary?.state);
    this.notice.draw(Boolean(table), status, summary?.source);
    this.readout.draw(table, status);
    setAttribute(this.stage, "data-phase", status.phase);
    setAttribute(this.stage, "data-blank", !table);
    setAttribute(this.lit, "hidden", !lit);
    setAttribute(this.help, "hidden", Boolean(lit));
    if (lit) setText(this.lit, `${lit.label} · ${plural(lit.blocks.length, "block")}  ×`);
    const label = table ? `Block map of ${count(table.usable)} blocks` : "Block map, no data yet";
    setAttribute(this.top, "aria-label", label);
  }

  // Of the block pointed at, else of the one the keyboard is on.
  #drawCard(table) {
    const block = this.hover ?? this.cursor;
    if (block === null || block >= table.numBlocks) return this.card.hide();
    const ratio = this.layout.width / this.top.clientWidth;
    const place = this.layout.box(block).map((length, at) => length / ratio - (at < 2 ? MARGIN : 0));
    this.card.show(table, block, place);
  }

  #blockUnder(event) {
    if (!this.layout || !this.feed.table) return null;
    const place = this.top.getBoundingClientRect();
    const scale = this.layout.width / place.width;
    return this.layout.blockAt((event.clientX - place.left) * scale, (event.clientY - place.top) * scale);
  }

  #point(block) {
    if (block === this.hover) return;
    this.hover = block;
    this.requestDraw();
  }

  #select(block) {
    if (block !== null) this.selection.selectBlock(block);
  }

  #key(event) {
    if (!this.layout || !this.feed.table) return;
    const { layout } = this;
    const first = layout.blockOf(0);
    const at = this.cursor ?? this.#selectedHere() ?? first;
    if (event.key in MOVES)
      this.#moveCursor(this.cursor === null ? at : layout.neighbour(at, ...MOVES[event.key]));
    else if (event.key === "Home") this.#moveCursor(first);
    else if (event.key === "End") this.#moveCursor(layout.blockOf(layout.cells - 1));
    else if (event.key === "Enter" || event.key === " ") this.#select(at);
    else return;
    this.hover = null; // the keyboard has taken over until the pointer moves again
    event.preventDefault();
  }

  // The selected block, unless the address named one that this engine does not have.
  #selectedHere() {
    const { block } = this.selection;
    return block !== null && block < this.layout.numBlocks && block !== this.layout.nullBlock ? block : null;
  }

  #letGo() {
    this.hover = null;
    this.#moveCursor(null);
    this.selection.letGo();
  }

  #clearLit() {
    this.selection.light(null);
    this.selection.selectRequest(null);
  }

  #moveCursor(block) {
    this.cursor = block;
    if (block !== null) setText(this.spoken, factsOf(this.feed.table, block).join(", "));
    this.requestDraw();
  }
}

export const mount = defineLiveComponent("block_map", BlockMap);
