// The block map: one cell a block, coloured by state or by what else is asked for, with its legend. Hover for a card, click
// or Enter to inspect, arrows to move, wheel or + and - to enlarge, drag to move or to mark, o to lay it out by prefix or by
// id. Where the page compares two moments it shows both, side by side, with what differs between them.

import { markFor } from "./alert_mark.js";
import { factsOf } from "./block_facts.js";
import { Comparison } from "./comparison.js";
import { el, setAttribute, setText, setWords } from "./elements.js";
import { onEscape } from "./escape_key.js";
import { count, plural } from "./format.js";
import { LiveView, defineLiveComponent } from "./live_view.js";
import { ChosenBlocks } from "./map_chosen.js";
import { LAYOUT_KEY, ZoomControls, layoutSwitch, modeSwitch, zoomOfKey } from "./map_controls.js";
import { MapFocus } from "./map_focus.js";
import { WHOLE } from "./map_layout.js";
import { Legend } from "./map_legend.js";
import { MapOrder } from "./map_order.js";
import { MapPane } from "./map_pane.js";
import { RangeCard } from "./map_range.js";
import { LAYOUTS, mapViewFor } from "./map_view.js";
import { MapNotice, Readout } from "./map_words.js";
import { onUnit } from "./units.js";

const HELP = [
  [9, "Each square is a block: filled as far as it is written, numbered when shared."],
  [1, "Each square is a block, coloured as the legend says."],
  [0, "More blocks than pixels: the colours of neighbours blend."],
];

class BlockMap extends LiveView {
  constructor(context) {
    super(context);
    this.hover = null;
    this.cursor = null; // the block that the keyboard is on
    this.view = mapViewFor(this.data.source);
    this.marked = markFor(this.data.source);
    this.focus = new MapFocus();
    this.notice = new MapNotice();
    this.order = new MapOrder(this.feed, () => this.requestDraw());
    this.pane = new MapPane(this.feed, this.view, this.order, this.#panes(), this.notice.note);
    const { feed, selection, view, order } = this;
    this.comparison = new Comparison(this.data.source, feed, selection, view, order, this.#panes());
    this.#build();
    this.listen(
      () => this.pane.close(),
      () => this.comparison.close(),
      () => this.order.close(),
      () => this.range.close(),
      () => this.view.stopWriting(),
      this.view.subscribe((what) => this.#viewChanged(what)),
      this.feed.subscribe("summary", () => this.#summed()),
      this.feed.subscribe("status", () => this.requestDraw()),
      this.selection.subscribe(() => this.requestDraw()),
      this.marked.subscribe(() => this.requestDraw()),
      onUnit(() => this.requestDraw()),
      onEscape(() => this.#letGo()),
      this.#hook(),
    );
    this.selection.writeAddress();
    this.view.writeAddressSoon();
  }

  draw() {
    this.#arrange();
    const marks = {
      selected: this.selection.block,
      lit: this.selection.lit?.blocks ?? null,
      marked: this.marked.blocks,
      differing: this.comparison.differing(),
      range: this.view.range,
      cursor: this.cursor,
      hover: this.hover,
    };
    if (this.pane.draw(marks, this.palette, this.focus))
      this.readout.mark(this.feed.status.phase === "live" ? this.feed.changedAt : 0);
    this.comparison.draw(marks, this.palette, this.focus);
    this.#drawWords();
  }

  #build() {
    this.modes = modeSwitch(this.view, this.tip);
    this.layouts = layoutSwitch(this.view, this.tip);
    this.zoom = new ZoomControls((factor) => this.#zoom(factor, this.pane));
    const redraw = () => this.requestDraw();
    this.range = new RangeCard(() => this.view.choose(null), redraw, this.data.words.certainties);
    this.legend = new Legend(this.tip, this.data.words, (pressed) => this.#toggle(pressed));
    this.readout = new Readout();
    this.lit = el("button", { class: "lit quiet-button", hidden: true, onclick: () => this.#clearLit() });
    this.help = el("span", { id: "kx-map-help" });
    this.spoken = el("span", { class: "sr-only", "aria-live": "polite" });
    this.frame = el(
      "div",
      { class: "frame" },
      el("div", { class: "side" }, this.comparison.name, this.pane.node),
      this.comparison.side,
    );
    const head = [el("h2", {}, "Block map"), this.notice.age, this.layouts.node, this.modes.node];
    this.root.append(
      el(
        "section",
        { class: "panel map", "aria-label": "Block map" },
        el("div", { class: "panel-head" }, ...head),
        this.legend.node,
        this.comparison.panel,
        this.frame,
        this.range.node,
        el("div", { class: "foot" }, this.help, this.lit, this.readout.node, this.zoom.node),
        this.spoken,
      ),
    );
  }

  // For browser tests, see feed.js. Returns the way out.
  #hook() {
    const hook = {
      cellCentre: (block) => this.pane.cellCentre(block),
      differing: () => this.comparison.differing()?.length ?? null,
      onPaint: (listener) => (this.readout.onPaint = listener),
      orders: () => this.order.number,
      marked: () => this.pane.overlay.numMarked,
      part: () => this.pane.layout?.view ?? null,
    };
    window.__kvxray.map = hook;
    return () => window.__kvxray.map === hook && delete window.__kvxray.map;
  }

  // What panes tell of; the same for both.
  #panes() {
    return {
      changed: () => this.requestDraw(),
      point: (block) => this.#point(block),
      select: (block) => block !== null && this.selection.selectBlock(block),
      mark: (blocks) => this.view.choose(blocks),
      key: (event, pane) => this.#key(event, pane),
      leave: () => this.#moveCursor(null),
    };
  }

  // The order of prefixes, where the map is laid out by it or has to find out which blocks a link has chosen.
  #arrange() {
    const { view, order } = this;
    order.want(view.layout === "chain" || Boolean(view.range?.isOpen));
    order.take([this.pane, this.comparison.pane].some((pane) => pane?.isHeld));
    const found = view.range?.isOpen ? order.of(this.feed.table) : null;
    if (found) view.choose(ChosenBlocks.between(found, ...view.range.ends));
  }

  #drawWords() {
    const { status, summary, table } = this.feed;
    const { lit } = this.selection;
    this.modes.draw();
    this.layouts.draw();
    this.zoom.draw(this.pane.layout?.view);
    this.legend.draw(this.pane.look, table, summary?.state);
    this.range.draw(table, this.view.range, this.pane.details);
    this.notice.draw(Boolean(table), status, summary?.source, summary?.state?.time, this.feed.noPicture);
    this.readout.draw(table, status);
    setAttribute(this.frame, "data-comparing", this.comparison.isOn);
    setAttribute(this.lit, "hidden", !lit);
    setAttribute(this.help, "hidden", Boolean(lit));
    this.#drawHelp();
    if (lit) setWords(this.lit, `${lit.label} · ${plural(lit.blocks.length, "block")}  ×`, [lit.label]);
  }

  #drawHelp() {
    const cell = this.pane.layout?.grid.size;
    const how = cell === undefined ? "" : HELP.find(([least]) => cell >= least)[1];
    const told = this.feed.table && (this.pane.details.lack(this.view.mode) || this.#orderWords());
    const help = told || how;
    setText(this.help, help);
    setAttribute(this.help, "title", help);
  }

  #orderWords() {
    return this.view.layout === "chain" ? this.order.words() : "";
  }

  // What the map shows, for those who do not see it: as often as summaries come, since each change is work for a
  // screen reader's tree.
  #summed() {
    const { table } = this.feed;
    const counts = Object.entries(table?.countsByName() ?? {}).filter(([, blocks]) => blocks > 0);
    const words = counts.map(([name, blocks]) => `${count(blocks)} ${name}`).join(", ");
    const label = table ? `Block map of ${count(table.usable)} blocks: ${words}` : "Block map, no data yet";
    setAttribute(this.pane.top, "aria-label", label);
    this.requestDraw();
  }

  #viewChanged(what) {
    if (what === "range" && this.view.range) setText(this.spoken, `${this.view.range.words} chosen`);
    this.requestDraw();
  }

  #point(block) {
    if (block === this.hover) return;
    this.hover = block;
    this.requestDraw();
  }

