// The course of every figure over the two minutes before a moment of the past, second by second, for sparklines. Asked
// for once a stretch, ahead of the moment too, so that playing does not ask with every picture.

import { getJson } from "./address.js";

const WINDOW_S = 120;
const AHEAD_S = 600;
const PAUSE_MS = 200;
const RATES = new Set(["allocations_per_s", "evictions_per_s", "preemptions_per_s", "tokens_per_s"]);
const SHARES = new Set(["used", "cached", "shared"]); // of the pool; the timeline counts blocks
const READ_AT_ONCE = new Set(["hit_rate", "ttft_p50_s", "itl_p50_s"]); // of what happened in that second, else nothing

export class FigureCourse {
  constructor(feed) {
    this.feed = feed;
    this.forget();
  }

  forget() {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.asking = this.timer = null;
    this.time = null;
    this.from = this.to = 0; // seconds that `buckets` tell of
    this.buckets = null;
  }

  /** The page is at this second. */
  goTo(time) {
    this.time = time;
    if (this.buckets && time - WINDOW_S >= this.from && time <= this.to) return;
    this.timer ??= setTimeout(() => this.#ask(), PAUSE_MS);
  }

  /** Times and values of one figure, oldest first; values may be null. */
  series(key) {
    const values = this.buckets?.series[key];
    const end = Math.floor(this.time ?? 0);
    if (!values || end < this.from || this.time > this.to) return { times: [], values: [] };
    const start = end - WINDOW_S + 1;
    const dense = new Array(WINDOW_S).fill(null);
    this.buckets.t.forEach((second, at) => {
      if (second <= end && second >= start) dense[second - start] = this.#value(key, values, at);
    });
    this.#fillIn(key, dense, start);
    return { times: dense.map((_, at) => start + at), values: dense };
  }

  // A second without a bucket is one in which nothing happened: rates were 0 and gauges as before.
  #fillIn(key, dense, start) {
    const first = this.buckets.t[0] ?? Infinity;
    let held = null;
    this.buckets.t.forEach((second, at) => {
      if (second < start) held = this.#value(key, this.buckets.series[key], at);
    });
    for (let at = 0; at < dense.length; at++) {
      if (dense[at] !== null) held = dense[at];
      else if (READ_AT_ONCE.has(key) || start + at < first) continue;
      else dense[at] = RATES.has(key) ? 0 : held;
    }
  }

  #value(key, values, at) {
    const value = values[at];
    if (!SHARES.has(key) || value === null) return value;
    return value / this.buckets.series.usable_blocks[at];
  }

  async #ask() {
    this.timer = null;
    const asking = (this.asking = new AbortController());
    const [from, to] = [Math.floor(this.time) - 2 * WINDOW_S, Math.floor(this.time) + AHEAD_S];
    const query = {
      source: this.feed.source,
      from: new Date(from * 1000).toISOString(),
      to: new Date(to * 1000).toISOString(),
      points: to - from,
    };
    const told = await getJson("timeline", query, asking.signal).catch(() => null);
    if (asking !== this.asking) return;
    this.asking = null;
    if (told?.seconds !== 1) return;
    Object.assign(this, { buckets: told, from, to });
    this.feed.emit("summary", this.feed.summary);
  }
}
