// Points of the course as Plotly draws them. Pure. A hole in the data is a hole in the line: nothing is joined over it.
// Where a point stands for a longer stretch the line goes to its lowest and highest, so that no spike is lost.

const SILENCE_MS = 10_000; // the feed tells every two seconds at least: beyond this it was not there

/** One line of a chart: `{x (ms), y}`, null where it breaks. `tail`: newer points, of the live feed. */
export function linePoints(told, tail, name, held) {
  const pen = new Pen(held);
  const { t, epoch, seconds, series } = told;
  const [values, lows, highs] = [series[name] ?? [], series[`${name}_min`], series[`${name}_max`]];
  for (let row = 0; row < t.length; row++) {
    if (row && (epoch[row] !== epoch[row - 1] || t[row] !== t[row - 1] + seconds)) pen.lift();
    pen.stretch(t[row] * 1000, (t[row] + seconds) * 1000, values[row] ?? null, lows?.[row], highs?.[row]);
  }
  const last = t.length - 1;
  let before = last < 0 ? null : { epoch: epoch[last], time: (t[last] + seconds) * 1000 };
  for (const point of tail) {
    if (before && (point.epoch !== before.epoch || point.time - before.time > SILENCE_MS)) pen.lift();
    before = point;
    // What the feed does not tell is there with the next answer of the log.
    if (name in point.values) pen.point(point.time, point.values[name]);
  }
  pen.lift();
  return { x: pen.x, y: pen.y };
}

/** The sums of states from the bottom up, the highest first: `[{state, x, y}]`, to be filled down to 0 one over the other. */
export function areaPoints(told, tail, stack) {
  const sums = { ...told, series: {} };
  const summed = tail.map((point) => ({ ...point, values: {} }));
  stack.forEach((state, at) => {
    const below = sums.series[stack[at - 1]];
    sums.series[state] = told.t.map((_, row) => plus(below ? below[row] : 0, told.series[state]?.[row]));
    for (const [index, { values }] of summed.entries())
      values[state] = plus(at ? values[stack[at - 1]] : 0, tail[index].values[state]);
  });
  return stack.toReversed().map((state) => ({ state, ...linePoints(sums, summed, state, true) }));
}

/** The highest value drawn between two times (ms), 0 when there is none. */
export function highest(points, from, to) {
  let most = 0;
  for (let at = 0; at < points.x.length; at++)
    if (points.y[at] > most && points.x[at] >= from && points.x[at] <= to) most = points.y[at];
  return most;
}

/** Round marks of an axis from 0 to at least `most`: the last is its end. */
export function ticksUpTo(most, atLeast = 4) {
  if (!(most > 0)) return [0, 1];
  const rough = most / atLeast;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((times) => times * unit >= rough * (1 - 1e-9));
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, at) => at * step);
}

const plus = (one, other) => (one == null || other == null ? null : one + other);

class Pen {
  constructor(held) {
    this.held = held; // a reading holds until the next one
    this.x = [];
    this.y = [];
    this.begin = null; // where the only stretch drawn since the line broke begins
    this.end = null; // where the stretch last drawn ends, and its value
  }

  stretch(begin, end, value, low, high) {
    const spread = low != null && high != null && (value === null || low < high);
    if (value === null && !spread) return this.lift();
    const at = this.held ? begin : end;
    this.begin = this.end ? null : begin;
    if (spread) [low, high].forEach((extreme) => this.#put(at, extreme));
    this.end = { end, value: value ?? high };
    if (value === null) return this.lift();
    this.#put(at, value);
  }

  point(time, value) {
    if (value === null) return this.lift();
    this.#put(time, value);
    this.begin = null;
    this.end = { end: time, value };
  }

  /** The line breaks here. What stands alone is seen all the same: it is as long as its stretch. */
  lift() {
    if (!this.end) return;
    if (this.held) this.#put(this.end.end, this.end.value);
    else if (this.begin !== null) this.#put(this.begin, this.end.value);
    this.#put(this.x.at(-1), null);
    this.begin = this.end = null;
  }

  #put(x, y) {
    this.x.push(x);
    this.y.push(y);
  }
}
