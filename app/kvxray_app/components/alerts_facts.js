// What an alert rests on, who was told of it, and what to do: the part of it that folds out.

import { numberWords, toldWords, withCode } from "./alerts_words.js";
import { el, reconcile, setAttribute, setText, setWords } from "./elements.js";
import { count } from "./format.js";

const FEW = 5; // findings that are seen before somebody asks for the others

export class AlertFacts {
  constructor() {
    this.numbers = el("tbody");
    this.compared = part(
      "What was compared when it fired",
      el(
        "table",
        { class: "numbers" },
        el("thead", {}, el("tr", {}, ...["What", "It was", "Limit"].map((name) => el("th", { scope: "col" }, name)))),
        this.numbers,
      ),
    );
    this.list = el("ul", { class: "found" });
    this.others = el("button", { class: "others", onclick: () => this.#turn() });
    this.untold = el("p", { class: "faint" });
    this.findings = part("What was found", this.list, this.others, this.untold);
    this.steps = el("ol", { class: "steps" });
    this.todo = part("What to do", this.steps);
    this.told = el("ul", { class: "told" });
    this.who = part("Who was told", this.told);
    this.node = el("div", { class: "facts" }, this.todo, this.compared, this.findings, this.who);
  }

  draw({ alert, told }, rule, { hasTargets, alertmanager }) {
    if (this.of?.id !== alert.id) this.isWhole = false;
    this.of = alert;
    this.#drawNumbers(alert.numbers);
    this.#drawFindings(alert);
    this.#drawSteps(rule?.do ?? []);
    const waits = alertmanager ? EACH_MINUTE : hasTargets ? "Nobody yet." : NO_TARGET;
    const nobody = alert.state === "over" ? NOT_KEPT : waits;
    this.#drawTold(told, nobody);
  }

  #drawNumbers(numbers) {
    setAttribute(this.compared, "hidden", !numbers.length);
    reconcile(
      this.numbers,
      numbers.map((number, at) => [at, number]),
      ([at]) => at,
      () => el("tr", {}, el("td"), el("td", { class: "number" }), el("td", { class: "number muted" })),
      (node, [, { words, value, limit }]) => {
        setText(node.children[0], words);
        setText(node.children[1], numberWords(value));
        setText(node.children[2], numberWords(limit));
      },
    );
  }

  #drawFindings({ findings, num_findings: all }) {
    setAttribute(this.findings, "hidden", !findings.length);
    reconcile(
      this.list,
      this.isWhole ? findings : findings.slice(0, FEW),
      ({ id }) => id,
      () => el("li"),
      (node, { severity, sentence, subjects }) => {
        setAttribute(node, "data-severity", severity);
        setWords(node, sentence, subjects?.requests ?? []);
      },
    );
    const others = findings.length - FEW;
    setAttribute(this.others, "hidden", others <= 0);
    setAttribute(this.others, "aria-expanded", String(this.isWhole));
    setText(this.others, this.isWhole ? "Show fewer" : `and ${count(others)} more`);
    setText(this.untold, all > findings.length ? `${count(all - findings.length)} more are not listed.` : "");
  }

  #turn() {
    this.isWhole = !this.isWhole;
    this.#drawFindings(this.of);
  }

  #drawSteps(steps) {
    setAttribute(this.todo, "hidden", !steps.length);
    const key = steps.join("\n");
    if (this.stepsOf === key) return;
    this.stepsOf = key;
    this.steps.replaceChildren(...steps.map((step) => el("li", {}, ...withCode(step))));
  }

  // One that fired before a target was set has no delivery of its own; an Alertmanager is told of it all the same.
  #drawTold(told, nobody) {
    const rows = told.length ? told.map((one) => [`${one.target} ${one.kind}`, one]) : [["nobody", null]];
    reconcile(
      this.told,
      rows,
      ([key]) => key,
      () => el("li"),
      (node, [, one]) => {
        setAttribute(node, "data-told", one ? (one.delivered ? "yes" : one.error ? "failed" : "waiting") : "nobody");
        setText(node, one ? toldWords(one) : nobody);
      },
    );
  }
}

const NO_TARGET = "Nobody: no target is set.";
const NOT_KEPT = "No delivery is kept.";
const EACH_MINUTE = "No delivery is kept; Alertmanager is told each minute while it fires.";

const part = (title, ...content) => el("section", {}, el("h4", {}, title), ...content);
