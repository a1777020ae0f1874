// One cached hash in full: where it is, since when, what it continues and what continues it.

import { getJson } from "./address.js";
import { el, reconcile, setAttribute, setText } from "./elements.js";
import { count, plural, shortHash, timeOfDay } from "./format.js";
import { whenWords } from "./moment_words.js";
import { copyFrom } from "./inspect_copy.js";
import { residencyEventWords } from "./residency_event_words.js";
import { groupKind, mediumName } from "./residency_look.js";

const HISTORY = 50; // events
const FACTS = ["State", "Place in its chain", "Continues", "Copies", "Stored", "Removed", "Reuses told", "Stored for"];

export class ResidencyInspector {
  /** `screen`: {feed, view, tip, requestDraw()}. */
  constructor({ feed, view, tip, requestDraw }) {
    Object.assign(this, { feed, view, requestDraw });
    this.answer = null;
    this.problem = "";
    this.asked = "";
    this.values = {};
    this.title = el("h2", {}, "Block");
    this.close = el("button", { class: "quiet-button", "aria-label": "Close", onclick: () => view.letGo() }, "×");
    this.copy = el("button", { class: "quiet-button", onclick: () => copyFrom(this.copy, this.answer.hash) }, "Copy");
    this.whole = el("span", { class: "whole mono" });
    this.said = el("div", { class: "note" });
    this.places = el("ul", { class: "here" });
    this.children = el("ul", { class: "children" });
    this.more = el("h3", {}, "Continued by");
    this.foundTitle = el("h3", {}, "Found about it");
    this.findings = el("ul", { class: "about" });
    this.historyTitle = el("h3", {}, "History, newest first");
    this.history = el("ol", { class: "history" });
    this.body = el(
      "div",
      { class: "body scroll", tabindex: "0", role: "group", "aria-label": "The block in full" },
      el("div", { class: "hash-line" }, this.whole, this.copy),
      el("dl", {}, ...FACTS.flatMap((name) => [el("dt", {}, name), (this.values[name] = el("dd"))])),
      el("h3", {}, "Where it is"),
      this.places,
      this.more,
      this.children,
      this.foundTitle,
      this.findings,
      this.historyTitle,
      this.history,
    );
    this.node = el(
      "section",
      { class: "panel inspector", "aria-label": "Inspector", "aria-live": "off" },
      el("div", { class: "panel-head" }, this.title, this.close),
      this.said,
      this.body,
    );
  }

  /** The selection, or what is cached, may be another now. */
  follow() {
    const { hash, ordinal, isSelected } = this.view;
    const { summary } = this.feed;
    const about = isSelected ? (hash ?? `#${ordinal}`) : "";
    const key = about && `${about} ${summary?.seq}`;
    if (key === this.asked) return;
    if (!about || about !== this.about) [this.answer, this.problem] = [null, ""];
    Object.assign(this, { asked: key, about });
    this.asking?.abort();
    if (about) this.#ask(hash === null ? { ordinal } : { hash });
  }

  draw() {
    const { isSelected } = this.view;
    const { answer, problem } = this;
    setAttribute(this.close, "hidden", !isSelected);
    setAttribute(this.body, "hidden", !answer);
    setAttribute(this.said, "hidden", Boolean(answer));
    if (!isSelected) setText(this.said, "Press a cell of the map, or a hash in the events, to see all that is known of it.");
    else setText(this.said, problem || "Asking for it.");
    setText(this.title, answer ? `Block ${shortHash(answer.hash)}` : "Inspector");
    if (answer) this.#drawAnswer(answer);
  }

  shut() {
    this.asking?.abort();
  }

