// The stretch of time that the timeline shows, in ms since 1970, and where its moments lie on so many pixels.

const LEAST_MS = 2000;
const STEPS_S = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800];

export class TimeWindow {
  constructor() {
    this.whole = null; // {from, to} of all that is kept
    this.from = this.to = 0;
    this.width = 1;
    this.isWhole = true; // shows all, and grows with it
  }

  /** All that is kept begins and ends there. */
  setWhole(from, to) {
    this.whole = { from, to: Math.max(to, from + LEAST_MS) };
    if (this.isWhole) Object.assign(this, this.whole);
    else this.#put(this.from, this.to - this.from);
  }

  x(ms) {
    return ((ms - this.from) / (this.to - this.from)) * this.width;
  }

  time(x) {
    return this.from + (x / this.width) * (this.to - this.from);
  }

  /** Show less (factor below 1) or more around a moment, which keeps its place. */
  zoom(factor, around) {
    if (!this.whole) return;
    const share = (around - this.from) / (this.to - this.from);
    const span = Math.max(LEAST_MS, (this.to - this.from) * factor);
    this.#put(around - share * span, span);
  }

  pan(ms) {
    if (this.whole) this.#put(this.from + ms, this.to - this.from);
  }

  showAll() {
    if (!this.whole) return;
    Object.assign(this, this.whole, { isWhole: true });
  }

  /** Bring a moment that has left the window into it, a fifth from the side where it went out. */
  follow(ms) {
    const span = this.to - this.from;
    if (!this.whole || (ms >= this.from && ms <= this.to)) return false;
    this.#put(ms > this.to ? ms - 0.2 * span : ms - 0.8 * span, span);
    return true;
  }

  /** Round moments for labels, at least `apart` pixels from each other: `{times, step}` in ms. */
  ticks(apart) {
    const least = ((this.to - this.from) / this.width) * apart;
    const step =
      1000 * (STEPS_S.find((seconds) => seconds * 1000 >= least) ?? Math.ceil(least / 864e5) * 86400);
    const shift = new Date(this.from).getTimezoneOffset() * 60_000; // days begin at local midnight
    const times = [];
    for (let at = Math.ceil((this.from - shift) / step) * step + shift; at <= this.to; at += step)
      times.push(at);
    return { times, step };
  }

  #put(from, span) {
    const { whole } = this;
    const room = whole.to - whole.from;
    this.isWhole = span >= room;
    if (this.isWhole) return Object.assign(this, whole);
    this.from = Math.min(Math.max(from, whole.from), whole.to - span);
    this.to = this.from + span;
  }
}
