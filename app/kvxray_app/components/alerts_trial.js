// A rule tried on history: how often it would have fired, when, and how much of that time can be told.

import { sendJson } from "./address.js";
import { lastedWords, linkUrl } from "./alerts_words.js";
import { el, reconcile, setAttribute, setText } from "./elements.js";
import { count, percent } from "./format.js";
import { whenWords } from "./moment_words.js";

const DAY_MS = 86_400_000;
const LISTED = 20;

export class RuleTrial {
  /** `what()`: {name} of a rule there is, or {text} of one that is being written. `told(error)`: of what went wrong. */
  constructor(words, what, told = () => {}) {
    Object.assign(this, { what, told, trying: null });
    const buttons = Object.entries(words.stretches).map(([days, label]) =>
      el("button", { class: "quiet-button", type: "button", onclick: () => this.#try(Number(days)) }, label),
    );
    this.buttons = el("span", { class: "stretches", role: "group", "aria-label": "Try it on history" }, ...buttons);
    this.result = el("p", { class: "result", role: "status" });
    this.fired = el("ul", { class: "would" });
    this.unlisted = el("p", { class: "faint" });
    this.engines = el("ul", { class: "known-of" });
    this.node = el("div", { class: "trial" }, this.buttons, this.result, this.fired, this.unlisted, this.engines);
    this.#draw(null);
  }

  /** Forget what came out. */
  clear() {
    this.trying = null;
    this.#draw(null);
    this.#say("");
  }

  async #try(days) {
    const trying = (this.trying = {});
    const to = Date.now();
    const stretch = { from: new Date(to - days * DAY_MS).toISOString(), to: new Date(to).toISOString() };
    this.#draw(null);
    this.#say("Looking through history…");
    this.told("");
    try {
      const told = await sendJson("POST", "rules/try", {}, { ...this.what(), ...stretch });
      if (trying !== this.trying) return;
      this.#draw(told);
      this.#say(told.sentence, told.num_fired ? "fires" : "calm");
    } catch (error) {
      if (trying !== this.trying) return;
      this.#say(error.message, "failed");
      this.told(error.message);
    }
  }

  #say(words, kind = "") {
    setText(this.result, words);
    setAttribute(this.result, "data-is", kind || null);
  }

  #draw(told) {
    const fired = told?.fired ?? [];
    const listed = fired.slice(0, LISTED);
    reconcile(
      this.fired,
      listed.map((one, at) => [at, one]),
      ([at, { engine, fired: when }]) => `${at} ${engine} ${when}`,
      () => el("li", {}, el("a", { class: "link" }), el("span"), el("div", { class: "faint" })),
      (node, [, would]) => {
        setText(node.children[0], whenWords(would.fired, false));
        setAttribute(node.children[0], "href", linkUrl(would.link));
        const lasted = would.ended ? `for ${lastedWords(would.began, would.ended, 0)}` : "and would fire now";
        setText(node.children[1], ` ${would.engine}, ${lasted}`);
        setText(node.children[2], would.culprit);
      },
    );
    const more = (told?.num_fired ?? 0) - listed.length;
    setText(this.unlisted, more > 0 ? `${count(more)} earlier ones are not listed.` : "");
    reconcile(
      this.engines,
      (told?.engines ?? []).filter(({ known_share: share }) => share < 1),
      ({ engine }) => engine,
      () => el("li", { class: "muted" }),
      (node, { engine, known_share: share, why }) =>
        setText(node, `${engine}: ${share ? `${percent(share)} of the time can be told` : "nothing can be told"}. ${why}`.trim()),
    );
  }
}
