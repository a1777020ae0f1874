// The timelines of an engine that is watched from outside: small charts over one stretch, out of its events and its
// metrics; and which there are not.

import { el, setAttribute, setText } from "./elements.js";
import { ForeignChart } from "./foreign_chart.js";
import { CHARTS, askForStretch, askForTime, askForWhole } from "./foreign_course_data.js";
import { timeOfDay } from "./format.js";
import { momentFor } from "./moment.js";
import { defineComponent } from "./mount.js";
import { whenWords } from "./moment_words.js";
import { pageUrl } from "./overview_links.js";
import { applyTheme } from "./theme.js";
import { Tip } from "./tip.js";

const EVERY_MS = 5000;
const SPANS = [
  [600, "10 min"],
  [3600, "1 h"],
  [21_600, "6 h"],
  [86_400, "24 h"],
  [Infinity, "All"],
];
const BEYOND = 1.02; // of a stretch whose end is an event: so that its last points are seen
const SHORTEST_MS = 10_000;
const OF_BLOCKS = "Block states, fragmentation and leaks over time take an engine that tells of its blocks.";

class ForeignCourse {
  constructor(root, { source, home, kind, engine }) {
    Object.assign(this, { root, about: { source, engine, isOfHashes: kind === "hashes" }, span: SPANS[0][0] });
    this.tip = new Tip(root);
    this.moment = momentFor(source, home);
    const go = (ms) => location.assign(pageUrl("live", source, new Date(Math.floor(ms)).toISOString()));
    this.charts = CHARTS.map((chart) => new ForeignChart(chart, this.tip, this.about.isOfHashes ? go : null));
    this.spans = SPANS.map(([span, words]) => {
      const label = span === Infinity ? "All events that are kept" : `The last ${words}`;
      return el("button", { class: "quiet-button", "aria-label": label, onclick: () => this.#setSpan(span) }, words);
    });
    this.words = el("span", { class: "muted", role: "status" });
    const signals = el("a", { class: "link", href: pageUrl("signals", source) }, "All its signals");
    this.past = el("span", { class: "past" });
    this.live = el("button", { class: "quiet-button", hidden: true, onclick: () => this.moment.goLive() }, "Back to live");
    this.lack = el("p", { class: "lack muted" });
    const head = el("div", { class: "panel-head" }, el("h2", {}, "Timelines"), this.words, this.past, this.live, el("span", { class: "presses" }, ...this.spans, signals));
    root.append(el("section", { class: "panel" }, head, this.lack), el("div", { class: "grid" }, ...this.charts.map(({ node }) => node)));
    for (const { node } of this.charts) node.hidden = true;
    this.onVisibility = () => this.#turn();
    document.addEventListener("visibilitychange", this.onVisibility);
    this.leave = this.moment.subscribe(() => this.#turn());
    this.moment.writeAddress();
    this.#turn();
  }

  close() {
    document.removeEventListener("visibilitychange", this.onVisibility);
    this.leave();
    this.#rest();
    this.moment.stopWriting();
    this.tip.close();
    this.root.replaceChildren();
  }

  #setSpan(span) {
    this.span = span;
    this.#turn();
  }

  #rest() {
    clearTimeout(this.timer);
    this.asking?.abort();
  }

  #turn() {
    this.#rest();
    this.spans.forEach((node, at) => setAttribute(node, "aria-pressed", String(SPANS[at][0] === this.span)));
    setAttribute(this.live, "hidden", this.moment.at === this.moment.home);
    if (this.moment.at === null) setText(this.past, "");
    if (!document.hidden) this.#ask();
  }

  async #ask() {
    const asking = (this.asking = new AbortController());
    const told = await this.#told(asking.signal).catch(() => null);
    if (asking !== this.asking) return;
    if (told?.isAnswered) this.#draw(told, told.stretch);
    else if (told) this.#drawUnanswered(told.problems);
    this.timer = setTimeout(() => this.#turn(), EVERY_MS);
  }

  async #told(signal) {
    const stretch = await this.#stretch(signal);
    const told = await askForStretch(this.about, stretch.from, stretch.to, signal);
    const began = Math.min(...[told.course, told.signals].flatMap((part) => part?.times.slice(0, 1) ?? []));
    const isYoung = Number.isFinite(began) && began > stretch.from && stretch.to - began > SHORTEST_MS;
    return { stretch: { ...stretch, from: isYoung ? began : stretch.from }, isYoung, ...told };
  }

  // The last while before now, or before the moment of the past that the page is at; or everything.
  async #stretch(signal) {
    if (this.span === Infinity) {
      const whole = await askForWhole(this.about, signal);
      const now = Date.now();
      const { from, to } = whole ?? { from: now - 15 * 86_400_000, to: now };
      return { from, to: from + Math.max(SHORTEST_MS, (to - from) * BEYOND) };
    }
    const { at } = this.moment;
    const then = at === null ? null : await askForTime(this.about, at, signal);
    const to = then === null ? Date.now() : then + this.span * 1000 * (BEYOND - 1);
    setText(this.past, at === null ? "" : then === null ? `The time of ${at} is not known: these are the newest.` : `Up to ${whenWords(then)}`);
    return { from: to - this.span * 1000, to };
  }

  // What was drawn stays, and says of when it is.
  #drawUnanswered(problems) {
    const shown = this.drawnAt ? `What is shown is of ${timeOfDay(this.drawnAt)}.` : "";
    setText(this.words, [...problems, shown, "Trying again."].filter(Boolean).join(" "));
  }

  #draw(told, stretch) {
    this.drawnAt = new Date().toISOString();
    const untold = this.charts.filter((chart) => !chart.draw(told[chart.chart.from], stretch));
    const names = untold.map(({ chart }) => chart.title.toLowerCase()).join(", ");
    const since = told.isYoung ? `since ${whenWords(stretch.from, false)}` : "";
    setText(this.words, untold.length === this.charts.length ? "Nothing was told in this stretch." : since);
    const lines = [names && `Not told in this stretch: ${names}.`, OF_BLOCKS, ...told.problems];
    setText(this.lack, lines.filter(Boolean).join(" "));
  }
}

export const mount = defineComponent("foreign_course", (component) => {
  let { source } = component.data;
  const open = ({ parentElement, data }) => {
    applyTheme(parentElement, data.palettes);
    return new ForeignCourse(parentElement.querySelector(".kx"), data);
  };
  let course = open(component);
  return {
    update(next) {
      applyTheme(next.parentElement, next.data.palettes);
      if (next.data.source === source) return;
      course.close();
      source = next.data.source;
      course = open(next);
    },
    destroy: () => course.close(),
  };
});
