// Axes, grid and marks of a chart as Plotly takes them. Pure. Margins are the same in every chart, so that one moment
// lies below the other in all of them, and a place in pixels is a time without asking Plotly.

import { areaPoints, highest, linePoints, ticksUpTo } from "./timeline_traces.js";

export const MARGIN = { l: 62, r: 14, t: 10, b: 24 };
const GAP_PX = 6;
const MOST_SHAPES = 120; // the newest
const ROOM = 1.04; // above the highest
const SHARES = [0, 0.25, 0.5, 0.75, 1];

/** Traces and layout of one chart. `ticks`: {times, words}; `size`: {width, height} in pixels. */
export function picture(chart, data, { stretch, ticks, size, marks, palette, state }) {
  const told = data.told ?? { t: [], epoch: [], seconds: 1, series: {} };
  const traces = chart.stacked ? areas(chart, told, data.tail, palette) : lines(chart, told, data.tail, palette);
  const most = Math.max(0, ...traces.map((trace) => highest(trace, stretch.from, stretch.to)));
  const marksUp = chart.share ? SHARES : ticksUpTo(Math.max(most * ROOM, chart.least ?? 0));
  const top = chart.stacked && most ? most : marksUp.at(-1); // all blocks fill the picture
  // Round numbers need no digits beyond the point.
  const write = (value) => (value === 0 && !chart.share ? "0" : chart.write(value, state).replace(/\.0+(?=\D|$)/, ""));
  return { traces, layout: layout(stretch, ticks, size, palette, { top, marksUp, write }, shapes(marks, stretch, size, palette)) };
}

function lines(chart, told, tail, palette) {
  return chart.lines.map(({ name, colour }) =>
    drawn(linePoints(told, tail, name, chart.held), {
      name,
      line: { color: palette[colour], width: 1.6, shape: chart.held ? "hv" : "linear", simplify: false },
    }),
  );
}

// Each sum covers those below it: filled down to 0, the highest first.
function areas(chart, told, tail, palette) {
  const stack = chart.lines.map(({ name }) => name);
  const filled = areaPoints(told, tail, stack).map(({ state, x, y }) =>
    drawn({ x, y }, {
      name: state,
      fill: "tozeroy",
      fillcolor: palette[`kx-${state}`],
      line: { color: palette[`kx-${state}`], width: 0, shape: "hv", simplify: false },
    }),
  ); // prettier-ignore
  const most = { ...told, series: { most: told.series.used_max ?? [] } };
  const line = { color: palette["kx-text"], width: 1, shape: "hv", dash: "dot", simplify: false };
  return [...filled, drawn(linePoints(most, [], "most", true), { name: "most in use", line })];
}

const drawn = (points, more) => ({ type: "scatter", mode: "lines", hoverinfo: "skip", connectgaps: false, ...points, ...more });

function layout(stretch, ticks, size, palette, { top, marksUp, write }, shapes) {
  const axis = { fixedrange: true, zeroline: false, gridcolor: palette["kx-border"], linecolor: palette["kx-border-strong"] };
  return {
    ...size,
    autosize: false,
    margin: { ...MARGIN, pad: 0 },
    paper_bgcolor: "transparent",
    plot_bgcolor: "transparent",
    font: { family: "'Source Sans', system-ui, sans-serif", size: 11, color: palette["kx-text-faint"] },
    showlegend: false,
    hovermode: false,
    dragmode: false,
    shapes,
    xaxis: { ...axis, type: "linear", range: [stretch.from, stretch.to], tickvals: ticks.times, ticktext: ticks.words, showgrid: false, ticks: "outside", ticklen: 3, tickcolor: palette["kx-border-strong"], showline: true },
    yaxis: { ...axis, range: [0, top], tickvals: marksUp, ticktext: marksUp.map(write) },
  }; // prettier-ignore
}

// Findings, restarts and bookmarks as lines, what is missing as a band.
function shapes(marks, stretch, size, palette) {
  const inside = marks.filter(({ time }) => time >= stretch.from && time <= stretch.to).slice(-MOST_SHAPES);
  const half = ((stretch.to - stretch.from) / Math.max(1, size.width - MARGIN.l - MARGIN.r)) * (GAP_PX / 2);
  return inside.map((mark) => {
    const { kind } = mark;
    const colour = palette[colourOf(mark)];
    const place = { yref: "paper", y0: 0, y1: 1, layer: "above" };
    if (kind === "gap")
      return { ...place, type: "rect", x0: mark.time - half, x1: mark.time + half, fillcolor: colour, opacity: 0.45, line: { width: 0 } };
    const dash = { epoch: "solid", restart: "solid", bookmark: "dashdot" }[kind] ?? "dot";
    return { ...place, type: "line", x0: mark.time, x1: mark.time, opacity: kind === "finding" ? 0.6 : 1, line: { color: colour, width: 1.2, dash } };
  }); // prettier-ignore
}

/** The colour of a mark, by its name in the palette. */
export function colourOf({ kind, severity }) {
  if (kind === "gap") return "kx-critical";
  if (kind === "epoch" || kind === "restart") return "kx-text";
  if (kind === "bookmark") return "kx-past";
  return { critical: "kx-leaked", warning: "kx-warning" }[severity] ?? "kx-text-faint";
}
