// Which engine's metrics are shown: a choice where there are several whose metrics are read, kept in the address.

import { getJson } from "./address.js";
import { el, setAttribute } from "./elements.js";

const AGAIN_MS = 15_000;

export class SignalsEngines {
  /** `choose(name)`: somebody chose another one. */
  constructor(chosen, choose) {
    this.chosen = chosen;
    this.node = el("select", { "aria-label": "Engine", hidden: true });
    this.node.addEventListener("change", () => {
      this.chosen = this.node.value;
      keep(this.chosen);
      choose(this.chosen);
    });
    this.#ask();
  }

  close() {
    clearTimeout(this.timer);
    this.isClosed = true;
  }

  async #ask() {
    try {
      const { engines } = await getJson("engines");
      if (this.isClosed) return;
      this.#draw(engines.filter(({ metrics }) => metrics.state !== "none").map(({ name }) => name));
    } catch {
      // The page says so itself where nothing answers; the choice comes when something does.
    }
    if (!this.isClosed) this.timer = setTimeout(() => this.#ask(), AGAIN_MS);
  }

  #draw(names) {
    const listed = this.chosen === null || names.includes(this.chosen) ? names : [this.chosen, ...names];
    const have = [...this.node.options].map(({ value }) => value);
    if (JSON.stringify(have) !== JSON.stringify(listed))
      this.node.replaceChildren(...listed.map((name) => el("option", { value: name }, name)));
    if (this.chosen !== null) this.node.value = this.chosen;
    setAttribute(this.node, "hidden", listed.length < 2);
  }
}

function keep(name) {
  const url = new URL(location.href);
  url.searchParams.set("source", name);
  history.replaceState(history.state, "", url);
}
