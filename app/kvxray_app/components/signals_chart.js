// A small chart of one signal over time: lines with holes where nothing was read, or a histogram as a heat map with its
// median and its highest in a hundred. Nothing is joined over a hole.

import { el, setAttribute, setText, svg } from "./elements.js";
import { amount, perSecond } from "./signals_words.js";
import { drawHeat, heatScale } from "./signals_heat.js";

const WIDTH = 300;
const HEIGHT = 72;
const PARTS = 7;
const LEAST = 1e-9;

export class SignalChart {
  /** `point(at or null)`: the place that the pointer is on. */
  constructor(point) {
    this.heat = el("canvas", { hidden: true });
    this.lines = svg("g");
    this.drawing = svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" },
      this.lines,
    );
    this.cursor = el("i", { class: "cursor", hidden: true });
    this.top = el("span", { class: "top" });
    this.none = el("span", { class: "none" });
    this.node = el("div", { class: "chart" }, this.heat, this.drawing, this.cursor, this.top, this.none);
    this.num = 0;
    this.node.addEventListener("pointermove", ({ clientX }) => {
      const { left, width } = this.node.getBoundingClientRect();
      point(this.num ? Math.min(this.num - 1, Math.max(0, Math.floor(((clientX - left) / width) * this.num))) : null);
    });
    this.node.addEventListener("pointerleave", () => point(null));
  }

  /** `line` as the API tells it; null while it is not told. `note`: what stands there instead. */
  draw(line, palette, note, label) {
    const told = line?.values.some((value) => value != null);
    this.num = told ? line.values.length : 0;
    setText(this.none, told ? "" : note);
    setAttribute(this.drawing, "aria-label", label);
    setAttribute(this.heat, "hidden", !(told && line.heat.length));
    if (!told) {
      this.lines.replaceChildren();
      return setText(this.top, "");
    }
    if (line.heat.length) this.#drawHistogram(line, palette);
    else this.#drawLines(line, palette);
  }

  drawCursor(at) {
    const isHere = at !== null && at < this.num;
    setAttribute(this.cursor, "hidden", !isHere);
    if (isHere) this.cursor.style.left = `${((at + 0.5) / this.num) * 100}%`;
  }

  #drawHistogram(line, palette) {
    const scale = heatScale(line.heat);
    drawHeat(this.heat, line, scale, palette["kx-accent"]);
    const y = (value) => HEIGHT * (1 - scale.place(value));
    const strokes = [
      [line.values, palette["kx-text"]],
      [line.more.p99 ?? [], palette["kx-warning"]],
    ];
    this.lines.replaceChildren(...strokes.map(([values, colour]) => stroke(values, y, colour)));
    setText(this.top, amount(scale.high, line.unit));
  }

  #drawLines(line, palette) {
    const parts = Object.values(line.parts).slice(0, PARTS);
    const several = parts.length > 1 ? parts : [line.values];
    const high = topOf([...several, line.more.highest ?? []].flat(), line.unit);
    const y = (value) => HEIGHT - 1 - (value / high) * (HEIGHT - 3);
    const colours = several.map((_, at) => palette[parts.length > 1 ? `kx-holder-${at + 1}` : "kx-accent"]);
    const nodes = several.map((values, at) => stroke(values, y, colours[at]));
    if (parts.length <= 1) {
      const { highest } = line.more;
      if (highest) nodes.unshift(stroke(highest, y, palette["kx-text-faint"], "highest"));
      nodes.unshift(area(line.values, y, colours[0]));
    }
    this.lines.replaceChildren(...nodes);
    const top = line.kind === "counter" ? perSecond(high, line.unit) : amount(high, line.unit);
    setText(this.top, high > LEAST ? top : "");
  } // prettier-ignore
}

/** Stretches of [place, value] without holes. */
export function runsOf(values) {
  const runs = [];
  let run = null;
  values.forEach((value, at) => {
    if (value == null) return (run = null);
    if (!run) runs.push((run = []));
    run.push([at, value]);
  });
  return runs;
}

const x = (at, num) => ((at + 0.5) / num) * WIDTH;

function stroke(values, y, colour, look = "stroke") {
  const d = runsOf(values)
    .map((run) => {
      const points = run.map(([at, value]) => `${x(at, values.length).toFixed(1)} ${y(value).toFixed(1)}`);
      // One value alone is a dot.
      return `M${points.join("L")}${points.length === 1 ? `L${points[0]}` : ""}`;
    })
    .join("");
  return svg("path", { class: look, d, stroke: colour, "vector-effect": "non-scaling-stroke" });
}

function area(values, y, colour) {
  const d = runsOf(values)
    .map((run) => {
      const along = run.map(([at, value]) => `L${x(at, values.length).toFixed(1)} ${y(value).toFixed(1)}`).join("");
      return `M${x(run[0][0], values.length).toFixed(1)} ${HEIGHT}${along}L${x(run.at(-1)[0], values.length).toFixed(1)} ${HEIGHT}Z`;
    })
    .join("");
  return svg("path", { class: "area", d, fill: colour });
}

// Shares stand in the whole; all else from 0 to a little more than their highest.
function topOf(values, unit) {
  const highest = values.reduce((most, value) => (value > most ? value : most), 0);
  return unit === "ratio" && highest <= 1 ? 1 : Math.max(highest * 1.1, LEAST);
}
