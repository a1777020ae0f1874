// The line that says that the page is at a moment of the past, and goes from there to other moments: the event before or
// after, what was found, the present.

import { getJson } from "./address.js";
import { el, setAttribute, setText } from "./elements.js";
import { whenWords } from "./moment_words.js";

const FINDINGS = 200;
const SAID_MS = 2600;
const LABEL = 90; // characters of a sentence

export class ResidencyMoment {
  constructor(feed, requestDraw) {
    Object.assign(this, { feed, requestDraw, moment: feed.moment, said: "" });
    this.words = el("span");
    this.note = el("span", { class: "muted", role: "status" });
    this.back = el("button", { class: "quiet-button", onclick: () => this.#step(-1) }, "‹ Event before");
    this.next = el("button", { class: "quiet-button", onclick: () => this.#step(1) }, "Event after ›");
    this.live = el("button", { class: "quiet-button live", onclick: () => this.moment.goLive() }, "Back to live");
    this.found = el("select", { "aria-label": "Go to a finding", onchange: () => this.#goToFinding() });
    this.found.addEventListener("pointerdown", () => this.#list());
    this.found.addEventListener("focus", () => this.#list());
    this.#offer([]);
    this.node = el(
      "div",
      { class: "moment", role: "group", "aria-label": "Moment shown" },
      el("b", {}, "Past"),
      this.words,
      this.note,
      el("span", { class: "steps" }, this.back, this.next, this.found, this.live),
    );
  }

  draw() {
    const { isPast, summary } = this.feed;
    const at = summary?.seq ?? this.moment.at;
    setAttribute(this.node, "hidden", !isPast);
    setAttribute(this.live, "disabled", this.moment.at === this.moment.home);
    const time = summary?.time ? `${whenWords(summary.time)}  ·  ` : "";
    setText(this.words, summary ? `Everything is as it was at ${time}${at}` : `Asked for: ${at}`);
    setText(this.note, this.said);
  }

  async #step(by) {
    const { summary, source } = this.feed;
    const at = summary?.seq ?? this.moment.at;
    try {
      this.moment.go((await getJson("step", { source, at, by: "event", n: by })).at);
    } catch (error) {
      this.#say(error.message);
    }
  }

  // Findings of the present and of what is over, the newest first.
  async #list() {
    if (this.listed && Date.now() - this.listed < SAID_MS) return;
    this.listed = Date.now();
    const query = { source: this.feed.source, state: "all", limit: FINDINGS };
    const told = await getJson("findings", query).catch((error) => this.#say(error.message));
    if (told) this.#offer(told.findings);
  }

  #offer(findings) {
    const options = findings.map((finding) =>
      el("option", { value: `${finding.epoch}.${finding.seq1}` }, `${whenWords(finding.time, false)}: ${short(finding.sentence)}`),
    );
    this.found.replaceChildren(el("option", { value: "" }, "Go to a finding…"), ...options);
  }

  #goToFinding() {
    const { value } = this.found;
    this.found.value = "";
    if (value) this.moment.go(value);
  }

  #say(words) {
    this.said = words;
    clearTimeout(this.saying);
    this.saying = setTimeout(() => this.#say(""), SAID_MS);
    if (!words) clearTimeout(this.saying);
    this.requestDraw();
  }

  close() {
    clearTimeout(this.saying);
  }
}

const short = (text) => (text.length > LABEL ? `${text.slice(0, LABEL)}…` : text);
