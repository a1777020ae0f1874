// The alerts that fire now, above everything else: nothing at all where none does, and none of the past.

import { apiUrl } from "./address.js";
import { el, reconcile, setAttribute, setText } from "./elements.js";
import { count } from "./format.js";
import { whenWords } from "./moment_words.js";

const FEW = 5;

const pageOf = (link) => new URL(link, new URL("../", apiUrl(""))).href;

/** A few of them, each a link to all that is known of it; the head leads to the others. */
export class AlertsStrip {
  constructor(title) {
    this.list = el("ul", { class: "findings alerts" });
    this.number = el("span", { class: "muted" });
    this.node = el(
      "section",
      { class: "card panel alerts-strip", "data-key": "alerts", "aria-label": title, hidden: true },
      el(
        "div",
        { class: "panel-head" },
        el("h2", {}, title),
        this.number,
        el("a", { class: "link", href: pageOf("alerts") }, "All alerts"),
      ),
      this.list,
    );
  }

  draw({ alerts = [], num_alerts: num }) {
    const shown = alerts.slice(0, FEW);
    setAttribute(this.node, "hidden", !shown.length);
    setAttribute(this.node, "data-status", shown[0]?.severity ?? "");
    setText(this.number, num > shown.length ? `${count(shown.length)} of ${count(num)}` : "");
    reconcile(this.list, shown, (alert) => alert.id, newLine, drawLine);
  }
}

function newLine() {
  const who = el("span", { class: "who" }, el("b"), el("span", { class: "muted" }));
  return el("li", {}, el("time", { class: "faint" }), el("a", { class: "alert-line" }, who, el("span", { class: "sentence" })));
}

function drawLine(node, { rule, engine, severity, since, sentence, link }) {
  const [time, line] = node.children;
  const [who, what] = line.children;
  setAttribute(node, "data-severity", severity);
  setText(time, whenWords(since, false));
  setAttribute(time, "title", `Since ${since}`);
  setText(who.firstChild, rule);
  setText(who.lastChild, engine);
  setText(what, sentence);
  setAttribute(line, "href", pageOf(link));
}
