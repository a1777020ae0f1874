// A line of the last two minutes, drawn as SVG. A hole in the values is a hole in the line.

import { setAttribute, svg } from "./elements.js";

const WINDOW_S = 120;
const SHORTEST_S = 20; // a page just opened stretches what it has, down to this
const HOLE_S = 6;
const WIDTH = 120;
const HEIGHT = 28;

export class Sparkline {
  constructor() {
    this.area = svg("path", { class: "area" });
    this.line = svg("path", { class: "stroke", "vector-effect": "non-scaling-stroke" });
    this.node = svg(
      "svg",
      { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      this.area,
      this.line,
    );
  }

  /** Draw a series ({times, values}); `ratio` ones keep a scale that does not blow noise up. */
  draw(series, ratio) {
    const runs = runsOf(series);
    const [low, high] = scale(runs.flat(), ratio);
    const y = (value) => HEIGHT - 2 - ((value - low) / (high - low)) * (HEIGHT - 5);
    const end = series.times[series.times.length - 1] ?? 0;
    const start = Math.max(end - WINDOW_S, Math.min(runs[0]?.[0][0] ?? end, end - SHORTEST_S));
    const x = (time) => WIDTH * (1 - (end - time) / (end - start));
    const points = runs.map((run) =>
      run.map(([time, value]) => `${x(time).toFixed(1)} ${y(value).toFixed(1)}`),
    );
    setAttribute(this.line, "d", points.map((run) => `M${run.join("L")}`).join(""));
    setAttribute(
      this.area,
      "d",
      points
        .map(
          (run, at) =>
            `M${x(runs[at][0][0]).toFixed(1)} ${HEIGHT}L${run.join("L")}L${x(runs[at].at(-1)[0]).toFixed(1)} ${HEIGHT}Z`,
        )
        .join(""),
    );
  }
}

/** Stretches of [time, value] without holes, within the window. */
export function runsOf({ times, values }) {
  const start = (times[times.length - 1] ?? 0) - WINDOW_S;
  const runs = [];
  let run = null;
  let before = -Infinity;
  for (let at = 0; at < times.length; at++) {
    if (times[at] < start) continue;
    const hole = values[at] === null || times[at] - before > HOLE_S;
    before = times[at];
    if (hole) run = null;
    if (values[at] === null) continue;
    if (!run) runs.push((run = []));
    run.push([times[at], values[at]]);
  }
  return runs.filter((stretch) => stretch.length > 1);
}

function scale(points, ratio) {
  if (!points.length) return [0, 1];
  let low = Infinity;
  let high = -Infinity;
  for (const [, value] of points) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (!ratio) return [0, Math.max(high * 1.1, 1e-9)];
  const span = Math.max(high - low, 0.1);
  const middle = (high + low) / 2;
  return [Math.max(0, middle - span * 0.6), Math.min(1, middle + span * 0.6)];
}
