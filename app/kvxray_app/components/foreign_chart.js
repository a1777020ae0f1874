// One small chart of figures over time, as SVG: lines with holes where nothing was told. Point at a moment to read it,
// press (or arrows and Enter) to go there.

import { el, setAttribute, setText, svg } from "./elements.js";
import { NO_DATA } from "./format.js";
import { whenWords } from "./moment_words.js";

const WIDTH = 600;
const HEIGHT = 150;
const TOP = 6;
const LEAST_STEPS = 3; // a hole is more than so many buckets without a value
const KEY_STEPS = 60;

export class ForeignChart {
  /** `go(ms)`: to that moment; null where there is no page to go to. */
  constructor(chart, tip, go) {
    Object.assign(this, { chart, go, cursor: null });
    const title = el("h2", { tabindex: "0" }, chart.title);
    tip.describe(title, () => [chart.title, chart.meaning]);
    this.readings = chart.lines.map(() => el("b"));
    this.legend = el(
      "span",
      { class: "readings" },
      ...chart.lines.map(({ label, colour }, at) =>
        el("span", { class: "muted" }, el("i", { class: "swatch", style: `--swatch: var(--${colour})` }), label, this.readings[at]),
      ),
    );
    this.when = el("span", { class: "faint mono when" });
    this.paths = chart.lines.map(({ colour }) =>
      svg("path", { class: "line", style: `stroke: var(--${colour})`, "vector-effect": "non-scaling-stroke" }),
    );
    this.dots = chart.lines.map(({ colour }) =>
      svg("path", { class: "dots", style: `stroke: var(--${colour})`, "vector-effect": "non-scaling-stroke" }),
    );
    this.hand = svg("line", { class: "hand", y1: 0, y2: HEIGHT, "vector-effect": "non-scaling-stroke" });
    this.plot = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" }, ...this.paths, ...this.dots, this.hand);
    this.highest = el("span", { class: "highest faint" });
    this.stage = el(
      "div",
      { class: "plot", tabindex: "0", role: "application", "aria-roledescription": "chart", "aria-label": chart.title },
      this.plot,
      this.highest,
    );
    this.from = el("span");
    this.to = el("span");
    this.node = el(
      "section",
      { class: "panel chart", "data-chart": chart.key, "aria-label": chart.title },
      el("div", { class: "panel-head" }, title, this.legend, this.when),
      this.stage,
      el("div", { class: "ends faint mono" }, this.from, this.to),
    );
    this.#listen();
  }

  /** `told`: {times, step, values(line)}; `stretch`: {from, to} in ms. Returns whether there is anything to see. */
  draw(told, stretch) {
    const values = this.chart.lines.map((line) => told?.values(line) ?? []);
    const all = values.flat().filter((value) => value != null);
    setAttribute(this.node, "hidden", !all.length);
    if (!all.length) return false;
    Object.assign(this, { told, stretch, values });
    const top = this.chart.share ? 1 : Math.max(...all, 0) || 1;
    const x = (time) => (WIDTH * (time - stretch.from)) / (stretch.to - stretch.from);
    const y = (value) => HEIGHT - 1 - ((HEIGHT - TOP) * value) / top;
    values.forEach((series, at) => {
      const { line, dots } = drawn(told, series, x, y);
      setAttribute(this.paths[at], "d", line);
      setAttribute(this.dots[at], "d", dots);
    });
    setText(this.highest, this.chart.write(top));
    setText(this.from, whenWords(stretch.from, false));
    setText(this.to, whenWords(stretch.to, false));
    this.#read();
    return true;
  }

  #listen() {
    this.stage.addEventListener("pointermove", (event) => this.#point(this.#timeAt(event)));
    this.stage.addEventListener("pointerleave", () => this.#point(null));
    this.stage.addEventListener("blur", () => this.#point(null));
    this.stage.addEventListener("click", (event) => this.go?.(this.#timeAt(event)));
    this.stage.addEventListener("keydown", (event) => this.#key(event));
  }

  #timeAt({ clientX }) {
    const { left, width } = this.stage.getBoundingClientRect();
    const { from, to } = this.stretch;
    return from + ((to - from) * Math.min(Math.max(0, clientX - left), width)) / width;
  }

  #key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const { from, to } = this.stretch;
    if (step) this.#point(Math.min(to, Math.max(from, (this.cursor ?? to) + (step * (to - from)) / KEY_STEPS)));
    else if (event.key === "Enter" && this.cursor !== null) this.go?.(this.cursor);
    else return;
    event.preventDefault();
  }

  #point(time) {
    this.cursor = time;
    this.#read();
  }

  // The values at the cursor, else the last ones.
  #read() {
    if (!this.told) return;
    const { times } = this.told;
    const { from, to } = this.stretch;
    const row = this.cursor === null ? times.length - 1 : rowAt(times, this.cursor);
    this.values.forEach((values, at) => {
      const value = this.cursor === null ? values.findLast((one) => one != null) : values[row];
      setText(this.readings[at], value == null ? NO_DATA : this.chart.write(value));
    });
    setText(this.when, this.cursor === null ? "" : whenWords(this.cursor, false));
    setAttribute(this.hand, "display", this.cursor === null ? "none" : null);
    const x = (WIDTH * ((this.cursor ?? from) - from)) / (to - from);
    for (const end of ["x1", "x2"]) setAttribute(this.hand, end, x.toFixed(1));
  }
}

// The bucket that a time lies in, or the last before it.
function rowAt(times, time) {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (times[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// Paths: through all values between holes, and a dot for each that stands alone.
function drawn({ times, step }, values, x, y) {
  const paths = { line: "", dots: "" };
  const isNear = (at, other) => values[other] != null && Math.abs(times[at] - times[other]) <= LEAST_STEPS * step;
  let last = null;
  values.forEach((value, at) => {
    if (value == null) return;
    const joins = last !== null && times[at] - times[last] <= LEAST_STEPS * step;
    const place = `${x(times[at]).toFixed(1)} ${y(value).toFixed(1)}`;
    paths.line += `${joins ? "L" : "M"}${place}`;
    if (!joins && !isNear(at, at + 1)) paths.dots += `M${place}h0`;
    last = at;
  });
  return paths;
}
