// The stretch of time that the charts show, in ms since 1970: the last so many minutes, going along with the present, or
// from one moment to another. Kept here, outside the DOM, one a source, so that it survives script runs, remounts and
// page changes; it is in the address (?last=600, or ?from=...&to=...), which is the permalink.

export const SPANS = [
  [120_000, "2 min"],
  [600_000, "10 min"],
  [3_600_000, "1 h"],
  [21_600_000, "6 h"],
  [86_400_000, "24 h"],
  [Infinity, "All"],
];

const DEFAULT_SPAN = 600_000;
const LEAST_MS = 5000;
const YOUNG_MS = 60_000;
const MOST_MS = 3650 * 86_400_000;
const WRITE_MS = 200;
const PARTS = ["last", "from", "to"];
const ranges = new Map();

/** The range of a source's charts. `whole`: show all there is, unless the address says otherwise. */
export function rangeFor(source, whole = false) {
  const key = source ?? "";
  // As with the moment: what the address says is of the source that the page opened with.
  if (!ranges.has(key)) {
    const query = new URLSearchParams(ranges.size ? "" : location.search);
    ranges.set(key, new TimelineRange(query, whole ? Infinity : DEFAULT_SPAN));
  }
  return ranges.get(key);
}

export class TimelineRange {
  constructor(query, span) {
    this.usual = span;
    this.span = spanOf(query.get("last")) ?? span;
    this.fixed = stretchOf(query.get("from"), query.get("to")); // {from, to}; null: goes along with `now`
    this.now = null; // the newest time known of
    this.oldest = null; // when the source was first followed, as far as that is known
    this.whole = null; // {from, to} of all that is kept, once that was asked for
    this.listeners = new Set();
  }

  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  get follows() {
    return this.fixed === null;
  }

  /** `{from, to}`, or null while nothing is known. */
  stretch() {
    const { fixed, span, now, whole } = this;
    if (fixed) return fixed;
    if (span === Infinity) return whole && { from: whole.from, to: Math.max(whole.to, now ?? 0, whole.from + LEAST_MS) };
    if (now === null) return null;
    // A source that is younger than the span fills the charts all the same.
    return { from: Math.max(now - span, Math.min(this.oldest ?? -Infinity, now - YOUNG_MS)), to: now };
  }

  /** The last so many ms, or all (Infinity), from now on. */
  setSpan(span) {
    this.#turn(null, span);
  }

  /** From one moment to another, and no further. */
  set(from, to) {
    if (to - from < LEAST_MS) [from, to] = [(from + to - LEAST_MS) / 2, (from + to + LEAST_MS) / 2];
    this.#turn({ from, to }, this.span);
  }

  /** Along with the present again. */
  release() {
    if (this.fixed) this.#turn(null, this.span);
  }

  /** Show less (factor below 1) or more around a moment, which keeps its place; at the present it goes on along. */
  zoom(factor, around) {
    const stretch = this.stretch();
    if (!stretch) return;
    const shown = stretch.to - stretch.from;
    const span = Math.min(MOST_MS, Math.max(LEAST_MS, shown * factor));
    const from = around - ((around - stretch.from) / shown) * span;
    this.#put(from, from + span);
  }

  pan(ms) {
    const stretch = this.stretch();
    if (stretch) this.#put(stretch.from + ms, stretch.to + ms);
  }

  /** Bring a moment that lies outside into it. */
  follow(ms) {
    const stretch = this.stretch();
    if (!stretch || (ms >= stretch.from && ms <= stretch.to)) return;
    const span = stretch.to - stretch.from;
    this.#turn({ from: ms - 0.8 * span, to: ms + 0.2 * span }, this.span);
  }

  /** Put it into the address; also after a page change, which clears it. */
  writeAddress() {
    clearTimeout(this.writing);
    const url = new URL(location.href);
    const { fixed, span, usual } = this;
    const iso = (ms) => new Date(Math.round(ms)).toISOString();
    const last = span === Infinity ? "all" : String(Math.round(span / 1000));
    const values = fixed
      ? { from: iso(fixed.from), to: iso(fixed.to) }
      : span === usual
        ? {}
        : { last };
    for (const name of PARTS) {
      if (values[name] === undefined) url.searchParams.delete(name);
      else url.searchParams.set(name, values[name]);
    }
    if (url.href !== location.href) history.replaceState(history.state, "", url);
  }

  /** Whoever leaves the page must not write into the address of the next. */
  stopWriting() {
    clearTimeout(this.writing);
  }

  #put(from, to) {
    const atPresent = this.follows && this.now !== null && to >= this.now - (to - from) / 50;
    if (atPresent) this.#turn(null, to - from);
    else this.#turn({ from, to }, this.span);
  }

  #turn(fixed, span) {
    Object.assign(this, { fixed, span });
    clearTimeout(this.writing);
    this.writing = setTimeout(() => this.writeAddress(), WRITE_MS);
    for (const listener of [...this.listeners]) listener();
  }
}

function spanOf(text) {
  if (text === "all") return Infinity;
  const ms = /^\d{1,9}$/.test(text ?? "") ? Number(text) * 1000 : 0;
  return ms >= LEAST_MS ? ms : null;
}

function stretchOf(from, to) {
  const [begin, end] = [from, to].map((text) => Date.parse(text ?? ""));
  return end - begin >= LEAST_MS && end - begin <= MOST_MS ? { from: begin, to: end } : null;
}
