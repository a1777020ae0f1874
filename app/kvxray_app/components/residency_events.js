// The newest events of an engine that tells of hashes, in words; what one event said of many blocks is one line.

import { el, reconcile, setAttribute, setText } from "./elements.js";
import { count, shortHash, timeOfDay } from "./format.js";
import { residencyEventWords, runsOfHashes } from "./residency_event_words.js";

const SHOWN = 60;

export class ResidencyEvents {
  constructor(feed, view, moment) {
    Object.assign(this, { feed, view, moment });
    this.list = el("ol");
    this.nothing = el("div", { class: "note" }, el("b"), el("span"));
    this.node = el(
      "section",
      { class: "panel tail", "aria-label": "Events" },
      el("div", { class: "panel-head" }, el("h2", {}, "Events"), el("span", { class: "muted" }, "newest first")),
      el("div", { class: "list scroll", tabindex: "0", role: "group", "aria-label": "Newest events first" }, this.list, this.nothing),
    );
  }

  draw() {
    const { events, eventsProblem } = this.feed;
    const runs = runsOfHashes(events).slice(0, SHOWN);
    setAttribute(this.nothing, "hidden", runs.length > 0);
    setText(this.nothing.firstChild, eventsProblem ? "No events to list" : "No events yet");
    setText(this.nothing.lastChild, eventsProblem || "Whatever is stored in the cache or leaves it is listed here.");
    reconcile(
      this.list,
      runs,
      (run) => run.key,
      (run) => this.#row(run),
      (node, run) => patch(node, run),
    );
  }

  #row(run) {
    const parts = {
      when: el("button", { class: "link faint mono time", onclick: () => this.moment.go(node.kxNewest) }),
      times: el("span", { class: "muted" }),
      words: el("span", { class: "faint" }),
    };
    const { hash } = run.first;
    const link = hash
      ? el("button", { class: "link mono", title: hash, onclick: () => this.view.select({ hash }) }, shortHash(hash))
      : null;
    const kind = el("span", { class: "kind" }, residencyEventWords(run.first).kind);
    const node = el("li", {}, parts.when, el("div", { class: "what" }, ...[kind, parts.times, link, parts.words].filter(Boolean)));
    node.kxParts = parts;
    return node;
  }
}

function patch(node, run) {
  const { when, times, words } = node.kxParts;
  node.kxNewest = run.newest.seq;
  setText(when, timeOfDay(run.newest.time, true));
  setAttribute(when, "title", `Show the moment after event ${run.newest.seq}`);
  setText(times, run.size > 1 ? `${count(run.size)} blocks from` : "");
  setText(words, residencyEventWords(run.first).words);
}
