// The course of the cache, painted on a canvas: blocks by state as stacked areas, evictions and preemptions below them,
// what is missing hatched, and the moments worth going to. A second canvas over it has what moves: the moment shown,
// the one beside it, the one pointed at.

import { whenWords } from "./moment_words.js";
import { rowAt } from "./time_data.js";

const STACK = ["shared", "active", "cached", "free", "unknown"]; // from the bottom up; empty is the ground
const LANE = 16; // evictions
const MARKS = 13;
const AXIS = 17;
const IDLE_ALPHA = 0.45;
const GAP_WIDTH = 5;
const NAME_WIDTH = 60; // pixels that the name of an epoch needs
const QUIET_S = 4;
const DAY_MS = 864e5;

/** How a canvas of this height is divided; a low one only has the areas. */
export function lanesOf(height) {
  if (height < 60) return { areas: [0, height], evictions: null, marks: null, axis: null };
  const areas = height - LANE - MARKS - AXIS;
  return {
    marks: [0, MARKS],
    areas: [MARKS, areas],
    evictions: [MARKS + areas, LANE],
    axis: [height - AXIS, AXIS],
  };
}

export class Timeline {
  constructor(canvas, over) {
    this.canvas = canvas;
    this.over = over;
    this.pen = canvas.getContext("2d");
    this.top = over.getContext("2d");
  }

  /** Fit the canvases to their place; returns their width in CSS pixels. */
  fit(ratio) {
    this.ratio = ratio;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    for (const canvas of [this.canvas, this.over]) {
      canvas.width = Math.round(this.width * ratio);
      canvas.height = Math.round(this.height * ratio);
    }
    return this.width;
  }

  draw(window, data, palette) {
    const { pen } = this;
    this.#begin(pen);
    this.lanes = lanesOf(this.height);
    this.palette = palette;
    if (!data.told) return;
    this.#areas(window, data);
    if (this.lanes.evictions) this.#evictions(window, data.told);
    this.#gaps(window, data.told);
    this.#epochs(window, data.begins(), data.marks());
    if (this.lanes.axis) this.#axis(window);
    if (this.lanes.marks) this.#marks(window, data.marks());
  }

  /** `head`, `beside`, `hover`: ms or null. */
  drawOver(window, { head, beside, hover }, palette) {
    this.#begin(this.top);
    this.lanes = lanesOf(this.height);
    const named = beside !== null;
    if (hover !== null) this.#line(window.x(hover), palette["kx-text-faint"], 1);
    if (named) this.#head(window.x(beside), palette["kx-text-muted"], "B", [4, 3]);
    if (head !== null) this.#head(window.x(head), palette["kx-past"], named ? "A" : "", []);
  }

