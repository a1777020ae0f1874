// What fires at a glance, how long ago it was looked at, and where alerts are sent.

import { calmTitle } from "./alerts_active.js";
import { el, reconcile, setAttribute, setText } from "./elements.js";
import { age, count, plural } from "./format.js";
import { whenWords } from "./moment_words.js";

const LATE_S = 60; // rules are looked at many times in between

export class AlertsSummary {
  constructor(words, tip) {
    this.words = words;
    this.tip = tip;
    this.counts = el("ul", { class: "counts", "aria-label": "Alerts that fire" });
    this.looked = el("span", { class: "muted looked" });
    this.targets = el("ul", { class: "targets", "aria-label": "Where alerts are sent" });
    this.nobody = el(
      "span",
      { class: "nobody" },
      el("b", {}, "Nobody is told"),
      ": no target is set. Name one in ",
      el("code", {}, "KVXRAY_ALERTMANAGERS"),
      " or ",
      el("code", {}, "KVXRAY_WEBHOOKS"),
      ".",
    );
    const sent = el("div", { class: "sent" }, el("span", { class: "muted" }, "Sent to"), this.targets, this.nobody);
    this.sentLabel = sent.firstChild;
    this.unstored = el("p", { class: "unstored", role: "status" });
    this.node = el("section", { class: "summary panel", "aria-label": "Summary" }, this.counts, this.looked, sent, this.unstored);
  }

  /** `numEngines`: null while not known. `isOld`: it is the last that was known. */
  draw({ alerts, num, targets, looked_at: lookedAt, not_stored: unstored, num_rules_on: numRules, pending }, numEngines, isOld) {
    this.#drawCounts(alerts, num, pending.length, [isOld, numEngines]);
    const late = lookedAt ? (Date.now() - Date.parse(lookedAt)) / 1000 : 0;
    setText(this.looked, lookedWords(numRules, numEngines, lookedAt, late));
    setAttribute(this.looked, "data-late", late > LATE_S);
    setText(this.unstored, unstored ?? "");
    setAttribute(this.unstored, "hidden", !unstored);
    setAttribute(this.nobody, "hidden", targets.length > 0);
    setAttribute(this.sentLabel, "hidden", !targets.length);
    reconcile(
      this.targets,
      targets,
      ({ name }) => name,
      () => this.#target(),
      (node, target) => this.#drawTarget(node, target),
    );
  }

  // `calm`: what the title of a page without an alert depends on.
  #drawCounts(alerts, num, numPending, calm) {
    const severities = Object.keys(this.words.severities);
    const found = severities.map((key) => [key, alerts.filter(({ alert }) => alert.severity === key).length]);
    const told = found.filter(([, number]) => number);
    const unlisted = num - alerts.length;
    const rows = [
      ...told.map(([key, number]) => [key, count(number), this.words.severities[key].toLowerCase()]),
      ...(unlisted > 0 ? [["more", count(unlisted), "not listed"]] : []),
      ...(told.length ? [] : [[calm[0] || calm[1] === 0 ? "more" : "healthy", "", calmTitle(...calm)]]),
      ...(numPending ? [["pending", count(numPending), "about to fire"]] : []),
    ];
    reconcile(
      this.counts,
      rows,
      ([key]) => key,
      ([key]) => el("li", { "data-status": key }, el("span", { class: "status" }, el("b"), el("span"))),
      (node, [, number, words]) => {
        setText(node.firstChild.firstChild, number);
        setText(node.firstChild.lastChild, words);
      },
    );
  }

  #target() {
    const node = el("li", { tabindex: "0" }, el("i", { class: "lamp" }), el("b"), el("span", { class: "muted" }));
    this.tip.describe(node, () => this.#explain(node.kxTarget));
    return node;
  }

  #drawTarget(node, target) {
    node.kxTarget = target;
    setAttribute(node, "data-state", target.state);
    setText(node.children[1], target.name);
    const waiting = target.waiting ? `, ${count(target.waiting)} waiting` : "";
    setText(node.children[2], `${this.words.target_states[target.state]}${waiting}`);
  }

  #explain({ name, kind, address, error, last_delivered: last, next_try: next }) {
    return [
      name,
      `${kind === "alertmanager" ? "Alertmanager" : "Webhook"} at ${address}`,
      error,
      last ? `It last took something at ${whenWords(last, false)}.` : "It took nothing yet.",
      next ? `Tried again at ${whenWords(next, false)}.` : "",
    ];
  }
}

function lookedWords(numRules, numEngines, lookedAt, late) {
  const engines = numEngines === null ? "the engines" : plural(numEngines, "engine");
  const rules = `${plural(numRules, "rule")} ${numRules === 1 ? "looks" : "look"} at ${engines}`;
  return `${rules}  ·  ${lookedAt ? `looked ${age(late)} ago` : "not looked yet"}`;
}
