// The figures over time: small charts over one stretch. The live feed and the event log fill them (timeline_data.js),
// plotly.js draws them. A brush over any of them chooses the stretch, and takes the page to the moment at its end; a
// press takes it to the moment pressed. All else on the page goes along, since it looks at the same moment.

import { el, setAttribute, setText } from "./elements.js";
import { duration } from "./format.js";
import { LiveView, defineLiveComponent } from "./live_view.js";
import { shownTime, whenWords } from "./moment_words.js";
import { tickWords } from "./timeline.js";
import { CHARTS } from "./timeline_charts.js";
import { TimelineData } from "./timeline_data.js";
import { TimelineList } from "./timeline_list.js";
import { TimelinePlot } from "./timeline_plot.js";
import { loadPlotly } from "./timeline_plotly.js";
import { SPANS, rangeFor } from "./timeline_range.js";
import { TimeWindow } from "./time_window.js";
import { onUnit } from "./units.js";

const ZOOM = 1.6;
const LIVE_DRAW_MS = 950; // charts go along once a second, or a pixel: a picture costs tens of milliseconds
const TICK_PX = 88;
const RETRY_MS = 5000;
const MISSED_MS = 10_000;
const HINT = [
  "Timelines",
  "Drag over a chart to choose a stretch: the page goes to the moment at its end. Press to go to one moment.",
  "Ctrl and the wheel zoom, sideways moves along. Arrow keys point, Enter goes there.",
];

