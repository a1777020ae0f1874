// Asks before an engine is watched no longer: what is stored of it stays, what it does meanwhile is seen by nobody.

import { sendJson } from "./address.js";
import { el, setAttribute, setText } from "./elements.js";

export class FleetRemoval {
  /** `removed()`: called when one was removed. */
  constructor(removed) {
    this.removed = removed;
    this.engine = null;
    this.title = el("h2", { id: "removal-title" });
    this.problem = el("p", { class: "problem", role: "alert" });
    this.yes = el("button", { class: "main-button", onclick: () => this.#remove() }, "Stop watching it");
    const keep = el("button", { class: "quiet-button", onclick: () => this.node.close() }, "Keep it");
    this.node = el(
      "dialog",
      { class: "removal", "aria-labelledby": "removal-title" },
      this.title,
      el("p", {}, "It is no longer followed. The engine itself is not touched, and what is stored of it stays."),
      this.problem,
      el("div", { class: "actions" }, keep, this.yes),
    );
  }

  ask(engine) {
    this.engine = engine;
    setText(this.title, `Remove ${engine.name}?`);
    setText(this.problem, "");
    this.node.showModal();
  }

  async #remove() {
    setAttribute(this.yes, "disabled", true);
    try {
      await sendJson("DELETE", `engines/${encodeURIComponent(this.engine.name)}`);
      this.node.close();
      this.removed();
    } catch (error) {
      setText(this.problem, error.message);
    } finally {
      setAttribute(this.yes, "disabled", false);
    }
  }
}
