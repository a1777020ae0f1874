// All engines, the worst first: one row each. A row chooses whose panels stand below; its link opens the map.

import { el, reconcile, setAttribute, setStyle, setText } from "./elements.js";
import { count } from "./format.js";
import { figureText } from "./overview_figures.js";
import { pageUrl } from "./overview_links.js";

const HEADS = ["Status", "Engine", "Verdict", "In use", "Hit rate", "Running", "Waiting"].concat(
  ["First token", "Evictions", "Findings", "Map"],
);
const FIGURES = ["hit_rate", "running", "waiting", "ttft_p50_s", "evictions_per_s"];

export class EnginesTable {
  constructor(words, choose) {
    this.words = words;
    this.choose = choose;
    this.body = el("tbody");
    const heads = HEADS.map((text) => el("th", { scope: "col" }, text));
    this.node = el(
      "section",
      { class: "engines panel", "aria-label": "Engines, the worst first" },
      el(
        "div",
        { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table of engines" },
        el("table", {}, el("thead", {}, el("tr", {}, ...heads)), this.body),
      ),
    );
  }

  draw(engines, chosen) {
    reconcile(
      this.body,
      engines,
      (engine) => engine.source,
      (engine) => this.#row(engine.source),
      (node, engine) => this.#patch(node, engine, chosen),
    );
  }

  #row(source) {
    const parts = {
      status: el("span", { class: "status" }),
      name: el("button", { class: "engine", onclick: () => this.choose(source) }, source),
      about: el("div", { class: "faint" }),
      sentence: el("td", { class: "sentence" }),
      bar: el("span", { class: "fill" }),
      used: el("span"),
      figures: FIGURES.map(() => el("td", { class: "number" })),
      findings: el("td", { class: "number" }),
      map: el("a", { class: "link" }, "Open"),
    };
    const node = el(
      "tr",
      { "data-source": source },
      el("td", {}, parts.status),
      el("td", {}, parts.name, parts.about),
      parts.sentence,
      el("td", { class: "usage" }, el("span", { class: "track" }, parts.bar), parts.used),
      ...parts.figures,
      parts.findings,
      el("td", {}, parts.map),
    );
    node.addEventListener("click", (event) => event.target.closest("a, button") ?? this.choose(source));
    node.kxParts = parts;
    return node;
  }

  #patch(node, engine, chosen) {
    const parts = node.kxParts;
    setAttribute(node, "data-status", engine.verdict.status);
    setAttribute(node, "data-chosen", engine.source === chosen);
    setAttribute(parts.name, "aria-pressed", String(engine.source === chosen));
    setText(parts.status, this.words.statuses[engine.verdict.status]);
    setText(parts.about, [engine.model, roleOf(engine), engine.labels.node].filter(Boolean).join("  ·  "));
    setText(parts.sentence, engine.verdict.sentence);
    setStyle(parts.bar, "width", `${(engine.figures.used?.value ?? 0) * 100}%`);
    setText(parts.used, figureText(engine.figures.used));
    FIGURES.forEach((name, at) => setText(parts.figures[at], figureText(engine.figures[name])));
    setText(parts.findings, count(engine.num_findings));
    setAttribute(parts.map, "href", pageUrl("live", engine.source, engine.at));
    setAttribute(parts.map, "aria-label", `Open the map of ${engine.source}`);
  }
}

/** What an engine is for, where that is not both. */
export const roleOf = ({ labels }) => (labels.role === "both" ? "" : labels.role);
