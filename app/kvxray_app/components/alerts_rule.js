// One rule: a line that says how it stands, its switch, and the runbook below it.

import { sendJson } from "./address.js";
import { Runbook } from "./alerts_runbook.js";
import { forWords, withCode } from "./alerts_words.js";
import { el, reconcile, setAttribute, setText } from "./elements.js";
import { count } from "./format.js";

export class AlertRule {
  /** `on`: {rule(name or null), changed(), edit(text)}. */
  constructor(words, tip, on) {
    Object.assign(this, { words, on, told: null, isOpen: false });
    this.fold = el("button", { class: "fold", onclick: () => on.rule(this.isOpen ? null : this.told.name) });
    this.origin = el("span", { class: "badge" });
    this.sentence = el("div", { class: "muted says" });
    this.status = el("span", { class: "status" });
    this.stands = el("ul", { class: "stands" });
    const standing = el("td", { class: "standing", tabindex: "0" }, this.stands);
    tip.describe(standing, () => this.#explain());
    this.lasts = el("td", { class: "number" });
    this.switch = el("button", { class: "switch", role: "switch", onclick: () => this.#turn() }, el("i"));
    this.problem = el("div", { class: "problem", role: "alert" });
    this.row = el(
      "tr",
      {},
      el("th", { scope: "row" }, this.fold, this.origin, this.sentence),
      el("td", {}, this.status),
      this.lasts,
      standing,
      el("td", {}, this.switch, this.problem),
    );
    this.row.addEventListener("click", (event) => this.#press(event));
    this.runbook = null;
    this.cell = el("td", { colspan: String(words.columns.rules.length) });
    this.more = el("tr", { class: "more-of", hidden: true }, this.cell);
  }

  draw(told, isOpen) {
    Object.assign(this, { told, isOpen });
    setAttribute(this.row, "data-rule", told.name);
    setAttribute(this.row, "data-status", told.severity);
    setAttribute(this.row, "data-off", !told.is_on);
    setAttribute(this.row, "data-open", isOpen);
    setText(this.fold, told.name);
    setAttribute(this.fold, "aria-expanded", String(isOpen));
    setText(this.origin, this.words.origins[told.origin]);
    setAttribute(this.origin, "hidden", told.origin === "built-in");
    this.#drawSentence(told.sentence);
    setText(this.status, this.words.severities[told.severity]);
    setText(this.lasts, forWords(told.for_s));
    this.#drawStands();
    setAttribute(this.switch, "aria-checked", String(told.is_on));
    setAttribute(this.switch, "aria-label", `${told.name} is looked at`);
    setAttribute(this.more, "hidden", !isOpen);
    if (isOpen) this.#openRunbook().draw(told);
  }

  #drawSentence(sentence) {
    if (this.said === sentence) return;
    this.said = sentence;
    this.sentence.replaceChildren(...withCode(sentence));
  }

  // Made when it is first read: there are many rules.
  #openRunbook() {
    if (!this.runbook) {
      this.runbook = new Runbook(this.words, this.on);
      this.cell.append(this.runbook.node);
    }
    return this.runbook;
  }

  #counts() {
    const { stands } = this.words;
    const number = (state) => this.told.served.filter((one) => one.state === state).length;
    return Object.keys(stands)
      .map((state) => [state, number(state)])
      .filter(([, engines]) => engines);
  }

  #drawStands() {
    const off = this.told.is_on ? [] : [["off", 0]];
    const rows = off.length ? off : this.#counts();
    reconcile(
      this.stands,
      rows.length ? rows : [["nobody", 0]],
      ([state]) => state,
      ([state]) => el("li", { "data-stands": state }, el("i", { class: "lamp" }), el("span")),
      (node, [state, engines]) => setText(node.lastChild, standWords(state, engines, this.words.stands)),
    );
  }

  #explain() {
    const { name, is_on: isOn, needs, served } = this.told;
    if (!isOn) return [name, "It is off: nobody looks at it."];
    const [whys] = [[...new Set(served.map(({ why }) => why).filter(Boolean))]];
    const meanings = this.#counts().map(([state]) => `${this.words.stands[state]}: ${this.words.stand_meanings[state]}`);
    return [name, ...meanings, ...whys.slice(0, 3), needs ? `Needs ${needs}.` : ""];
  }

  #press(event) {
    if (event.target.closest("a, button, input") || !getSelection().isCollapsed) return;
    this.fold.click();
  }

  async #turn() {
    const { name, is_on: isOn } = this.told;
    setAttribute(this.switch, "disabled", true);
    const failed = await sendJson("PUT", `rules/${encodeURIComponent(name)}`, {}, { is_on: !isOn }).then(
      () => "",
      (error) => error.message,
    );
    setText(this.problem, failed);
    setAttribute(this.switch, "disabled", false);
    this.on.changed();
  }
}

function standWords(state, engines, stands) {
  if (state === "off") return "off";
  if (state === "nobody") return "no engine yet";
  return engines > 1 ? `${stands[state]} · ${count(engines)}` : stands[state];
}
