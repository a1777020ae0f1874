// What the timeline is drawn from: the figures over a stretch, asked for anew when the stretch changes or grows, and
// the moments worth going to: findings, gaps, epochs, bookmarks.

import { getJson } from "./address.js";
import { Marks } from "./marks.js";

const PAUSE_MS = 150;
const GROW_MS = 10_000;
const MARKS_EVERY = 3; // of the questions for more figures, one asks for findings and bookmarks too

export class TimeData {
  /** `changed()`: there is something new to draw. */
  constructor(feed, window, changed) {
    Object.assign(this, { feed, window, changed });
    this.told = null; // the newest timeline
    this.coarse = null; // the newest one of all that is kept
    this.problem = "";
    this.known = new Marks(feed.source);
    this.rounds = 0;
    this.alive = new AbortController();
    this.onVisibility = () => document.hidden || this.refresh();
    document.addEventListener("visibilitychange", this.onVisibility);
  }

  close() {
    this.alive.abort();
    clearTimeout(this.timer);
    clearTimeout(this.soon);
    document.removeEventListener("visibilitychange", this.onVisibility);
  }

  /** The stretch is another, or known for the first time: ask, when it has been so for a moment. */
  refreshSoon() {
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.refresh(), this.rounds ? PAUSE_MS : 0);
  }

  async refresh() {
    clearTimeout(this.timer);
    const round = ++this.rounds;
    try {
      const [whole, told] = await this.#ask();
      if (round !== this.rounds) return;
      this.told = told;
      if (whole === told) this.coarse = whole;
      this.problem = "";
      // The oldest minute kept may begin with nothing.
      const from = Math.max(Date.parse(whole.begin), (whole.t[0] ?? 0) * 1000);
      this.window.setWhole(from, Date.parse(whole.end) + 1); // the end is told to the millisecond
      if (round % MARKS_EVERY === 1) await this.refreshMarks();
    } catch (error) {
      if (error.name === "AbortError" || round !== this.rounds) return;
      this.problem = error.message;
    }
    this.changed();
    if (!document.hidden && !this.alive.signal.aborted) this.timer = setTimeout(() => this.refresh(), GROW_MS);
  }

  async refreshMarks() {
    await this.known.refresh(this.alive.signal);
    this.changed();
  }

  get bookmarks() {
    return this.known.bookmarks;
  }

  /** Moments worth going to, as `Marks` tells them. */
  marks() {
    const begins = this.begins().map(({ epoch, time }) => ({
      kind: "epoch",
      time,
      at: this.epochs().find((each) => each.epoch === epoch)?.first_seq ?? null,
      words: `Epoch ${epoch} begins`,
    }));
    return this.known.with(begins);
  }

  /** Where each epoch but the first begins: `{epoch, time (ms)}`. */
  begins() {
    const { t, epoch } = this.coarse ?? { t: [], epoch: [] };
    return t.flatMap((second, row) =>
      row && epoch[row] !== epoch[row - 1] ? [{ epoch: epoch[row], time: second * 1000 }] : [],
    );
  }

  epochs() {
    return this.feed.summary?.source?.epochs ?? [];
  }

  // The whole stretch tells where history begins and ends; part of it is a question of its own.
  async #ask() {
    const { source } = this.feed;
    const { window } = this;
    const points = Math.min(1000, Math.max(50, Math.round(window.width / 2)));
    const { signal } = this.alive;
    if (window.isWhole) {
      const whole = await getJson("timeline", { source, points }, signal);
      return [whole, whole];
    }
    const [from, to] = [window.from, window.to].map((ms) => new Date(ms).toISOString());
    return Promise.all([
      getJson("timeline", { source, points: 1 }, signal),
      getJson("timeline", { source, from, to, points }, signal),
    ]);
  }
}

/** The row of a timeline that tells of a moment (ms), or -1. */
export function rowAt(told, ms) {
  const second = ms / 1000;
  let row = -1;
  for (let at = 0; at < told.t.length && told.t[at] <= second; at++) row = at;
  return row;
}
