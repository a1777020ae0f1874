// The timeline as something to press, drag, zoom and walk along by keyboard. Knows times and marks; what going there
// means is told by whoever made it.

import { el, setAttribute, setText } from "./elements.js";
import { count, percent, rate } from "./format.js";
import { whenWords } from "./moment_words.js";
import { rowAt } from "./time_data.js";
import { Timeline } from "./timeline.js";

const NEAR_MARK = 7; // pixels within which a press means the mark
const KEYS = { ArrowLeft: -0.01, ArrowRight: 0.01, PageDown: -0.1, PageUp: 0.1 };

export class TimeChart {
  /** `on`: {time(ms), mark(mark), stretch(), changed()}: go there; the window is another; draw again. */
  constructor(window, data, on) {
    Object.assign(this, { window, data, on });
    this.inPast = false;
    this.hover = null;
    this.dragging = false;
    this.stale = true;
    this.head = null;
    const [canvas, over] = [el("canvas"), el("canvas", { class: "over" })];
    this.timeline = new Timeline(canvas, over);
    this.card = el("div", { class: "card", hidden: true });
    this.note = el("span", { class: "chart-note muted" });
    const name = { tabindex: "0", role: "slider", "aria-label": "History: choose a moment" };
    this.node = el("div", { class: "chart", ...name }, canvas, over, this.note, this.card);
    this.resized = new ResizeObserver(() => this.#resized());
    this.resized.observe(this.node);
    this.#listen();
  }

  close() {
    this.resized.disconnect();
  }

  /** `head`, `beside`: ms or null; `words`: what the head is at. */
  draw({ head, beside, words }, palette) {
    if (this.stale) this.timeline.draw(this.window, this.data, palette);
    this.stale = false;
    this.head = head;
    const { told, problem } = this.data;
    setAttribute(this.node, "aria-valuetext", words);
    setText(this.note, told?.t.length ? "" : problem || (told ? "Nothing is stored of this stretch." : ""));
    const lines = { head: this.#inside(head), beside: this.#inside(beside), hover: this.hover };
    this.timeline.drawOver(this.window, lines, palette);
    this.#drawCard();
  }

  /** Page coordinates of a time. */
  place(ms) {
    const box = this.node.getBoundingClientRect();
    return { x: box.left + scrollX + this.window.x(ms), y: box.top + scrollY + box.height / 2 };
  }

  zoom(factor) {
    const { window } = this;
    if (factor === Infinity) window.showAll();
    else window.zoom(factor, this.#inside(this.head) ?? (window.from + window.to) / 2);
    this.on.stretch();
  }

  // What goes on with the present lies a moment beyond the end that was told.
  #inside(time) {
    const { from, to } = this.window;
    return time !== null && time >= from && time <= to + 1000 ? Math.min(time, to) : null;
  }

  #listen() {
    const { node } = this;
    node.addEventListener("pointerdown", (event) => this.#press(event));
    node.addEventListener("pointermove", (event) => this.#point(event));
    node.addEventListener("pointerleave", () => this.#point(null));
    node.addEventListener("lostpointercapture", () => (this.dragging = false));
    node.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    node.addEventListener("keydown", (event) => this.#key(event));
  }

  #resized() {
    this.window.width = Math.max(1, this.timeline.fit(devicePixelRatio || 1));
    this.on.stretch();
  }

  #press(event) {
    if (event.button !== 0 || !this.window.whole) return;
    event.preventDefault();
    this.node.focus({ preventScroll: true, focusVisible: false });
    this.node.setPointerCapture(event.pointerId);
    this.dragging = this.inPast; // the press that leads there changes what lies under the pointer
    const mark = this.#markNear(this.#x(event));
    if (mark) this.on.mark(mark);
    else this.#goThere(this.#x(event));
  }

  #point(event) {
    this.hover = event && this.window.whole ? this.window.time(this.#x(event)) : null;
    if (event && this.dragging) this.#goThere(this.#x(event));
    this.on.changed();
  }

  #goThere(x) {
    const { from, to } = this.window;
    this.on.time(Math.min(Math.max(this.window.time(x), from), to));
  }

  #x(event) {
    return event.clientX - this.node.getBoundingClientRect().left;
  }

  #wheel(event) {
    if (!this.inPast) return;
    event.preventDefault();
    const { window } = this;
    const { deltaX, deltaY } = event;
    if (Math.abs(deltaX) > Math.abs(deltaY)) window.pan((deltaX / window.width) * (window.to - window.from));
    else window.zoom(Math.exp(Math.max(-1, Math.min(1, deltaY / 300))), window.time(this.#x(event)));
    this.on.stretch();
  }

  #key(event) {
    const { window } = this;
    const by = KEYS[event.key];
    const to = { Home: window.from, End: window.to }[event.key];
    if ((by === undefined && to === undefined) || !window.whole) return;
    event.preventDefault();
    const time = to ?? (this.head ?? window.to) + by * (window.to - window.from);
    this.on.time(Math.min(Math.max(time, window.whole.from), window.whole.to));
  }

  #markNear(x) {
    const away = (mark) => Math.abs(this.window.x(mark.time) - x);
    const near = this.data.marks().filter((mark) => mark.kind !== "epoch" && away(mark) <= NEAR_MARK);
    return near.sort((a, b) => away(a) - away(b))[0];
  }

  // What the cache was like at the time pointed at.
  #drawCard() {
    const { told } = this.data;
    const shown = this.hover !== null && told?.t.length > 0;
    setAttribute(this.card, "hidden", !shown);
    if (!shown) return;
    const x = this.window.x(this.hover);
    const lines = [whenWords(this.hover, false), ...figuresAt(told, this.hover), this.#markNear(x)?.words];
    this.card.replaceChildren(...lines.filter(Boolean).map((line, at) => el(at ? "div" : "b", {}, line)));
    const most = this.node.clientWidth - this.card.offsetWidth;
    this.card.style.left = `${Math.max(0, Math.min(most, x - this.card.offsetWidth / 2))}px`;
  }
}

function figuresAt(told, ms) {
  const row = rowAt(told, ms);
  if (row < 0) return ["Nothing is stored of this time."];
  const value = (name) => told.series[name][row];
  const busy = ms < (told.t[row] + told.seconds) * 1000;
  return [
    value("used") == null ? "" : `${percent(value("used") / value("usable_blocks"))} of the blocks in use`,
    value("running") == null ? "" : `${count(value("running"))} running, ${count(value("waiting"))} waiting`,
    busy && value("evictions_per_s") ? `${rate(value("evictions_per_s"))} evictions/s` : "",
    busy && value("preemptions_per_s") ? `${rate(value("preemptions_per_s"))} preemptions/s` : "",
  ];
}
