// One engine of the fleet: a line that tells nothing it does not know, and leads to the engine's live page.

import { el, setAttribute, setStyle, setText } from "./elements.js";
import { aboutEngine } from "./fleet_order.js";
import { NO_DATA, count } from "./format.js";
import { whenWords } from "./moment_words.js";
import { drawMark, figureText } from "./overview_figures.js";
import { pageUrl } from "./overview_links.js";

const FIGURES = ["usage", "hit_rate", "evictions_per_s", "cached", "running", "waiting"];
const CERTAINTIES = ["exact", "derived", "not_observable"];

export class FleetRow {
  constructor(name, words, glossary, tip, remove) {
    this.words = words;
    this.certainties = glossary.certainties;
    this.meanings = new Map(words.columns.map((column) => [column.key, column]));
    this.engine = null;
    this.status = el("span", { class: "status" });
    this.state = el("div", { class: "faint" });
    this.link = el("a", { class: "engine" }, name);
    this.about = el("div", { class: "faint" });
    this.brief = el("div", { class: "brief" });
    this.sentence = el("div", { class: "sentence" });
    this.metrics = el("div", { class: "failing" });
    this.bar = el("span", { class: "fill" });
    this.cells = Object.fromEntries(FIGURES.map((key) => [key, this.#figureCell(key, tip)]));
    this.cells.usage.node.prepend(el("span", { class: "track" }, this.bar));
    this.coverage = this.#coverageCell(tip);
    this.findings = el("td", { class: "number" });
    const taken = { class: "quiet-button", "aria-label": `Remove ${name}`, onclick: () => remove(this.engine) };
    this.removal = el("button", taken, "Remove");
    this.node = el(
      "tr",
      { "data-engine": name },
      el("td", {}, this.status, this.state),
      el("th", { scope: "row" }, this.link, this.about, this.brief),
      el("td", { class: "what" }, this.sentence, this.metrics),
      ...FIGURES.map((key) => this.cells[key].node),
      this.coverage.node,
      this.findings,
      el("td", {}, this.removal),
    );
    this.node.addEventListener("click", (event) => event.target.closest("a, button") ?? this.#follow());
  }

  draw(engine) {
    this.engine = engine;
    const { figures, metrics } = engine;
    setAttribute(this.node, "data-status", engine.status);
    setAttribute(this.node, "data-state", engine.state);
    setText(this.status, this.words.statuses[engine.status]);
    setText(this.state, stateOf(engine, this.words.states));
    setAttribute(this.link, "href", pageUrl("live", engine.sources[0] ?? engine.name));
    setText(this.about, aboutEngine(engine, this.words.makes));
    for (const node of [this.sentence, this.brief]) setText(node, engine.sentence);
    setAttribute(this.brief, "title", engine.sentence); // it may be cut
    setText(this.metrics, metrics?.state === "failing" ? metrics.sentence : "");
    setStyle(this.bar, "width", `${Math.min(1, figures.usage?.value ?? 0) * 100}%`);
    setAttribute(this.bar.parentElement, "data-none", figures.usage?.value == null);
    for (const key of FIGURES) this.#drawFigure(key);
    this.#drawCoverage(engine.coverage);
    setText(this.findings, count(engine.num_findings));
    setAttribute(this.removal, "hidden", !engine.removable);
  }

  #follow() {
    if (getSelection().isCollapsed) this.link.click();
  }

  #figureCell(key, tip) {
    const value = el("span", { class: "value" });
    const of = el("span", { class: "of muted" });
    const mark = el("span", { class: "mark" });
    const node = el("td", { class: "number", "data-figure": key }, value, of, mark);
    tip.describe(node, () => this.#explain(key));
    return { node, value, of, mark };
  }

  #figure(key) {
    return this.engine.figures[this.meanings.get(key).figure];
  }

  #drawFigure(key) {
    const { node, value, of, mark } = this.cells[key];
    const figure = this.#figure(key);
    setText(value, shortFigure(figure));
    setText(of, key === "cached" ? this.#capacity(" / ") : "");
    setAttribute(node, "data-certainty", figure?.certainty);
    setAttribute(node, "data-none", figure?.value == null);
    drawMark(mark, figure);
  }

  #explain(key) {
    const { label, meaning } = this.meanings.get(key);
    const figure = this.#figure(key);
    const spoiled = figure?.taints?.length ? "A finding spoils it." : "";
    const none = figure && figure.value == null && figure.certainty !== "not_observable" ? "No value just now." : "";
    const capacity = key === "cached" ? this.#capacity("Of ", " blocks.") : "";
    return [label, meaning, capacity, none, figure ? this.certainties[figure.certainty] : this.certainties.not_observable, spoiled];
  }

  #capacity(before, after = "") {
    const { value } = this.engine.figures.capacity_blocks ?? {};
    return value == null ? "" : `${before}${count(value)}${after}`;
  }

  #coverageCell(tip) {
    const bar = el("span", { class: "known", "aria-hidden": "true" }, ...CERTAINTIES.map(() => el("i")));
    CERTAINTIES.forEach((certainty, at) => bar.children[at].setAttribute("data-certainty", certainty));
    const words = el("div", { class: "faint" });
    const node = el("td", { class: "coverage" }, bar, words);
    tip.describe(node, () => ["Known", this.meanings.get("coverage").meaning, words.textContent]);
    return { node, bar, words };
  }

  #drawCoverage(coverage) {
    const { bar, words } = this.coverage;
    setAttribute(bar, "hidden", !coverage);
    setText(words, coverage ? coverageWords(coverage) : NO_DATA);
    CERTAINTIES.forEach((certainty, at) => {
      setStyle(bar.children[at], "flex-grow", `${coverage?.[certainty] ?? 0}`);
      setAttribute(bar.children[at], "hidden", !coverage?.[certainty]);
    });
  }
}

const coverageWords = ({ exact, derived, not_observable: not }) => `${exact} exact · ${derived} derived · ${not} not`;

// In a table the words are short; what is not known is never a number.
function shortFigure(figure) {
  return figure?.value == null && figure?.certainty === "not_observable" ? "not observable" : figureText(figure);
}

function stateOf(engine, states) {
  const words = states[engine.state] ?? engine.state;
  return engine.state === "stale" && engine.since ? `${words} since ${whenWords(engine.since, false)}` : words;
}
