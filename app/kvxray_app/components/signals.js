// What the metrics of one engine tell: every signal with its number now and its course, by topic; only what it tells, and
// in a fold what it does not. Asked for once a second while somebody sees it; of a moment of the past, once.

import { el, reconcile, setAttribute, setText } from "./elements.js";
import { timeOfDay } from "./format.js";
import { defineComponent } from "./mount.js";
import { Polling } from "./polling.js";
import { SignalsEngines } from "./signals_engines.js";
import { SignalsPanel } from "./signals_panel.js";
import { SignalsUntold } from "./signals_untold.js";
import { applyTheme } from "./theme.js";
import { Tip } from "./tip.js";

const SPANS = [
  [3_600, "1 h"],
  [86_400, "24 h"],
  [15 * 86_400, "15 d"],
];

class Signals {
  /** `keep(name)`: for the other pages, what somebody chose. */
  constructor(parent, root, { source, words, palettes }, keep) {
    this.parent = parent;
    this.root = root;
    this.palettes = palettes;
    this.palette = applyTheme(parent, palettes);
    this.certainties = words.certainties;
    this.tip = new Tip(root);
    const at = new URLSearchParams(location.search).get("at");
    this.at = at === "live" ? null : at;
    // EPOCH.SEQ names an event, and metrics know none: the backend says so.
    this.end = /^\d{4}-/.test(this.at ?? "") ? Date.parse(this.at) : null;
    this.span_s = SPANS[0][0];
    this.panels = new Map();
    this.#build();
    this.engines = new SignalsEngines(source ?? null, (name) => {
      keep(name);
      this.#choose(name);
    });
    this.choice.append(this.engines.node);
    this.#choose(source ?? null);
  }

  close() {
    this.feed.close();
    this.engines.close();
    this.untold.close();
    for (const panel of this.panels.values()) panel.close();
    this.tip.close();
    this.root.replaceChildren();
  }

  retheme({ parentElement, data }) {
    this.palette = applyTheme(parentElement, data.palettes);
    this.#draw();
  }

  #build() {
    this.spans = SPANS.map(([span, words]) => {
      const label = `The last ${words}`;
      return el("button", { class: "quiet-button", "aria-label": label, onclick: () => this.#stretch(span) }, words);
    });
    this.choice = el("span", { class: "choice" });
    this.state = el("span", { class: "state", role: "status" });
    this.past = el("span", { class: "past" }, this.at ? `As it was at ${this.at}.` : "");
    const head = [el("h2", {}, "Signals"), this.choice, this.state, this.past];
    this.bar = el("div", { class: "panel-head" }, ...head, el("span", { class: "presses" }, ...this.spans));
    this.trouble = el("div", { class: "trouble", role: "status", hidden: true });
    this.empty = el("div", { class: "note panel" }, el("b", {}, "Looking at the metrics"), "A moment, please.");
    this.body = el("div", { class: "topics" });
    this.untold = new SignalsUntold(this.tip);
    this.root.append(el("section", { class: "panel bar" }, this.bar), this.trouble, this.empty, this.body, this.untold.node);
  } // prettier-ignore

  #choose(name) {
    this.feed?.close();
    this.name = name;
    const query = { engine: name ?? undefined, at: this.at ?? undefined };
    this.feed = new Polling("signals", query, () => this.#draw(), this.end !== null);
  }

  #stretch(span) {
    this.span_s = span;
    this.#draw();
  }

  #draw() {
    const { told, failed, failedSince } = this.feed;
    const shown = timeOfDay(new Date(failedSince).toISOString());
    setAttribute(this.trouble, "hidden", !failed || !told);
    setText(this.trouble, failed && told ? `${failed} What is shown is of ${shown}. Trying again.` : "");
    this.spans.forEach((node, at) => setAttribute(node, "aria-pressed", String(SPANS[at][0] === this.span_s)));
    const topics = told?.topics ?? [];
    this.#drawState(told);
    this.#drawEmpty(told, failed);
    setAttribute(this.body, "data-old", Boolean(failed) || Boolean(told?.status.stale && this.end === null));
    const { span_s, end, palette } = this;
    const asked = { engine: told?.engine, span_s, end, palette, isAway: Boolean(failed) };
    reconcile(this.body, topics, ({ title }) => title, ({ title }) => this.#panel(title), (_, topic) =>
      this.panels.get(topic.title).draw(topic, asked),
    ); // prettier-ignore
    for (const [title, panel] of this.panels) {
      if (topics.some((topic) => topic.title === title)) continue;
      panel.close();
      this.panels.delete(title);
    }
    this.untold.show(told?.engine ?? null, topics.length > 0);
  }

  #panel(title) {
    const panel = new SignalsPanel(title, this.certainties, this.tip);
    this.panels.set(title, panel);
    return panel.node;
  }

  #drawState(told) {
    if (!told) return setText(this.state, "");
    const { make, sentence, state, last } = told.status;
    const since = state === "failing" && last ? `What is shown is of ${timeOfDay(last)}.` : "";
    setAttribute(this.state, "data-state", state);
    setText(this.state, [make, sentence, since].filter(Boolean).join("  ·  "));
  }

  #drawEmpty(told, failed) {
    setAttribute(this.empty, "hidden", Boolean(told?.topics.length) || (!told && !failed));
    if (!told && !failed) return setAttribute(this.empty, "hidden", false);
    if (told?.topics.length) return;
    const [title, words] = told
      ? [this.end === null ? "No metrics are told" : "Nothing is kept of that moment", told.status.sentence]
      : ["No metrics to show", failed];
    this.empty.replaceChildren(el("b", {}, title), words);
  }
}

export const mount = defineComponent("signals", ({ parentElement, data, setStateValue }) => {
  const keep = (name) => setStateValue("source", name);
  const view = new Signals(parentElement, parentElement.querySelector(".kx"), data, keep);
  return { update: (next) => view.retheme(next), destroy: () => view.close() };
});
