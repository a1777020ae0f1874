// One chart: its head with the values at the moment pointed at, the picture that Plotly draws, and what lies over it. The
// picture takes no pointer; gestures are read here, so that a chart drawn anew twice a second loses neither a zoom nor
// what is pointed at. Knows times; what a press or a brush means is told by whoever made it.

import { el, reconcile, setAttribute, setStyle, setText } from "./elements.js";
import { MARGIN, picture } from "./timeline_layout.js";
import { cardLines, valueAt } from "./timeline_words.js";

const DRAG_FROM_PX = 4;
const NEAR_MARK_PX = 7;
const KEYS = { ArrowLeft: -0.01, ArrowRight: 0.01, PageDown: -0.1, PageUp: 0.1 };
const DRAWN_ONCE = { staticPlot: true, responsive: false, displayModeBar: false };

export class TimelinePlot {
  /** `on`: {point(plot, x or null), press(ms), mark(mark), brushing(from, to) or (null), brush(from, to), zoom(factor, ms), pan(ms)}. */
  constructor(chart, tip, on) {
    Object.assign(this, { chart, on });
    this.stale = true;
    this.inSight = false;
    this.stretch = null;
    this.began = null; // x of a drag
    this.marks = [];
    this.#build(tip);
    this.#listen();
  }

  /** Draw the picture; takes some tens of milliseconds. */
  paint(Plotly, data, scene) {
    this.stale = false;
    const { clientWidth: width, clientHeight: height } = this.stage;
    if (!width || !height) return;
    this.width = width;
    this.stretch = scene.stretch;
    this.marks = scene.marks;
    const { traces, layout } = picture(this.chart, data, { ...scene, size: { width, height } });
    Plotly.react(this.canvas, traces, layout, DRAWN_ONCE);
  }

