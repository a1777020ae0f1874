// What an engine's metrics do not tell, in a fold: asked for when somebody opens it.

import { getJson } from "./address.js";
import { el, setAttribute, setText } from "./elements.js";
import { plural } from "./format.js";

export class SignalsUntold {
  constructor(tip) {
    this.tip = tip;
    this.engine = null;
    this.title = el("summary", {}, "What this engine does not tell");
    this.list = el("div", { class: "untold" });
    this.node = el("details", { class: "panel", hidden: true }, this.title, this.list);
    this.node.addEventListener("toggle", () => this.node.open && this.#ask());
  }

  close() {
    this.request?.abort();
  }

  show(engine, isShown) {
    setAttribute(this.node, "hidden", !isShown);
    if (engine === this.engine) return;
    this.engine = engine;
    this.list.replaceChildren();
    setText(this.title, "What this engine does not tell");
    if (this.node.open) this.#ask();
  }

  async #ask() {
    this.request?.abort();
    const request = (this.request = new AbortController());
    try {
      this.#draw(await getJson("signals", { engine: this.engine, all: 1 }, request.signal));
    } catch (error) {
      if (error.name !== "AbortError") this.list.replaceChildren(el("p", { class: "failed" }, error.message));
    }
  }

  #draw({ topics }) {
    const untold = topics
      .map(({ title, signals }) => [title, signals.filter(({ certainty }) => certainty === "not_observable")])
      .filter(([, signals]) => signals.length);
    const number = untold.reduce((sum, [, signals]) => sum + signals.length, 0);
    setText(this.title, `What this engine does not tell: ${plural(number, "signal")}`);
    this.list.replaceChildren(
      ...untold.map(([title, signals]) => el("section", {}, el("h3", {}, title), el("ul", {}, ...signals.map((one) => this.#item(one))))),
    );
  } // prettier-ignore

  #item({ label, meaning, name }) {
    const node = el("li", { tabindex: "0" }, label);
    this.tip.describe(node, () => [label, meaning, "This engine's metrics do not tell it.", `Signal ${name}.`]);
    return node;
  }
}
