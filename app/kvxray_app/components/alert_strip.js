// A strip above the live page that names the alert whose culprits are marked: since when, whose fault, its blocks and
// requests, and the ways back: to its moment, to the alerts, to a page without marks.

import { apiUrl } from "./address.js";
import { markFor } from "./alert_mark.js";
import { el, reconcile, setAttribute, setText, setWords } from "./elements.js";
import { count, plural, shortHash } from "./format.js";
import { whenWords } from "./moment_words.js";
import { momentFor } from "./moment.js";
import { defineComponent } from "./mount.js";
import { residencyViewFor } from "./residency_view.js";
import { selectionFor } from "./selection.js";
import { applyTheme } from "./theme.js";

const CHIPS = 4; // of each kind; the map marks all of them

class AlertStrip {
  constructor(root, { source, home, kind, severities }) {
    Object.assign(this, { root, source, kind, severities });
    this.mark = markFor(source);
    this.moment = momentFor(source, home);
    this.status = el("span", { class: "status" });
    this.name = el("a", { class: "name" });
    this.since = el("span", { class: "muted" });
    this.says = el("p", { class: "says" });
    this.note = el("p", { class: "muted note", role: "status" });
    this.chips = el("ul", { class: "chips", "aria-label": "What is marked" });
    this.then = el("button", { class: "quiet-button", onclick: () => this.moment.go(this.#at()) }, "To when it fired");
    this.back = el("a", { class: "quiet-button" }, "Back to alerts");
    const off = el("button", { class: "quiet-button", onclick: () => this.mark.remove() }, "Remove marks");
    this.node = el(
      "section",
      { class: "strip panel", hidden: true, "aria-label": "Marked alert" },
      el("div", { class: "top" }, this.status, this.name, this.since, el("span", { class: "ways" }, this.then, this.back, off)),
      this.says,
      this.note,
      this.chips,
    );
    root.append(this.node);
    const draw = () => this.#draw();
    this.exits = [this.mark.subscribe(draw), this.moment.subscribe(draw)];
    this.mark.writeAddress();
    this.#draw();
  }

  close() {
    for (const exit of this.exits) exit();
    this.root.replaceChildren();
  }

  #at() {
    return this.mark.view.alert.moment.at;
  }

  #draw() {
    this.mark.show(this.moment.at);
    const { id, view, problem } = this.mark;
    setAttribute(this.node, "hidden", id === null || (!view && !problem));
    if (id === null) return;
    setAttribute(this.back, "href", alertUrl(id));
    if (!view) return this.#drawProblem(problem);
    const { alert } = view;
    setAttribute(this.node, "data-status", alert.severity);
    setText(this.status, this.severities[alert.severity]);
    setText(this.name, alert.rule);
    setAttribute(this.name, "href", alertUrl(id));
    setText(this.since, sinceWords(alert));
    setWords(this.says, [alert.sentence, alert.culprit].filter(Boolean).join(" "), this.mark.requests ?? []);
    setAttribute(this.then, "hidden", alert.moment.source !== this.source || this.moment.at === this.#at());
    this.#drawNote(alert);
    this.#drawChips();
  }

  #drawNote({ moment }) {
    const isThen = moment.source === this.source && this.moment.at === moment.at;
    const words = [isThen && this.mark.found.some((one) => isNoticedAfter(one, moment)) ? NOTICED_AFTER : "", laterWords(this.mark.later)];
    setText(this.note, words.filter(Boolean).join(" "));
    setAttribute(this.note, "hidden", !this.note.textContent);
  }

  #drawProblem(problem) {
    setAttribute(this.node, "data-status", "cannot_tell");
    setText(this.status, "No marks");
    setText(this.says, problem);
    setAttribute(this.note, "hidden", true);
    setAttribute(this.then, "hidden", true);
  }

  #drawChips() {
    const chips = [
      ...this.#kind("requests", "request", (request) => request, (it) => selectionFor(this.source).selectRequest(it)),
      ...this.#kind("blocks", "block", (block) => `block ${count(block)}`, (it) => selectionFor(this.source).selectBlock(it)),
      ...this.#kind("hashes", "hash", shortHash, (it) => this.#selectHash(it)),
    ];
    setAttribute(this.chips, "hidden", !chips.length);
    reconcile(
      this.chips,
      chips,
      ({ key }) => key,
      ({ words, press }) => el("li", {}, press ? el("button", { class: "chip mono", onclick: press }, words) : words),
      () => {},
    );
  }

  // The first few of a kind, and how many more the page marks.
  #kind(kind, one, words, select) {
    const all = this.mark[kind] ?? [];
    const chips = all.slice(0, CHIPS).map((it) => ({ key: `${kind} ${it}`, words: words(it), press: () => select(it) }));
    const more = all.length - chips.length;
    return more > 0 ? [...chips, { key: `more ${kind} ${more}`, words: `and ${moreWords(more, one)}` }] : chips;
  }

  #selectHash(hash) {
    if (this.kind === "hashes") residencyViewFor(this.source).select({ hash });
    else selectionFor(this.source).selectPrefix(hash);
  }
}

const NOTICED_AFTER = "It was noticed after this event, the last before the alert: the figures of this moment may not count it yet.";

// Found because time passed, with no event after which figures could count it.
const isNoticedAfter = ({ kind, epoch, seq1 }, moment) =>
  ["leak", "stuck_pin"].includes(kind) && epoch === moment.epoch && seq1 === moment.seq;

const laterWords = (number) =>
  number ? `${plural(number, "more finding", "more findings")} came after this moment and ${number === 1 ? "is" : "are"} not marked in it.` : "";

const moreWords = (number, one) => plural(number, `more ${one}`, `more ${one === "hash" ? "hashes" : `${one}s`}`);

function alertUrl(id) {
  const url = new URL("../alerts", apiUrl(""));
  url.searchParams.set("id", id);
  return url.href;
}

function sinceWords({ engine, began, ended }) {
  const since = `on ${engine} since ${whenWords(began, false)}`;
  return ended ? `${since}, over at ${whenWords(ended, false)}` : since;
}

export const mount = defineComponent("alert_strip", (component) => {
  let source = component.data.source;
  const open = ({ parentElement, data }) => {
    applyTheme(parentElement, data.palettes);
    return new AlertStrip(parentElement.querySelector(".kx"), data);
  };
  let strip = open(component);
  return {
    update(next) {
      if (next.data.source === source) return void applyTheme(next.parentElement, next.data.palettes);
      strip.close();
      source = next.data.source;
      strip = open(next);
    },
    destroy: () => strip.close(),
  };
});