class Timelines extends LiveView {
  constructor(context) {
    super(context);
    this.range = rangeFor(this.data.source, this.moment.home !== null);
    this.history = new TimelineData(this.feed, this.range, () => this.#redraw());
    this.pointed = null; // {plot, x}: what the pointer or the keyboard is on
    this.brush = null;
    this.drawnAt = 0;
    this.redrawing = null;
    this.Plotly = null;
    this.problem = "";
    this.wasPast = this.feed.isPast;
    this.plots = CHARTS.map((chart) => new TimelinePlot(chart, this.tip, this.#gestures()));
    this.marks = new TimelineList((mark) => this.#toMark(mark));
    this.#build();
    this.#watch();
    this.listen(
      () => this.history.close(),
      () => this.sight.disconnect(),
      () => this.sized.disconnect(),
      () => this.plots.forEach((plot) => plot.close(this.Plotly)),
      () => this.range.stopWriting(),
      () => clearTimeout(this.retry),
      () => clearTimeout(this.redrawing),
      this.range.subscribe(() => this.#stretched()),
      this.moment.subscribe(() => this.#moved()),
      this.feed.subscribe("summary", (summary) => this.#heard(summary)),
      this.feed.subscribe("status", () => this.requestDraw()),
      onUnit(() => this.#redraw()),
      this.#hook(),
    );
    this.range.writeAddress();
    this.#loadPlotly();
    if (this.feed.summary) this.#heard(this.feed.summary);
    if (this.range.stretch() || this.range.span === Infinity) this.history.refreshSoon();
  }

  draw() {
    const stretch = this.range.stretch();
    const marks = this.history.marks();
    this.#drawBar(stretch);
    this.marks.draw(marks, stretch);
    const plot = this.Plotly && stretch && this.plots.find((each) => each.stale && each.inSight);
    if (plot) plot.paint(this.Plotly, this.history, this.#scene(stretch, marks));
    this.#drawOver();
    // One picture a frame: the page stays quick between them.
    if (plot) this.requestDraw();
  }

  retheme(palette) {
    super.retheme(palette);
    this.#redraw();
  }

  #build() {
    this.spans = SPANS.map(([span, words]) => {
      const label = span === Infinity ? "All that is kept" : `The last ${words}`;
      return el("button", { class: "quiet-button", "aria-label": label, onclick: () => this.range.setSpan(span) }, words);
    });
    const press = (words, label, onclick) => el("button", { class: "quiet-button", "aria-label": label, onclick }, words);
    this.words = el("span", { class: "stretch", role: "status" });
    this.follow = press("Follow", "Go along with the present", () => this.#goAlong());
    this.map = el("a", { class: "link", hidden: true }, "Map at this moment");
    this.said = el("div", { class: "note", role: "alert", hidden: true });
    const zooms = [
      press("−", "Show more time", () => this.range.zoom(ZOOM, this.#middle())),
      press("+", "Show less time", () => this.range.zoom(1 / ZOOM, this.#middle())),
    ];
    const heading = el("h2", { tabindex: "0" }, HINT[0]);
    this.tip.describe(heading, () => HINT);
    const head = el("div", { class: "panel-head" }, heading, this.words, this.map, el("div", { class: "presses" }, ...this.spans, ...zooms, this.follow));
    this.grid = el("div", { class: "grid" }, ...this.plots.map(({ node }) => node));
    this.root.append(el("section", { class: "panel bar" }, head, this.said), this.grid, this.marks.node);
  } // prettier-ignore

  // Charts that nobody sees are not drawn; those that come into sight, or change in size, are.
  #watch() {
    this.sight = new IntersectionObserver((seen) => {
      for (const { target, isIntersecting } of seen)
        this.plots.find(({ node }) => node === target).inSight = isIntersecting;
      this.requestDraw();
    });
    this.sized = new ResizeObserver(() => this.#redraw());
    this.sized.observe(this.grid);
    for (const { node } of this.plots) this.sight.observe(node);
  }

  #gestures() {
    return {
      point: (plot, x) => this.#point(plot, x),
      press: (ms) => this.moment.goTime(this.#bounded(ms)),
      mark: (mark) => this.#toMark(mark),
      brushing: (from, to) => this.#brushing(from, to),
      brush: (from, to) => this.#chosen(from, to),
      zoom: (factor, ms) => this.range.zoom(factor, ms),
      pan: (ms) => this.range.pan(ms),
    };
  }

  #point(plot, x) {
    for (const each of this.plots) each.pointedX = each === plot ? x : null;
    this.pointed = x === null ? null : { plot, x };
    this.requestDraw();
  }

  #brushing(from, to) {
    this.brush = from === null ? null : { from, to };
    this.requestDraw();
  }

  // The page is at the end of what was chosen, as far as anything has happened.
  #chosen(from, to) {
    this.range.set(from, to);
    this.moment.goTime(this.#bounded(to));
  }

  #bounded(ms) {
    const { now, whole } = this.range;
    return Math.min(ms, Math.max(now ?? 0, whole?.to ?? 0) || ms);
  }

  #toMark(mark) {
    if (mark.at) this.moment.go(mark.at);
    else this.moment.goTime(mark.time);
  }

  #goAlong() {
    this.moment.goLive();
    this.range.release();
  }

  #middle() {
    const { from, to } = this.range.stretch() ?? { from: 0, to: 0 };
    if (this.range.follows && !this.feed.isPast) return to;
    const head = shownTime(this.feed);
    return head !== null && head >= from && head <= to ? head : (from + to) / 2;
  }

  // The page is at another moment: the charts go along.
  #moved() {
    const { isPast } = this.feed;
    const time = shownTime(this.feed);
    if (this.wasPast && !isPast) this.range.release();
    else if (isPast && time !== null && this.range.span !== Infinity) this.#goTo(time);
    this.wasPast = isPast;
    this.requestDraw();
  }

  #goTo(time) {
    const { range } = this;
    if (!range.follows) return range.follow(time);
    const { from, to } = range.stretch() ?? { from: time, to: time - 1 };
    if (time >= from && time <= to) range.set(from, to);
    else range.set(time - 0.8 * range.span, time + 0.2 * range.span);
  }

  #heard(summary) {
    if (this.feed.isPast || !summary?.state) return this.#moved();
    const before = this.range.now ?? -Infinity;
    this.history.take(summary);
    // The first word, or the first after a while in the past: what lies between is in the log.
    if (this.range.now - before > MISSED_MS) this.history.refreshSoon();
    this.redrawing ??= setTimeout(() => this.#redraw(), this.drawnAt + this.#pause() - performance.now());
  }

  #stretched() {
    this.history.refreshSoon();
    this.#redraw();
  }

  #pause() {
    const { from, to } = this.range.stretch() ?? { from: 0, to: 0 };
    return Math.max(LIVE_DRAW_MS, (to - from) / (this.plots[0].width || 1000));
  }

  #redraw() {
    clearTimeout(this.redrawing);
    this.redrawing = null;
    this.drawnAt = performance.now();
    for (const plot of this.plots) plot.stale = true;
    this.requestDraw();
  }

  async #loadPlotly() {
    try {
      this.Plotly = await loadPlotly();
      this.problem = "";
    } catch (error) {
      this.problem = error.message;
      this.retry = setTimeout(() => this.#loadPlotly(), RETRY_MS);
    }
    this.requestDraw();
  }

  #scene(stretch, marks) {
    const { plots, palette } = this;
    const window = Object.assign(new TimeWindow(), stretch, { width: Math.max(1, plots[0].stage.clientWidth) });
    const { times, step } = window.ticks(TICK_PX);
    const ticks = { times, words: times.map((time) => tickWords(time, step)) };
    return { stretch, ticks, marks, palette, state: this.feed.summary?.state ?? null };
  }

  #drawBar(stretch) {
    const { range, feed } = this;
    const words = stretch ? `${whenWords(stretch.from, false)} to ${whenWords(stretch.to, false)}` : "";
    const lasts = stretch ? `  ·  ${duration((stretch.to - stretch.from) / 1000)}` : "";
    setText(this.words, words + lasts);
    this.spans.forEach((node, at) => setAttribute(node, "aria-pressed", String(range.follows && range.span === SPANS[at][0])));
    setAttribute(this.follow, "hidden", (range.follows && !feed.isPast) || this.moment.home !== null);
    const problem = this.#problem();
    setText(this.said, problem);
    setAttribute(this.said, "hidden", !problem);
    setAttribute(this.map, "hidden", !feed.isPast);
    if (feed.isPast) setAttribute(this.map, "href", mapAt(feed.query()));
  }

