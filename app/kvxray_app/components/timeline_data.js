// What the charts are drawn from: the course of the figures over the stretch shown, as the event log tells it, and after
// its end what the live feed told since. The log is asked again for what is new while the charts go along with the
// present; a stretch of the past is asked for once.

import { getJson } from "./address.js";
import { Marks } from "./marks.js";
import { whenWords } from "./moment_words.js";
import { STACK } from "./timeline_charts.js";

const POINTS = 300;
const PAUSE_MS = 150;
const GROW_MS = 5000;
const ANEW_EVERY = 12; // of so many questions one asks for all of the stretch, and for findings and bookmarks
const MOST_TAIL = 240;
// Latencies are not among them: the feed tells no quantiles like those of the log.
const FROM_FEED = [
  "allocations_per_s", "evictions_per_s", "preemptions_per_s", "hit_rate", "internal_fragmentation", "running",
  "waiting",
]; // prettier-ignore

export class TimelineData {
  /** `changed()`: there is something new to draw. */
  constructor(feed, range, changed) {
    Object.assign(this, { feed, range, changed });
    this.told = null; // the newest answer
    this.tail = []; // {time (ms), epoch, values, figures}: newer than that
    this.problem = "";
    this.known = new Marks(feed.source);
    this.rounds = 0;
    this.alive = new AbortController();
    this.onVisibility = () => document.hidden || this.#grow();
    document.addEventListener("visibilitychange", this.onVisibility);
  }

  close() {
    this.alive.abort();
    clearTimeout(this.timer);
    clearTimeout(this.soon);
    document.removeEventListener("visibilitychange", this.onVisibility);
  }

  /** The stretch is another: ask for all of it, when it has been so for a moment. */
  refreshSoon() {
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.refresh(), this.rounds ? PAUSE_MS : 0);
  }

  /** A summary of the live feed. */
  take({ state, source }) {
    const time = Date.parse(state.time);
    const begins = (source?.epochs ?? []).map((epoch) => Date.parse(epoch.started_at));
    this.range.oldest = begins.length ? Math.min(...begins) : null;
    this.range.now = Math.max(time, this.range.now ?? 0);
    if (time <= (this.tail.at(-1)?.time ?? 0) || time <= this.#toldUpTo()) return;
    const values = Object.fromEntries(STACK.map((name) => [name, state.counts[name]?.value ?? null]));
    for (const name of FROM_FEED) values[name] = state.figures[name]?.value ?? null;
    values.usable_blocks = state.usable_blocks;
    this.tail.push({ time, epoch: state.epoch, values, figures: { ...state.counts, ...state.figures } });
    if (this.tail.length > MOST_TAIL) this.tail.shift();
  }

  async refresh(onlyNew = false) {
    clearTimeout(this.timer);
    const round = ++this.rounds;
    try {
      const more = onlyNew && round % ANEW_EVERY ? await this.#askForNew() : null;
      const told = more ?? (await this.#askForAll());
      if (round !== this.rounds) return;
      this.told = more ? joined(this.told, more) : told;
      this.tail = this.tail.filter(({ time }) => time > this.#toldUpTo());
      this.problem = "";
      if (!more) await this.known.refresh(this.alive.signal);
    } catch (error) {
      if (error.name === "AbortError" || round !== this.rounds) return;
      this.problem = error.message;
    }
    if (round !== this.rounds) return;
    this.changed();
    if (this.problem || this.#growing) this.timer = setTimeout(() => this.#grow(), GROW_MS);
  }

  /** Moments worth a mark, as `Marks` tells them. */
  marks() {
    return this.known.with([...this.#resets(), ...this.#gaps()]);
  }

  // Epochs that begin where the course tells of another one before.
  #resets() {
    const { t, epoch } = this.told ?? { t: [], epoch: [] };
    const known = this.feed.summary?.source?.epochs ?? [];
    return t.flatMap((second, row) => {
      if (!row || epoch[row] === epoch[row - 1]) return [];
      const at = known.find((each) => each.epoch === epoch[row])?.first_seq ?? null;
      return [{ kind: "epoch", time: second * 1000, at, words: `Epoch ${epoch[row]} begins: the engine started anew` }];
    });
  }

  // Those that no finding tells of.
  #gaps() {
    const told = new Set(this.known.findings.filter(({ kind }) => kind === "gap").map(({ time }) => Date.parse(time)));
    const open = (this.told?.gaps ?? []).filter((gap) => !gap.repaired && !told.has(Date.parse(gap.time)));
    return open.map((gap) => ({
      kind: "gap",
      time: Date.parse(gap.time),
      at: null,
      words: `Gap at ${whenWords(gap.time)}: ${gap.reason.replaceAll("_", " ")}`,
      severity: "critical",
    }));
  }

  // What has not come yet may belong to the stretch.
  get #growing() {
    const { feed, range } = this;
    return !feed.isPast && (range.follows || range.fixed.to > (range.now ?? 0));
  }

  #grow() {
    if (document.hidden || this.alive.signal.aborted) return;
    if (this.problem || !this.told) this.refresh();
    else if (this.#growing) this.refresh(true);
  }

  #toldUpTo() {
    const { t, seconds } = this.told ?? { t: [] };
    return t.length ? (t.at(-1) + seconds) * 1000 : 0;
  }

  async #askForAll() {
    const { source } = this.feed;
    const { range } = this;
    const whole = range.follows && range.span === Infinity;
    const stretch = range.stretch();
    const query = whole || !stretch ? {} : withOneBefore(stretch);
    const told = await getJson("course", { source, points: POINTS + 1, ...query }, this.alive.signal);
    // The oldest minute kept may begin with nothing.
    if (whole) range.whole = { from: Math.max(Date.parse(told.begin), (told.t[0] ?? 0) * 1000), to: Date.parse(told.end) };
    return told;
  }

  // From the last point on, which was not over, in points as long as those there are; null where all must be asked for.
  async #askForNew() {
    const { told, range, feed } = this;
    const last = told?.t.at(-1);
    if (last === undefined || range.now === null) return null;
    const points = Math.max(1, Math.ceil((range.now / 1000 - last) / told.seconds));
    if (points > POINTS || told.t.length > 2 * POINTS) return null;
    const to = iso((last + points * told.seconds) * 1000);
    const more = await getJson("course", { source: feed.source, from: iso(last * 1000), to, points }, this.alive.signal);
    return more.seconds === told.seconds ? more : null;
  }
}

// An answer with what a later one tells of its end and beyond.
function joined(told, more) {
  if (!more.t.length) return told;
  const kept = told.t.findIndex((second) => second >= more.t[0]);
  const rows = kept < 0 ? told.t.length : kept;
  const join = (before, after) => [...before.slice(0, rows), ...after];
  const series = Object.fromEntries(
    Object.entries(more.series).map(([name, values]) => [name, join(told.series[name], values)]),
  );
  const gaps = new Map([...told.gaps, ...more.gaps].map((gap) => [gap.from_seq, gap]));
  return { ...told, t: join(told.t, more.t), epoch: join(told.epoch, more.epoch), series, gaps: [...gaps.values()] };
}

// A window's value stands at its end: the line reaches the edge of the picture by one point beyond it.
function withOneBefore({ from, to }) {
  return { from: iso(from - Math.max(1000, (to - from) / POINTS)), to: iso(to) };
}

const iso = (ms) => new Date(Math.round(ms)).toISOString();