  /** What lies over it: `cursor` (ms or null, pointed at in any chart), `head` (the page's moment), `brush` ({from, to}). */
  drawOver(data, { cursor, pointed, head, brush, note, state }) {
    setText(this.note, note);
    setAttribute(this.note, "hidden", !note);
    this.#line(this.cursor, cursor);
    this.#line(this.head, head);
    this.#drawBrush(brush);
    const row = valueAt(this.chart, data, cursor ?? head);
    reconcile(this.legend, this.chart.lines, (line) => line.name, (line) => this.#legendItem(line), (node, line) => {
      setText(node.lastChild, this.chart.write(row?.values[line.name] ?? null, state));
    }); // prettier-ignore
    this.#drawCard(pointed ? cursor : null, row, data, state);
  }

  /** The time at a place in CSS pixels from the stage's left edge. */
  time(x) {
    const { from, to } = this.stretch;
    const inside = Math.min(Math.max(x - MARGIN.l, 0), this.#room());
    return from + (inside / this.#room()) * (to - from);
  }

  x(ms) {
    const { from, to } = this.stretch;
    return MARGIN.l + ((ms - from) / (to - from)) * this.#room();
  }

  /** Page coordinates of a time. */
  place(ms) {
    const box = this.stage.getBoundingClientRect();
    return { x: box.left + scrollX + this.x(ms), y: box.top + scrollY + box.height / 2 };
  }

  close(Plotly) {
    Plotly?.purge(this.canvas);
  }

  #room() {
    return Math.max(1, this.width - MARGIN.l - MARGIN.r);
  }

  #build(tip) {
    const { title, meaning } = this.chart;
    const heading = el("h2", { tabindex: "0" }, title);
    tip.describe(heading, () => [title, meaning]);
    this.legend = el("div", { class: "legend" });
    this.canvas = el("div", { class: "canvas" });
    this.cursor = el("div", { class: "cursor", hidden: true });
    this.head = el("div", { class: "head", hidden: true });
    this.brush = el("div", { class: "brush", hidden: true });
    this.card = el("div", { class: "card", hidden: true });
    this.note = el("div", { class: "chart-note", hidden: true });
    const name = { tabindex: "0", role: "application", "aria-roledescription": "chart", "aria-label": `${title}. ${meaning}` };
    const over = [this.brush, this.cursor, this.head, this.note, this.card];
    this.stage = el("div", { class: "stage", ...name }, this.canvas, ...over);
    this.node = el("section", { class: "panel chart", "data-chart": this.chart.key }, el("div", { class: "chart-head" }, heading, this.legend), this.stage);
  } // prettier-ignore

  #legendItem({ label, colour }) {
    const swatch = el("span", { class: "swatch", style: `--swatch: var(--${colour})` });
    return el("span", { class: "item" }, swatch, el("span", { class: "muted" }, label), el("b", {}));
  }

  #listen() {
    const { stage } = this;
    stage.addEventListener("pointerdown", (event) => this.#down(event));
    stage.addEventListener("pointermove", (event) => this.#move(event));
    stage.addEventListener("pointerup", (event) => this.#up(event));
    stage.addEventListener("pointercancel", () => this.#letGo());
    stage.addEventListener("pointerleave", () => this.began === null && this.on.point(this, null));
    stage.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    stage.addEventListener("keydown", (event) => this.#key(event));
    stage.addEventListener("blur", () => this.on.point(this, null));
  }

  #down(event) {
    if (event.button !== 0 || !this.stretch) return;
    event.preventDefault();
    this.stage.focus({ preventScroll: true, focusVisible: false });
    this.stage.setPointerCapture(event.pointerId);
    this.began = this.#xOf(event);
  }

  #move(event) {
    if (!this.stretch) return;
    const x = this.#xOf(event);
    this.on.point(this, x);
    if (this.#dragged(x)) this.on.brushing(...this.#between(x));
  }

  #up(event) {
    if (this.began === null) return;
    const x = this.#xOf(event);
    const drag = this.#dragged(x) ? this.#between(x) : null;
    this.#letGo();
    if (drag) return this.on.brush(...drag);
    const mark = this.#markNear(x);
    if (mark) this.on.mark(mark);
    else this.on.press(this.time(x));
  }

  #letGo() {
    this.began = null;
    this.on.brushing(null);
  }

  #dragged(x) {
    return this.began !== null && Math.abs(x - this.began) > DRAG_FROM_PX;
  }

  #between(x) {
    return [this.began, x].map((end) => this.time(end)).sort((a, b) => a - b);
  }

  #xOf(event) {
    return event.clientX - this.stage.getBoundingClientRect().left;
  }

  // The page keeps its scrolling: the wheel zooms with Ctrl only, sideways it moves the charts along.
  #wheel(event) {
    if (!this.stretch) return;
    const { deltaX, deltaY } = event;
    const { from, to } = this.stretch;
    if (Math.abs(deltaX) > Math.abs(deltaY)) this.on.pan((deltaX / this.#room()) * (to - from));
    else if (event.ctrlKey || event.metaKey)
      this.on.zoom(Math.exp(Math.max(-1, Math.min(1, deltaY / 300))), this.time(this.#xOf(event)));
    else return;
    event.preventDefault();
  }

  #key(event) {
    if (event.key === "Escape" && this.began !== null) {
      this.#letGo();
      event.preventDefault();
    }
    if (!this.stretch || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.pointedX ?? this.width - MARGIN.r;
    const to = { Home: MARGIN.l, End: this.width - MARGIN.r }[event.key];
    const by = KEYS[event.key];
    if (event.key === "Enter") this.on.press(this.time(at));
    else if (to !== undefined || by !== undefined) this.on.point(this, to ?? at + by * this.#room());
    else return;
    event.preventDefault();
  }

  #markNear(x) {
    const away = (mark) => Math.abs(this.x(mark.time) - x);
    const near = this.marks.filter((mark) => away(mark) <= NEAR_MARK_PX);
    return near.sort((a, b) => away(a) - away(b))[0];
  }

  #line(node, ms) {
    const shown = ms !== null && this.stretch && ms >= this.stretch.from && ms <= this.stretch.to;
    setAttribute(node, "hidden", !shown);
    if (shown) setStyle(node, "transform", `translateX(${this.x(ms).toFixed(1)}px)`);
  }

  #drawBrush(brush) {
    setAttribute(this.brush, "hidden", !(brush && this.stretch));
    if (!brush || !this.stretch) return;
    const [left, right] = [this.x(brush.from), this.x(brush.to)];
    setStyle(this.brush, "left", `${left.toFixed(1)}px`);
    setStyle(this.brush, "width", `${Math.max(1, right - left).toFixed(1)}px`);
  }

  // What was at the time pointed at, how sure that is and who says so.
  #drawCard(ms, row, data, state) {
    setAttribute(this.card, "hidden", ms === null);
    if (ms === null) return;
    const mark = this.#markNear(this.x(ms));
    const lines = cardLines(this.chart, ms, row, data, state, mark);
    this.card.replaceChildren(...lines.map(([kind, ...parts]) => el("div", { class: kind }, ...parts.map((part) => el("span", {}, part)))));
    const x = this.x(ms);
    const width = this.card.offsetWidth;
    setStyle(this.card, "left", `${x + width + 14 < this.width ? x + 12 : Math.max(0, x - width - 12)}px`);
  } // prettier-ignore
}
