// Signals that belong together, as cards; their course is asked for while somebody sees them.

import { el, reconcile, setAttribute, setText } from "./elements.js";
import { whenWords } from "./moment_words.js";
import { SignalCard } from "./signals_card.js";
import { SignalsCourse } from "./signals_course.js";

const LATE = 0.05; // of the stretch

export class SignalsPanel {
  constructor(title, certainties, tip) {
    this.title = title;
    this.certainties = certainties;
    this.tip = tip;
    this.cards = new Map();
    this.grid = el("div", { class: "grid" });
    this.since = el("span", { class: "faint", hidden: true });
    this.failed = el("p", { class: "failed", role: "status", hidden: true });
    this.node = el(
      "section",
      { class: "panel topic", "data-topic": title },
      el("div", { class: "panel-head" }, el("h2", {}, title), this.since),
      this.failed,
      this.grid,
    );
    this.course = new SignalsCourse(() => this.#drawAll());
    this.sight = new IntersectionObserver(([entry]) => this.course.see(entry.isIntersecting));
    this.sight.observe(this.node);
  }

  close() {
    this.sight.disconnect();
    this.course.close();
  }

  /** `topic` as the API tells it; `asked`: {engine, span_s, end, palette, isAway}; away: the page says so itself. */
  draw(topic, asked) {
    this.topic = topic;
    this.asked = asked;
    this.course.want(asked.engine, topic.signals.map(({ name }) => name), asked.span_s, asked.end);
    this.#drawAll();
  } // prettier-ignore

  #drawAll() {
    if (!this.topic) return;
    const { told, failed } = this.course;
    this.#drawSince(told);
    setText(this.failed, failed);
    setAttribute(this.failed, "hidden", !failed || this.asked.isAway);
    const make = ({ name }) => {
      const card = new SignalCard(name, this.certainties, this.tip, (at) => this.#point(at));
      this.cards.set(name, card);
      return card.node;
    };
    reconcile(this.grid, this.topic.signals, ({ name }) => name, make, (_, signal) => {
      const note = failed ? "Its course could not be asked for." : "Loading…";
      this.cards.get(signal.name).draw(signal, told?.series[signal.name] ?? null, this.asked.palette, note);
    }); // prettier-ignore
  }

  // Where less is told than was asked for, the charts begin with the first reading.
  #drawSince(told) {
    const begins = Date.parse(told?.times[0] ?? "");
    const lacks_s = this.asked.span_s - ((this.asked.end ?? Date.now()) - begins) / 1000;
    const isLate = lacks_s > this.asked.span_s * LATE;
    setAttribute(this.since, "hidden", !isLate);
    if (isLate) setText(this.since, `since ${whenWords(begins, false)}`);
  }

  #point(at) {
    const iso = at === null ? null : this.course.told?.times[at];
    const when = iso ? whenWords(iso, false) : null;
    for (const card of this.cards.values()) card.drawCursor(at, when);
  }
}