  #begin(pen) {
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
  }

  #areas(window, { told, coarse }) {
    const { t, epoch, seconds } = told;
    let known = readBefore(coarse, told, window.from); // the newest row of this epoch that has readings, and its timeline
    const first = t.length ? t[0] * 1000 : window.to;
    // Until the first thing that happens in the stretch all is as it was before.
    if (known && first > window.from) this.#column(window, known, window.from, first, IDLE_ALPHA);
    for (let row = 0; row < t.length; row++) {
      if (known !== null && known.told.epoch[known.row] !== epoch[row]) known = null;
      if (told.series.used[row] !== null) known = { told, row };
      if (known === null) continue;
      const begin = t[row] * 1000;
      const last = row === t.length - 1 || epoch[row + 1] !== epoch[row];
      const next = row === t.length - 1 ? Date.parse(told.end) : t[row + 1] * 1000;
      // A moment's silence is none worth showing.
      const busy = next - begin <= Math.max(3 * seconds, QUIET_S) * 1000 ? next : begin + seconds * 1000;
      this.#column(window, known, begin, busy, 1);
      // Nothing happened until the next bucket: all stayed as it was. Where a life ended nobody knows how.
      if (next > busy && !last) this.#column(window, known, busy, next, IDLE_ALPHA);
    }
  }

  #column(window, { told, row }, from, to, alpha) {
    const { pen, palette, lanes } = this;
    const [x0, x1] = [
      Math.round(window.x(from)),
      Math.max(Math.round(window.x(to)), Math.round(window.x(from)) + 1),
    ];
    const usable = told.series.usable_blocks[row];
    if (x1 < 0 || x0 > this.width || !usable) return;
    const [top, height] = lanes.areas;
    pen.globalAlpha = alpha;
    pen.fillStyle = palette["kx-empty"];
    pen.fillRect(x0, top, x1 - x0, height);
    let below = 0;
    for (const state of STACK) {
      const share = (told.series[state][row] ?? 0) / usable;
      const [y0, y1] = [below, below + share].map((part) => top + height - Math.round(part * height));
      pen.fillStyle = palette[`kx-${state}`];
      pen.fillRect(x0, y1, x1 - x0, y0 - y1);
      below += share;
    }
    pen.globalAlpha = 1;
  }

  // Evictions as bars, a preemption as a mark above them.
  #evictions(window, told) {
    const { pen, palette } = this;
    const [top, height] = this.lanes.evictions;
    const most = Math.max(1e-9, ...told.series.evictions_per_s.map((value) => value ?? 0));
    for (let row = 0; row < told.t.length; row++) {
      const x = Math.round(window.x(told.t[row] * 1000));
      const width = Math.max(1, Math.round(window.x((told.t[row] + told.seconds) * 1000)) - x);
      const rate = told.series.evictions_per_s[row] ?? 0;
      const tall = rate > 0 ? Math.max(1, Math.round((rate / most) * (height - 4))) : 0;
      pen.fillStyle = palette["kx-text-faint"];
      pen.fillRect(x, top + height - tall, width, tall);
      if (!(told.series.preemptions_per_s[row] > 0)) continue;
      pen.fillStyle = palette["kx-critical"];
      pen.fillRect(x, top + 1, Math.max(2, width), 3);
    }
  }

  #gaps(window, told) {
    const { pen, palette, lanes } = this;
    const [top, height] = lanes.areas;
    pen.save();
    pen.strokeStyle = palette["kx-critical"];
    pen.lineWidth = 1.5;
    for (const gap of told.gaps.filter((each) => !each.repaired)) {
      const x = Math.round(window.x(Date.parse(gap.time)) - GAP_WIDTH / 2);
      pen.save();
      pen.fillStyle = palette["kx-panel"];
      pen.fillRect(x, top, GAP_WIDTH, height);
      pen.beginPath();
      pen.rect(x, top, GAP_WIDTH, height);
      pen.clip();
      pen.beginPath();
      for (let y = top - GAP_WIDTH; y < top + height; y += 5) {
        pen.moveTo(x, y + GAP_WIDTH);
        pen.lineTo(x + GAP_WIDTH, y);
      }
      pen.stroke();
      pen.restore();
    }
    pen.restore();
    if (told.num_gaps > told.gaps.length) this.#gapsWords(top, told);
  }

  // More than the backend names: the marks are the newest, and before them the stretch is not as whole as it looks.
  #gapsWords(top, { gaps, num_gaps }) {
    const { pen, palette } = this;
    pen.font = "600 10.5px 'Source Sans', system-ui, sans-serif";
    pen.textBaseline = "top";
    pen.textAlign = "left";
    pen.fillStyle = palette["kx-critical"];
    pen.fillText(`${gaps.length} newest of ${num_gaps} gaps`, 4, top + 2);
  }

  #epochs(window, begins, marks) {
    const { pen, palette, lanes } = this;
    pen.font = "600 10.5px 'Source Sans', system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    for (const { epoch, time } of begins) {
      const x = Math.round(window.x(time)) + 0.5;
      if (!(x >= 0 && x <= this.width)) continue;
      pen.strokeStyle = palette["kx-text"];
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(x, 0);
      pen.lineTo(x, lanes.areas[0] + lanes.areas[1]);
      pen.stroke();
      if (!lanes.marks || x + NAME_WIDTH > this.width) continue;
      const at = (mark) => window.x(mark.time) - x;
      if (marks.some((mark) => at(mark) > 6 && at(mark) < NAME_WIDTH)) continue; // a triangle would lie on it
      pen.fillStyle = palette["kx-text-muted"];
      pen.fillText(`epoch ${epoch}`, x + 9, lanes.marks[1] / 2); // right of the triangle that tells of a restart
    }
  }

  #axis(window) {
    const { pen, palette } = this;
    const [top, height] = this.lanes.axis;
    const { times, step } = window.ticks(96);
    pen.fillStyle = palette["kx-text-faint"];
    pen.font = "11px 'Source Sans', system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.textAlign = "center";
    for (const time of times) {
      const x = window.x(time);
      pen.fillRect(Math.round(x), top, 1, 3);
      if (x > 26 && x < this.width - 26) pen.fillText(tickWords(time, step), x, top + height / 2 + 2);
    }
  }

  #marks(window, marks) {
    const { pen, palette } = this;
    const y = this.lanes.marks[1] / 2;
    const colours = { critical: "kx-leaked", warning: "kx-warning", info: "kx-text-faint" };
    for (const mark of marks) {
      const x = window.x(mark.time);
      if (mark.kind === "epoch" || x < 0 || x > this.width) continue;
      pen.fillStyle =
        palette[mark.kind === "bookmark" ? "kx-past" : (colours[mark.severity] ?? "kx-text-faint")];
      pen.beginPath();
      if (mark.kind === "bookmark") ribbon(pen, x, y);
      else triangle(pen, x, y);
      pen.fill();
    }
  }

  #line(x, colour, width, dash = []) {
    const { top, lanes } = this;
    top.strokeStyle = colour;
    top.lineWidth = width;
    top.setLineDash(dash);
    top.beginPath();
    top.moveTo(x, lanes.marks ? lanes.marks[1] : 0);
    top.lineTo(x, lanes.axis ? lanes.axis[0] : this.height);
    top.stroke();
    top.setLineDash([]);
  }

  #head(x, colour, name, dash) {
    const { top, lanes, palette } = this;
    const low = lanes.axis ? lanes.axis[0] : this.height;
    this.#line(x, palette["kx-panel"], 5);
    this.#line(x, colour, 2, dash);
    top.fillStyle = colour;
    top.beginPath();
    top.roundRect(x - 7, low - 1, 14, 14, 4);
    top.fill();
    if (!name) return;
    top.fillStyle = palette["kx-panel"];
    top.font = "700 10px 'Source Sans', system-ui, sans-serif";
    top.textAlign = "center";
    top.textBaseline = "middle";
    top.fillText(name, x, low + 6.5);
  }
}

// What was read last before a stretch of a finer timeline, as the one of all history tells: {told, row} or null.
function readBefore(coarse, told, from) {
  if (!coarse || coarse === told) return null;
  const start = rowAt(coarse, from);
  for (let row = start; row >= 0 && coarse.epoch[row] === coarse.epoch[start]; row--) {
    if (coarse.series.used[row] !== null) return { told: coarse, row };
  }
  return null;
}

function triangle(pen, x, y) {
  pen.moveTo(x, y - 5);
  pen.lineTo(x + 5, y + 4);
  pen.lineTo(x - 5, y + 4);
}

function ribbon(pen, x, y) {
  pen.moveTo(x - 4, y - 5);
  pen.lineTo(x + 4, y - 5);
  pen.lineTo(x + 4, y + 5);
  pen.lineTo(x, y + 1.5);
  pen.lineTo(x - 4, y + 5);
}

/** A moment on an axis whose marks are `step` ms apart. */
export function tickWords(time, step) {
  const date = new Date(time);
  if (step >= DAY_MS) return date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  const text = whenWords(time, false).split(", ").at(-1);
  return step >= 60_000 ? text.slice(0, 5) : text;
}
