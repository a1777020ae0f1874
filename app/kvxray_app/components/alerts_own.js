// A rule of one's own, as YAML: checked by the server, tried on history before it is switched on, saved.

import { sendJson } from "./address.js";
import { RuleTrial } from "./alerts_trial.js";
import { el, setAttribute, setText } from "./elements.js";

export class OwnRule {
  /** `saved()`: called when one was. */
  constructor(words, saved) {
    Object.assign(this, { words, saved });
    this.text = el("textarea", {
      id: "own-rule",
      class: "mono",
      rows: "14",
      spellcheck: "false",
      autocapitalize: "off",
      "aria-describedby": "own-problem",
      oninput: () => this.#changed(),
    });
    this.problem = el("p", { id: "own-problem", class: "problem", role: "alert" });
    this.trial = new RuleTrial(words, () => ({ text: this.text.value }), (error) => this.#blame(error));
    this.save = el("button", { class: "main-button", onclick: () => this.#save() }, "Save and switch on");
    const leave = el("button", { class: "quiet-button", onclick: () => this.leave() }, "Close");
    this.node = el(
      "section",
      { class: "panel own", hidden: true, "aria-label": "A rule of your own" },
      el("div", { class: "panel-head" }, el("h2", {}, "A rule of your own"), el("span", { class: "tools" }, leave)),
      el(
        "div",
        { class: "own-columns" },
        el(
          "div",
          {},
          el("label", { for: "own-rule", class: "muted" }, "YAML, over the signals, figures and findings that are watched"),
          this.text,
          this.problem,
          this.save,
        ),
        el("div", {}, el("h3", { class: "part" }, "Try it on history first"), this.trial.node),
      ),
    );
  }

  /** Write one: anew (""), or from the text of one there is. */
  begin(text) {
    this.text.value = text || this.words.example;
    this.#changed();
    setAttribute(this.node, "hidden", false);
    this.node.scrollIntoView({ block: "nearest" });
    this.text.focus();
  }

  leave() {
    setAttribute(this.node, "hidden", true);
    this.trial.clear();
  }

  #changed() {
    this.#blame("");
    this.trial.clear();
  }

  async #save() {
    setAttribute(this.save, "disabled", true);
    try {
      await sendJson("POST", "rules", {}, { text: this.text.value });
      this.leave();
      this.saved();
    } catch (error) {
      this.#blame(error.message);
    } finally {
      setAttribute(this.save, "disabled", false);
    }
  }

  // The sentence names the line: it is marked in the box.
  #blame(sentence) {
    setText(this.problem, sentence);
    setAttribute(this.text, "aria-invalid", sentence ? "true" : null);
    const line = Number(/\bline (\d+)/i.exec(sentence)?.[1]);
    if (!line) return;
    const lines = this.text.value.split("\n");
    const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    this.text.focus();
    this.text.setSelectionRange(start, start + (lines[line - 1] ?? "").length);
  }
}