  #toggle(pressed) {
    this.focus.toggle(pressed);
    this.requestDraw();
  }

  /** By a factor, 0 = fit. */
  #zoom(factor, pane) {
    if (factor) pane.zoom(factor);
    else this.view.look(WHOLE);
  }

  #key(event, pane) {
    const factor = event.ctrlKey || event.metaKey || event.altKey ? null : zoomOfKey(event.key);
    if (factor !== null) {
      this.#zoom(factor, pane);
      event.preventDefault();
      return;
    }
    if (event.key === LAYOUT_KEY && !event.ctrlKey && !event.metaKey && !event.altKey) {
      this.view.setLayout(LAYOUTS[1 - LAYOUTS.indexOf(this.view.layout)]);
      event.preventDefault();
      return;
    }
    const at = this.cursor ?? this.#selectedHere(pane.layout) ?? pane.layout.blockOf(0);
    const next = pane.walk(event.key, at, this.cursor !== null);
    if (next !== null) this.#walkTo(next, at, event.shiftKey, pane);
    else if (event.key === "Enter" || event.key === " ") this.selection.selectBlock(at);
    else return;
    this.hover = null; // the keyboard has taken over until the pointer moves again
    event.preventDefault();
  }

  // With Shift the keyboard marks from where it began.
  #walkTo(block, from, marks, pane) {
    this.markFrom = marks ? (this.markFrom ?? from) : null;
    if (marks) this.view.choose(pane.layout.between(this.markFrom, block));
    pane.reveal(block);
    this.#moveCursor(block);
  }

  // The selected block, unless the address named one that this engine does not have.
  #selectedHere(layout) {
    const { block } = this.selection;
    return block !== null && block < layout.numBlocks && block !== layout.nullBlock ? block : null;
  }

  #letGo() {
    this.hover = null;
    this.#moveCursor(null);
    this.focus.only = null;
    this.view.choose(null);
    this.selection.letGo();
  }

  #clearLit() {
    this.selection.light(null);
    this.selection.selectRequest(null);
  }

  #moveCursor(block) {
    this.cursor = block;
    if (block !== null && this.feed.table) setText(this.spoken, factsOf(this.feed.table, block).join(", "));
    this.requestDraw();
  }
}

export const mount = defineLiveComponent("block_map", BlockMap);