  async #ask(what) {
    const asking = (this.asking = new AbortController());
    try {
      const answer = await getJson("residency/hash", this.feed.query({ ...what, history: HISTORY }), asking.signal);
      if (asking !== this.asking) return;
      [this.answer, this.problem] = [answer, ""];
      // Asked by its number the answer has its hash, and the other way round: the question stays the same.
      this.about = answer.hash;
      this.asked = `${answer.hash} ${this.feed.summary?.seq}`;
      this.view.resolve(answer.hash, answer.ordinal ?? null);
    } catch (error) {
      if (asking !== this.asking || error.name === "AbortError") return;
      this.problem = error.message;
      if (error.status === 404) this.answer = null;
    }
    this.requestDraw();
  }

  #drawAnswer(answer) {
    const { places, parent } = answer;
    const sum = (name) => places.reduce((all, place) => all + place[name], 0);
    setText(this.whole, answer.hash);
    this.#set("State", CERTAINTY[answer.certainty]);
    this.#set("Place in its chain", chainWords(answer));
    this.#setLink("Continues", parent, answer.is_root ? "nothing: it begins its chain" : "not told");
    this.#set("Copies", count(answer.copies));
    this.#set("Stored", plural(sum("stores"), "time"));
    this.#set("Removed", plural(sum("removals"), "time"));
    this.#set("Reuses told", sum("reuses") ? count(sum("reuses")) : "none");
    this.#set("Stored for", nameWords(answer) || "nobody in particular");
    this.#drawPlaces(places);
    this.#drawChildren(answer.children, answer.num_children);
    this.#drawHistory(answer.history ?? []);
    setAttribute(this.foundTitle, "hidden", !answer.findings.length);
    reconcile(
      this.findings,
      answer.findings,
      ({ id }) => id,
      () => el("li"),
      (node, finding) => {
        setAttribute(node, "data-severity", finding.severity);
        setText(node, finding.sentence);
      },
    );
  }

  #set(name, text) {
    setText(this.values[name], text);
  }

  #setLink(name, link, without) {
    const value = this.values[name];
    const key = link ? `${link.ordinal} ${link.is_here}` : without;
    if (value.kxKey === key) return;
    value.kxKey = key;
    value.replaceChildren(link ? this.#link(link) : without);
  }

  #link({ hash, ordinal, is_here: isHere }) {
    const go = () => this.view.select({ hash, ordinal });
    const words = `${hash ? shortHash(hash) : `number ${ordinal}`}${isHere ? "" : ", gone"}`;
    return el("button", { class: "link mono", title: hash, onclick: go }, words);
  }

  #drawPlaces(places) {
    reconcile(
      this.places,
      places,
      ({ place }) => place,
      () => el("li", {}, el("b"), el("span", { class: "muted" })),
      (node, place) => {
        setText(node.firstChild, `${mediumName(place.medium, place.tier)}, group ${place.group}, ${groupKind(place.kind)}`);
        setText(node.lastChild, placeWords(place));
      },
    );
  }

  #drawHistory(events) {
    setAttribute(this.historyTitle, "hidden", !events.length);
    reconcile(
      this.history,
      events,
      ({ seq }) => seq,
      (event) => {
        const go = () => this.feed.moment.go(event.seq);
        const title = `Show the moment after event ${event.seq}`;
        const { kind, words } = residencyEventWords(event);
        const when = el("button", { class: "link faint mono time", title, onclick: go }, timeOfDay(event.time, true));
        return el("li", {}, when, el("span", {}, el("b", {}, kind), " ", el("span", { class: "faint" }, words)));
      },
      () => {},
    );
  }

  #drawChildren(children, all) {
    setText(this.more, all > children.length ? `Continued by ${count(all)}, of them` : "Continued by");
    setAttribute(this.more, "hidden", !children.length);
    reconcile(
      this.children,
      children,
      ({ ordinal, is_here: isHere }) => `${ordinal} ${isHere}`,
      (child) => el("li", {}, this.#link(child)),
      () => {},
    );
  }
}

const CERTAINTY = { certain: "certainly cached", maybe: "maybe cached", gone: "not cached any more" };

function chainWords({ is_root: isRoot, chain_length: length }) {
  if (isRoot === null) return `number ${count(length)} of what is known of it`;
  return isRoot ? "the first block" : `block ${count(length)}`;
}

function nameWords({ session, lora, salt }) {
  const told = { session, adapter: lora, salt };
  return Object.entries(told)
    .filter(([, value]) => value)
    .map(([what, value]) => `${what} ${value}`)
    .join(", ");
}

function placeWords({ copies, certainty, first, last, block_size: size }) {
  return [
    copies === 0 ? "gone" : `${plural(copies, "copy", "copies")}${certainty === "maybe" ? ", maybe" : ""}`,
    size ? `${count(size)} tokens` : "",
    first ? `since ${whenWords(first, false)}` : "",
    last ? `last heard of ${whenWords(last, false)}` : "",
  ]
    .filter(Boolean)
    .join("  ·  ");
}
