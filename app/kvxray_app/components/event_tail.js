// The newest events as they come. Summaries carry only some of them: what was left out between two is said, not
// hidden.

import { el, reconcile, setAttribute, setText } from "./elements.js";
import { eventWords } from "./event_words.js";
import { count, plural, timeOfDay } from "./format.js";
import { LiveView, defineLiveComponent } from "./live_view.js";

const KEEP = 400;
const SHOWN = 80;
const STEPS = new Set(["StepStarted", "StepCompleted"]);
const TOKENS = new Set(["TokensGenerated", "BlockFilled"]);
const ABOUT = [
  "Events",
  "The newest ones as they come: the feed carries up to 30 twice a second. All of them are stored, see History.",
];

class EventTail extends LiveView {
  constructor(context) {
    super(context);
    this.events = [];
    this.paused = false;
    this.tokens = false; // what every token causes would drown the rest
    this.#build();
    this.listen(this.feed.subscribe("summary", (summary) => this.#take(summary.events)));
    if (this.feed.summary) this.#take(this.feed.summary.events);
  }

  draw() {
    setAttribute(this.nothing, "hidden", this.events.length > 0);
    setAttribute(this.pause, "aria-pressed", String(this.paused));
    setText(this.pause, this.paused ? "Resume" : "Pause");
    setAttribute(this.every, "aria-pressed", String(this.tokens));
    if (this.paused) return;
    const shown = this.tokens ? this.events : this.events.filter((event) => !TOKENS.has(event.kind));
    reconcile(
      this.list,
      shown.slice(0, SHOWN),
      (event) => event.seq,
      (event) => this.#row(event),
      (node, event) => this.#patch(node, event),
    );
  }

  #build() {
    this.list = el("ol");
    this.title = el("h2", { tabindex: "0" }, "Events");
    this.tip.describe(this.title, () => ABOUT);
    this.every = el(
      "button",
      { class: "quiet-button every", onclick: () => this.#toggle("tokens") },
      "Every token",
    );
    this.pause = el("button", { class: "quiet-button", onclick: () => this.#toggle("paused") }, "Pause");
    this.nothing = el(
      "div",
      { class: "note" },
      el("b", {}, "No events yet"),
      "Whatever happens to a block or a request is listed here.",
    );
    this.root.append(
      el(
        "section",
        { class: "panel tail", "aria-label": "Events" },
        el("div", { class: "panel-head" }, this.title, this.every, this.pause),
        el(
          "div",
          { class: "list scroll", tabindex: "0", "aria-label": "Newest events first" },
          this.list,
          this.nothing,
        ),
      ),
    );
  }

  #toggle(what) {
    this[what] = !this[what];
    this.requestDraw();
  }

  // Newest first. `before` is the seq of the event that truly precedes a row, when it is not the one shown
  // below it.
  #take(newest) {
    if (!newest?.length) return;
    const epoch = epochOf(newest[0]);
    if (this.events.length && epochOf(this.events[0]) !== epoch) this.events = [];
    const last = this.events.length ? numberOf(this.events[0]) : -1;
    const fresh = newest.filter((event) => numberOf(event) > last);
    if (!fresh.length) return;
    const skipped = last < 0 ? 0 : numberOf(fresh[fresh.length - 1]) - last - 1;
    fresh[fresh.length - 1].skipped = skipped;
    this.events = [...fresh, ...this.events].filter((event) => !STEPS.has(event.kind)).slice(0, KEEP);
    this.requestDraw();
  }

  // How many events are missing below a row is told where all kinds are listed; elsewhere rows are missing
  // anyway.
  #patch(node, event) {
    const skipped = this.tokens ? event.skipped : 0;
    setAttribute(node.lastChild, "hidden", !skipped);
    setText(node.lastChild, skipped ? `${plural(skipped, "more event")} between` : "");
  }

  #row(event) {
    const parts = [el("span", { class: "kind" }, event.kind)];
    if (event.block_id != null)
      parts.push(
        el(
          "button",
          { class: "link", onclick: () => this.selection.selectBlock(event.block_id) },
          `block ${count(event.block_id)}`,
        ),
      );
    if (event.request_id != null)
      parts.push(
        el(
          "button",
          { class: "link request mono", onclick: () => this.selection.selectRequest(event.request_id) },
          event.request_id,
        ),
      );
    return el(
      "li",
      {},
      el("time", { class: "faint mono" }, timeOfDay(event.time, true)),
      el("div", { class: "what" }, ...parts, el("span", { class: "faint" }, eventWords(event))),
      el("div", { class: "skipped faint", hidden: true }),
    );
  }
}

const numberOf = (event) => Number(event.seq.slice(event.seq.indexOf(".") + 1));
const epochOf = (event) => event.seq.slice(0, event.seq.indexOf("."));

export const mount = defineLiveComponent("event_tail", EventTail);
