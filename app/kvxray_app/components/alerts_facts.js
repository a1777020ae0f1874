// What an alert rests on, who was told of it, and what to do: the part of it that folds out.

import { numberWords, toldWords, withCode } from "./alerts_words.js";
import { el, reconcile, setAttribute, setText, setWords } from "./elements.js";
import { count } from "./format.js";

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
    this.untold = el("p", { class: "faint" });
    this.findings = part("What was found", this.list, this.untold);
    this.steps = el("ol", { class: "steps" });
    this.todo = part("What to do", this.steps);
    this.told = el("ul", { class: "told" });
    this.who = part("Who was told", this.told);
    this.node = el("div", { class: "facts" }, this.todo, this.compared, this.findings, this.who);
  }

  draw({ alert, told }, rule, { hasTargets, alertmanager }) {
    this.#drawNumbers(alert.numbers);
    this.#drawFindings(alert);
    this.#drawSteps(rule?.do ?? []);
    this.#drawTold(told, hasTargets, alert.state === "firing" && alertmanager);
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
      findings,
      ({ id }) => id,
      () => el("li"),
      (node, { severity, sentence, subjects }) => {
        setAttribute(node, "data-severity", severity);
        setWords(node, sentence, subjects?.requests ?? []);
      },
    );
    setText(this.untold, all > findings.length ? `${count(all - findings.length)} more are not listed.` : "");
  }

  #drawSteps(steps) {
    setAttribute(this.todo, "hidden", !steps.length);
    const key = steps.join("\n");
    if (this.stepsOf === key) return;
    this.stepsOf = key;
    this.steps.replaceChildren(...steps.map((step) => el("li", {}, ...withCode(step))));
  }

  // One that fired before a target was set has no delivery of its own; an Alertmanager is told of it all the same.
  #drawTold(told, hasTargets, alertmanager) {
    const nobody = alertmanager ? EACH_MINUTE : hasTargets ? "Nobody yet." : "Nobody: no target is set.";
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

const EACH_MINUTE = "No delivery is kept; Alertmanager is told each minute while it fires.";

const part = (title, ...content) => el("section", {}, el("h4", {}, title), ...content);
