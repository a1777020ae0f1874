// The runbook of a rule: when it fires, what to do, how to be sure, how it stands for each engine, and a trial on history.

import { sendJson } from "./address.js";
import { RuleTrial } from "./alerts_trial.js";
import { forWords, withCode } from "./alerts_words.js";
import { el, reconcile, setAttribute, setText } from "./elements.js";

const LISTS = [
  ["do", "What to do", "ol"],
  ["confirm", "Confirm it here", "ul"],
  ["on_vllm", "On vLLM", "ul"],
  ["on_sglang", "On SGLang", "ul"],
];

export class Runbook {
  /** `on`: {changed(), edit(text)}. */
  constructor(words, on) {
    Object.assign(this, { words, on, told: null, written: "" });
    this.when = el("ul");
    this.timing = el("p", { class: "muted" });
    this.meaning = el("p");
    this.meaningPart = el("section", {}, el("h3", { class: "part" }, "What it means"), this.meaning);
    this.lists = new Map(LISTS.map(([key, title, tag]) => [key, listPart(title, tag)]));
    this.trap = el("p");
    this.trapPart = el("section", {}, el("h3", { class: "part" }, "What a simpler rule gets wrong"), this.trap);
    this.needs = el("p", { class: "muted" });
    this.served = el("ul", { class: "served" });
    this.trial = new RuleTrial(words, () => ({ name: this.told.name }));
    this.own = this.#ownPart();
    this.node = el(
      "div",
      { class: "runbook" },
      el(
        "div",
        { class: "reads" },
        el("section", {}, el("h3", { class: "part" }, "It fires when"), this.when, this.timing),
        this.meaningPart,
        ...[...this.lists.values()].map(({ node }) => node),
        this.trapPart,
      ),
      el(
        "div",
        { class: "stands-here" },
        el("section", {}, el("h3", { class: "part" }, "How it stands"), this.needs, this.served),
        el("section", {}, el("h3", { class: "part" }, "Try it on history"), this.trial.node),
        this.own,
      ),
    );
  }

  draw(told) {
    this.told = told;
    this.#drawTexts(told);
    setText(this.needs, told.needs ? `Needs ${told.needs}.` : "");
    setAttribute(this.own, "hidden", told.origin !== "page");
    reconcile(
      this.served,
      told.served.length ? told.served : [{ engine: "", state: "nobody", why: "" }],
      ({ engine }) => engine,
      () => el("li", {}, el("i", { class: "lamp" }), el("b"), el("span"), el("div", { class: "muted" })),
      (node, { engine, state, why }) => {
        setAttribute(node, "data-stands", state);
        setText(node.children[1], engine);
        setText(node.children[2], this.words.stands[state] ?? "No engine is watched yet.");
        setText(node.children[3], why);
      },
    );
  }

  // Texts of a rule change only with the rule: they are written once.
  #drawTexts(told) {
    const key = JSON.stringify({ ...told, served: null, is_on: null });
    if (key === this.written) return;
    this.written = key;
    fill(this.when, told.when);
    const keeps = told.keep_firing_s ? ` It goes on firing for ${forWords(told.keep_firing_s)} after that.` : "";
    const held = told.for_s ? `All of it, for ${forWords(told.for_s)}.` : "At once.";
    setText(this.timing, `${held}${keeps}`);
    for (const [name, { node, list }] of this.lists) {
      fill(list, told[name]);
      setAttribute(node, "hidden", !told[name].length);
    }
    for (const [paragraph, section, text] of [
      [this.meaning, this.meaningPart, told.meaning ?? ""],
      [this.trap, this.trapPart, told.trap],
    ]) {
      paragraph.replaceChildren(...withCode(text));
      setAttribute(section, "hidden", !text);
    }
  }

  #ownPart() {
    this.problem = el("p", { class: "problem", role: "alert" });
    const edit = el("button", { class: "quiet-button", onclick: () => this.on.edit(this.told.text) }, "Edit");
    this.removal = el("button", { class: "quiet-button", onclick: () => this.#remove() }, "Remove");
    return el("section", { class: "own-part" }, edit, this.removal, this.problem);
  }

  // The second press removes it.
  async #remove() {
    if (!this.asked) {
      this.asked = true;
      setText(this.removal, "Remove it for good");
      this.removal.addEventListener("blur", () => this.#keep(), { once: true });
      return;
    }
    const failed = await sendJson("DELETE", `rules/${encodeURIComponent(this.told.name)}`).then(
      () => "",
      (error) => error.message,
    );
    setText(this.problem, failed);
    this.#keep();
    this.on.changed();
  }

  #keep() {
    this.asked = false;
    setText(this.removal, "Remove");
  }
}

function listPart(title, tag) {
  const list = el(tag);
  return { list, node: el("section", {}, el("h3", { class: "part" }, title), list) };
}

const fill = (list, texts) => list.replaceChildren(...texts.map((text) => el("li", {}, ...withCode(text))));