  #drawOver() {
    const { pointed } = this;
    const cursor = pointed?.plot.stretch ? pointed.plot.time(pointed.x) : null;
    const over = { cursor, head: shownTime(this.feed), brush: this.brush, state: this.feed.summary?.state ?? null };
    for (const plot of this.plots)
      plot.drawOver(this.history, { ...over, pointed: plot === pointed?.plot, note: this.#note(plot) });
  }

  #problem() {
    const { told, problem } = this.history;
    return this.problem || problem || (told ? "" : this.feed.status.reason);
  }

  #note(plot) {
    const { told, tail } = this.history;
    if (this.problem || (!told && this.#problem())) return "Nothing to show.";
    if (told && !told.t.length && !tail.length) return "Nothing is stored of this stretch.";
    return told && plot.stretch ? "" : "Loading…";
  }

  // For browser tests: where a time is on a chart, in page coordinates, and what is shown.
  #hook() {
    const plotOf = (key) => this.plots.find(({ chart }) => chart.key === key);
    const hook = {
      place: (key, ms) => plotOf(key).place(ms),
      drawn: (key) => plotOf(key).canvas.data ?? null,
      layout: (key) => plotOf(key).canvas.layout ?? null,
      stretch: () => this.range.stretch(),
      idle: () => this.history.told !== null && this.plots.every(({ stale, inSight }) => !stale || !inSight),
    };
    window.__kvxray.timelines = hook;
    return () => window.__kvxray.timelines === hook && delete window.__kvxray.timelines;
  }
}

function mapAt({ source, at }) {
  const url = new URL(".", document.baseURI);
  if (source != null) url.searchParams.set("source", source);
  url.searchParams.set("at", at);
  return url.href;
}

export const mount = defineLiveComponent("timelines", Timelines);
