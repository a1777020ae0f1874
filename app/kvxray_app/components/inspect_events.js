// What happened to a block or a request, newest first: what repeats itself is one line, and times lead to their moments.

import { el, reconcile, setAttribute } from "./elements.js";
import { runsOf } from "./event_runs.js";
import { eventWords } from "./event_words.js";
import { count, timeOfDay } from "./format.js";
import { momentLink } from "./inspect_lists.js";

const NAMED = 5; // blocks of a run that are links

export class Events {
  /** `about`: "block" or "request", whose events they are: the other of both is said of each. */
  constructor(frame, about) {
    Object.assign(this, { frame, about });
    this.list = el("ol", { class: "events" });
    this.none = el("div", { class: "faint" }, "Nothing is stored.");
    this.node = el("div", {}, this.list, this.none);
  }

  /** Newest first; null: not known yet. */
  draw(events) {
    const runs = runsOf(events ?? [], isRepeated);
    const key = (run) => `${run.key} ${run.events[0].kind} ${run.events.length}`;
    reconcile(this.list, runs, key, (run) => this.#make(run.events), () => {});
    setAttribute(this.none, "hidden", !events || events.length > 0);
  }

  #make(events) {
    const [newest] = events;
    const many = events.length > 1 ? el("span", { class: "muted" }, ` ×${count(events.length)}`) : null;
    const others = this.about === "block" ? this.#request(newest) : this.#blocks(events);
    const words = many && others.length ? causeOf(newest) : eventWords(newest);
    const about = el("div", { class: "faint" }, ...others.flatMap((node) => [node, " "]), words);
    return el(
      "li",
      {},
      momentLink(this.frame, newest.seq, timeOfDay(newest.time, true)),
      el("div", {}, newest.kind, many, about),
    );
  }

  #request({ request_id: request }) {
    if (request == null) return [];
    const show = () => this.frame.selection.selectRequest(request);
    return [el("button", { class: "link mono", onclick: show }, request)];
  }

  #block(block) {
    const show = () => this.frame.selection.selectBlock(block);
    return el("button", { class: "link", onclick: show }, `block ${count(block)}`);
  }

  #blocks(events) {
    const blocks = events.map((event) => event.block_id).filter((block) => block != null);
    const links = blocks.slice(0, NAMED).map((block) => this.#block(block));
    const more = blocks.length - NAMED;
    return more > 0 ? [...links, el("span", {}, `and ${count(more)} more`)] : links;
  }
}

// What one action did to many blocks, and what goes on step by step (tokens, slots).
const isRepeated = (first, event) =>
  event.kind === first.kind && event.cause === first.cause && event.request_id === first.request_id;

const causeOf = ({ cause }) => (cause && cause !== "none" ? cause : "");
