// The panels below the verdict: figures in groups, the pool as a bar and in three units, and the stream's health.

import { el, reconcile, setAttribute, setText, setWords } from "./elements.js";
import { NO_DATA, count, size, timeOfDay } from "./format.js";
import { whenWords } from "./moment_words.js";
import { drawFigure, explainFigure, figureRow } from "./overview_figures.js";
import { pageUrl } from "./overview_links.js";
import { StateBar } from "./state_bar.js";

const AMOUNTS = [
  ["referenced", ["active", "shared"]],
  ["cached", ["cached"]],
  ["free or empty", ["free", "empty"]],
];

const LINKS = { live: "Map", timelines: "Timelines", signals: "Signals" };

/** One panel of figures. `figuresOf(told)` gives its figures out of what it is drawn from. */
export class FigurePanel {
  constructor(panel, certainties, tip) {
    this.panel = panel;
    this.figures = {};
    this.findings = [];
    this.rows = panel.rows.map((row) => [
      row,
      figureRow(row, tip, () => explainFigure(row, this.figures[row.figure], certainties, this.findings)),
    ]);
    this.link = el("a", { class: "link" });
    this.body = el("div", { class: "rows" }, ...this.rows.map(([, drawn]) => drawn.node));
    this.node = el(
      "section",
      { class: "card panel", "data-key": panel.key, "aria-label": panel.title },
      el("div", { class: "panel-head" }, el("h2", {}, panel.title), this.link),
      this.body,
    );
  }

  /** `page`: where its link leads, at `href`; without one there is none. */
  draw(figures, findings, page, href) {
    setText(this.link, LINKS[page] ?? "");
    this.figures = figures;
    this.findings = findings;
    for (const [row, drawn] of this.rows) drawFigure(drawn, figures[row.figure], row.plain);
    setAttribute(this.link, "hidden", !href);
    setAttribute(this.link, "href", href);
  }
}

/** The usage panel also shows the pool: who holds how much, in all three units. */
export class UsagePanel extends FigurePanel {
  constructor(...given) {
    super(...given);
    this.bar = new StateBar();
    this.amounts = AMOUNTS.map(([label]) => {
      const cells = [1, 2, 3].map(() => el("td"));
      return { cells, row: el("tr", {}, el("th", { scope: "row" }, label), ...cells) };
    });
    const heads = ["pool", "blocks", "tokens", "bytes"].map((text) => el("th", { scope: "col" }, text));
    this.table = el(
      "table",
      { class: "amounts" },
      el("thead", {}, el("tr", {}, ...heads)),
      el("tbody", {}, ...this.amounts.map(({ row }) => row)),
    );
    const pool = el("div", { class: "pool" }, el("div", {}, this.bar.node, this.table));
    this.body.before(pool);
    pool.append(this.body);
  }

  drawPool(engine) {
    this.bar.draw(engine.counts);
    this.amounts.forEach(({ cells }, at) => {
      const blocks = sum(AMOUNTS[at][1].map((name) => engine.counts[name]?.value));
      const told = [count(blocks), tokens(blocks, engine), bytes(blocks, engine)];
      cells.forEach((cell, place) => setText(cell, told[place]));
    });
  }
}

const sum = (values) => (values.some((value) => value == null) ? null : values.reduce((all, one) => all + one, 0));
const tokens = (blocks, { block_size }) => (blocks == null ? NO_DATA : count(blocks * block_size));
const bytes = (blocks, { bytes_per_block }) =>
  blocks == null || !bytes_per_block ? NO_DATA : size(blocks * bytes_per_block);

const PHASES = {
  connected: "connected",
  stale: "silent",
  joining: "joining",
  waiting: "never heard",
  past: "stored, not followed",
  no_stream: "none, metrics only",
};

/** How well the stream is followed. */
export class HealthPanel {
  constructor(title, tip, words) {
    this.values = {};
    const rows = ["stream", "since", "epoch", "gaps", "drops", "bad"].map((key) => this.#row(key, tip, words));
    this.node = el(
      "section",
      { class: "card panel", "data-key": "health", "aria-label": title },
      el("div", { class: "panel-head" }, el("h2", {}, title)),
      el("div", { class: "rows" }, ...rows),
    );
  }

  draw(engine) {
    const told = {
      stream: PHASES[engine.state],
      since: engine.since ? whenWords(engine.since, false) : NO_DATA,
      epoch: count(engine.epoch),
      gaps: count(engine.gaps),
      drops: count(engine.drops),
      bad: count(engine.bad_messages),
    };
    for (const [key, value] of Object.entries(this.values)) setText(value, told[key]);
  }

  #row(key, tip, words) {
    const value = (this.values[key] = el("b", { class: "value" }));
    const label = key === "bad" ? "Bad messages" : key[0].toUpperCase() + key.slice(1);
    const row = el(
      "div",
      { class: "row", tabindex: "0", "data-figure": key },
      el("span", { class: "name" }, label),
      el("span", { class: "dots" }),
      value,
    );
    tip.describe(row, () => [label, words.health[key] ?? ""]);
    return row;
  }
}

/** Findings as sentences, each a link to its moment; says so when there are none, or more than are listed. */
export class FindingsPanel {
  constructor(key, title, none) {
    this.list = el("ul", { class: "findings" });
    this.none = el("div", { class: "note" }, none);
    this.number = el("span", { class: "muted" });
    this.node = el(
      "section",
      { class: "card wide panel", "data-key": key, "aria-label": title },
      el("div", { class: "panel-head" }, el("h2", {}, title), this.number),
      this.list,
      this.none,
    );
  }

  /** `all`: how many there are. `lookedAt`: when they were looked for last, where that is known. */
  draw(findings, source, all = findings.length, lookedAt = null) {
    const listed = all > findings.length ? `${count(findings.length)} of ${count(all)} listed` : "";
    setText(this.number, [listed, lookedAt ? `as of ${timeOfDay(lookedAt)}` : ""].filter(Boolean).join("  ·  "));
    setAttribute(this.none, "hidden", findings.length > 0);
    setAttribute(this.list, "hidden", findings.length === 0);
    reconcile(
      this.list,
      findings,
      (finding) => finding.id,
      () => el("li", {}, el("time", { class: "faint" }), el("a", { class: "sentence" })),
      (node, finding) => {
        setAttribute(node, "data-severity", finding.severity);
        setText(node.children[0], whenWords(finding.time, false));
        setWords(node.children[1], finding.sentence, finding.subjects.requests);
        setAttribute(
          node.children[1],
          "href",
          pageUrl("live", source, finding.epoch ? `${finding.epoch}.${finding.seq1}` : ""),
        );
      },
    );
  }
}
