// The fleet: every engine of every make in one line, the worst first until somebody sorts otherwise, asked for once a
// second while somebody sees it.

import { apiUrl } from "./address.js";
import { el, reconcile, setAttribute, setText } from "./elements.js";
import { FleetRemoval } from "./fleet_removal.js";
import { FleetTable } from "./fleet_table.js";
import { plural, timeOfDay } from "./format.js";
import { defineComponent } from "./mount.js";
import { Polling } from "./polling.js";
import { applyTheme } from "./theme.js";
import { Tip } from "./tip.js";

class Fleet {
  constructor(root, { fleet: words, words: glossary }) {
    this.root = root;
    this.words = words;
    this.tip = new Tip(root);
    this.trouble = el("div", { class: "trouble", role: "status", hidden: true });
    this.problems = el("ul", { class: "problems", role: "status", hidden: true });
    this.empty = el("div", { class: "note panel" });
    this.removal = new FleetRemoval(() => this.feed.askNow());
    this.table = new FleetTable(words, glossary, this.tip, (engine) => this.removal.ask(engine));
    this.filter = el("input", {
      type: "search",
      placeholder: "Filter: name, make, model, label, state",
      "aria-label": "Filter engines",
      oninput: () => this.#draw(),
    });
    this.summary = el("span", { class: "muted", role: "status" });
    const head = el(
      "div",
      { class: "panel-head" },
      el("h2", {}, "Engines"),
      this.summary,
      el("span", { class: "tools" }, this.filter, attachLink("quiet-button")),
    );
    this.nothing = el("div", { class: "note", hidden: true });
    this.body = el("section", { class: "panel", hidden: true }, head, this.table.node, this.nothing);
    root.append(this.trouble, this.problems, this.empty, this.body, this.removal.node);
    this.#sayNothingYet(el("b", {}, "Looking at the engines"), "A moment, please.");
    this.feed = new Polling("engines", {}, () => this.#draw());
  }

  close() {
    this.feed.close();
    this.tip.close();
    this.root.replaceChildren();
  }

  #draw() {
    const { told, failed, failedSince } = this.feed;
    const shown = timeOfDay(new Date(failedSince).toISOString());
    setAttribute(this.trouble, "hidden", !failed);
    setText(this.trouble, failed && told ? `${failed} What is shown is of ${shown}. Trying again.` : failed);
    setAttribute(this.body, "data-old", Boolean(failed));
    if (!told) return setAttribute(this.empty, "hidden", Boolean(failed));
    const { engines } = told;
    this.#drawProblems(told.problems ?? []);
    setAttribute(this.body, "hidden", !engines.length);
    setAttribute(this.empty, "hidden", engines.length > 0);
    if (!engines.length) return this.#sayNoEngine();
    if (this.empty.childNodes.length) this.empty.replaceChildren();
    const listed = this.table.draw(engines, this.filter.value);
    setText(this.summary, summaryOf(engines, listed, this.words.statuses));
    setText(this.nothing, listed ? "" : `No engine fits “${this.filter.value.trim()}”.`);
    setAttribute(this.nothing, "hidden", listed > 0);
  }

  // Of the list of engines itself: a file that cannot be read, a name that leads nowhere.
  #drawProblems(problems) {
    setAttribute(this.problems, "hidden", !problems.length);
    reconcile(
      this.problems,
      problems,
      ({ where }) => where,
      () => el("li"),
      (node, { where, sentence }) => setText(node, `${where}: ${sentence}`),
    );
  }

  #sayNoEngine() {
    if (this.empty.querySelector("a")) return; // a link that has the focus keeps it
    const how = el("p", {}, "Say where one tells of its cache or its metrics: vLLM, SGLang, TensorRT-LLM, Dynamo.");
    this.#sayNothingYet(el("b", {}, "No engine to follow yet"), how, attachLink("main-button"));
  }

  #sayNothingYet(...parts) {
    this.empty.replaceChildren(...parts);
  }
}

const attachLink = (look) =>
  el("a", { class: look, href: new URL("../attach", apiUrl("")).href }, "Attach an engine");

function summaryOf(engines, listed, statuses) {
  const bad = ["critical", "warning"]
    .map((status) => [engines.filter((engine) => engine.status === status).length, statuses[status].toLowerCase()])
    .filter(([number]) => number)
    .map(([number, word]) => `${number}: ${word}`);
  const all = plural(engines.length, "engine");
  return [listed < engines.length ? `${listed} of ${all}` : all, ...bad].join("  ·  ");
}

export const mount = defineComponent("fleet", ({ parentElement, data }) => {
  applyTheme(parentElement, data.palettes);
  const view = new Fleet(parentElement.querySelector(".kx"), data);
  return {
    update: (next) => applyTheme(next.parentElement, next.data.palettes),
    destroy: () => view.close(),
  };
});
